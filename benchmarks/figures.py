"""Redraws the pictures of the documents from the kept results of full benchmark runs."""

from __future__ import annotations

import json
from typing import Any

from draw import COLOURS, picture
from measure import RESULTS


def main() -> None:
    """Draw everything there are results for."""
    for name, redraw in (
        ("ets", ets),
        ("sort", sort),
        ("sort_as_needed", sort_as_needed),
        ("bands", bands),
        ("merge", merge),
        ("heartbeats", heartbeats),
    ):
        kept = RESULTS / f"{name}.json"
        if kept.exists():
            redraw(json.loads(kept.read_text(encoding="utf-8")))


def ets(kept: dict[str, Any]) -> None:
    """Figures 7 and 8 of the on-demand time-stamp paper, for the union and for the join."""
    for operator, prefix in (("union", "ets"), ("join", "ets_join")):
        series = kept["series"][operator]
        _by_rate(
            f"{prefix}_latency",
            f"Mean latency of the {operator}, 500 and 0.5 events/s (figure 7)",
            "mean latency, ms",
            kept["machine"],
            [(rate, latency) for rate, latency, _ in series["periodic"]],
            {"A": series["none"][0], "C": series["demand"][0]},
        )
        _by_rate(
            f"{prefix}_queue",
            f"Most elements waiting at the {operator}, 500 and 0.5 events/s (figure 8)",
            "peak queue, elements",
            kept["machine"],
            [(rate, queue) for rate, _, queue in series["periodic"]],
            {"A": series["none"][1], "C": series["demand"][1]},
        )


_LABELS = {"A": "A  no punctuations", "B": "B  periodic", "C": "C  on demand"}


def _by_rate(
    name: str,
    title: str,
    what: str,
    machine: dict[str, Any],
    periodic: list[tuple[float, float]],
    constant: dict[str, float],
) -> None:
    with picture(name, title, machine) as axes:
        rates, values = zip(*periodic, strict=True)
        axes.plot(rates, values, marker="o", color=COLOURS["B"], label=_LABELS["B"])
        for scenario, value in constant.items():
            axes.axhline(value, color=COLOURS[scenario], linestyle="--", label=_LABELS[scenario])
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("periodic punctuations per second")
        axes.set_ylabel(what)
        axes.legend(frameon=False)


def sort(kept: dict[str, Any]) -> None:
    """Figures 2, 5 and 8 of the Impatience paper, on our streams."""
    series, machine = kept["series"], kept["machine"]
    for name, runs in series["runs"].items():
        title = f"Sorted runs of {_words(name)} (figure 5)"
        with picture(f"sort_runs_{name}", title, machine) as axes:
            for algorithm, colour in (("patience", COLOURS["A"]), ("impatience", COLOURS["C"])):
                thinned = runs[algorithm]
                events = [at * thinned["stride"] * runs["every"] for at in range(1, len(thinned["values"]) + 1)]
                axes.plot(events, thinned["values"], color=colour, label=f"{algorithm.capitalize()} sort")
            axes.set_xlabel(f"events, with a punctuation every {runs['every']:,}")
            axes.set_ylabel("runs")
            axes.legend(frameon=False)
    for name, arrivals in series["arrivals"].items():
        with picture(f"sort_arrivals_{name}", f"Event time by arrival: {_words(name)} (figure 2)", machine) as axes:
            places = [arrivals["first"] + at * arrivals["stride"] for at in range(len(arrivals["values"]))]
            axes.plot(places, arrivals["values"], color=COLOURS["B"], linewidth=0.7)
            axes.set_xlabel("number of arrival")
            axes.set_ylabel("event time, seconds after the first")
    for name, speeds in series["online"].items():
        with picture(f"sort_online_{name}", f"Sorting online: {_words(name)} (figure 8)", machine) as axes:
            for contender, colour in _CONTENDERS.items():
                points = [(int(f), by[contender]) for f, by in speeds.items() if contender in by]
                if not points:
                    continue
                width = 2.5 if contender == "kernel" else 1.2
                style = {"marker": "o", "markersize": 3, "linewidth": width, "color": colour, "label": contender}
                axes.plot(*zip(*points, strict=True), **style)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("events between punctuations")
            axes.set_ylabel("million events per second")
            axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


_CONTENDERS = {
    "kernel": COLOURS["C"],
    "paper's Impatience": "#66bd63",
    "numpy adaptor": "#92c5de",
    "packed suffix": COLOURS["B"],
    "compiled adaptor": COLOURS["D"],
    "compiled heap": COLOURS["A"],
    "heapq": "#888888",
}
"""The contenders of figure 8 that are drawn, with their colours; the others are in the table."""


def sort_as_needed(kept: dict[str, Any]) -> None:
    """Figure 9 of the Impatience paper: what comes of doing a step before the sort instead of behind it."""
    for step, what in _EARLY.items():
        with picture(f"sort_as_needed_{step}", f"Early {step} (figure 9)", kept["machine"]) as axes:
            for (name, by), colour in zip(kept["series"][step].items(), COLOURS.values(), strict=False):
                parameters = [float(parameter) for parameter in by]
                for of, style, shown in (("sort", "-", "the sort"), ("all", "--", "all")):
                    speedups = [speedup[of] for speedup in by.values()]
                    label = f"{_words(name)}, {shown}"
                    axes.plot(parameters, speedups, style, marker="o", markersize=3, color=colour, label=label)
            if step == "projection":
                axes.set_xticks(parameters)
            else:
                axes.set_xscale("log")
            axes.set_xlabel(what)
            axes.set_ylabel("late order over early order, times")
            axes.axhline(1, color="#888888", linewidth=0.7)
            axes.legend(frameon=False, fontsize=8)


_EARLY = {
    "selection": "part of the rows that is kept",
    "projection": "columns of four that are kept",
    "window": "length of the window, events",
}
"""The steps of figure 9, and what is varied."""


def bands(kept: dict[str, Any]) -> None:
    """Figure 10 of the Impatience paper: speed and memory of the methods on both streams."""
    for name in kept["series"]["throughput"]:
        for what, unit in (("throughput", "million events per second"), ("held", "most bytes held, MiB")):
            if what not in kept["series"]:
                continue
            by_query = kept["series"][what][name]
            kind = {"held": "memory"}.get(what, what)
            with picture(f"bands_{kind}_{name}", f"{_words(name)}: {kind} (figure 10)", kept["machine"]) as axes:
                queries = [query for query in by_query if "," not in query]
                for place, (method, colour) in enumerate(_METHODS.items()):
                    heights = [by_query[query][method] for query in queries]
                    at = [number + 0.16 * (place - 2) for number in range(len(queries))]
                    axes.bar(at, heights, width=0.16, color=colour, label=method)
                axes.set_xticks(range(len(queries)), queries)
                if what == "held":
                    axes.set_yscale("log")
                    axes.set_ylim(bottom=1)
                axes.set_ylabel(unit)
                axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper left", bbox_to_anchor=(0, -0.06))


_METHODS = {
    "advanced": COLOURS["C"],
    "band 2": "#66bd63",
    "basic": COLOURS["A"],
    "MinLatency": COLOURS["B"],
    "MaxLatency": COLOURS["D"],
}
"""The methods of figure 10, with their colours."""


def merge(kept: dict[str, Any]) -> None:
    """Figures 2 to 9 of the LMerge paper, and figure 5 of its technical report."""
    series, machine = kept["series"], kept["machine"]
    for name, title, along in (
        ("ordered", "Ordered replicas, payloads of 1,000 bytes", ("inputs", "replicas")),
        ("stable_freq", "Ordered replicas", ("frequencies", "part of the elements that are punctuations")),
        ("cleansed", "Counts over windows, half of the events disordered", ("inputs", "replicas")),
    ):
        key, what = along
        for measured, unit in (("speed", "million elements per second"), ("memory", "most in memory, MiB")):
            figure = _MERGE_FIGURES[name, measured]
            with picture(f"merge_{name}_{measured}", f"{title} (figure {figure})", machine) as axes:
                for (variant, values), colour in zip(series[name][measured].items(), _VARIANTS, strict=False):
                    axes.plot(series[name][key], values, marker="o", markersize=3, color=colour, label=variant)
                if key == "frequencies":
                    axes.set_xscale("log")
                axes.set_yscale("log")
                axes.set_xlabel(what)
                axes.set_ylabel(unit)
                axes.legend(frameon=False, fontsize=8)
    with picture("merge_chattiness", "Adjusts of replicas, and of their merge (figure 4)", machine) as axes:
        disorder, one, merged, chatty = zip(*series["chattiness"], strict=True)
        axes.plot(disorder, one, marker="o", color=COLOURS["A"], label="one replica")
        axes.plot(disorder, merged, marker="o", color=COLOURS["C"], label="three, merged")
        axes.plot(disorder, chatty, marker="o", color=COLOURS["B"], label="three, merged, all revisions told")
        axes.set_xlabel("part of the events that are disordered and revised")
        axes.set_ylabel("adjusts")
        axes.legend(frameon=False)
    for what, curves in series.get("growth", {}).items():
        for kind, unit in (("ns", "nanoseconds per element"), ("mib", "most in memory, MiB")):
            title = f"{'Time' if kind == 'ns' else 'Space'} by {_words(what)} (Table IV)"
            with picture(f"merge_growth_{kind}_by_{what}", title, machine) as axes:
                for (variant, values), colour in zip(curves[kind].items(), _VARIANTS, strict=False):
                    axes.plot(curves["values"], values, marker="o", markersize=3, color=colour, label=variant)
                axes.set_xscale("log")
                axes.set_yscale("log")
                axes.set_xlabel(_words(what))
                axes.set_ylabel(unit)
                axes.legend(frameon=False, fontsize=8)
    with picture("merge_lag", "Two of three replicas lag behind (the report's figure 5)", machine) as axes:
        axes.plot(series["lag"]["seconds"], series["lag"]["speed"], marker="o", color=COLOURS["C"])
        axes.set_xlabel("seconds behind, at 5,000 elements per second")
        axes.set_ylabel("million elements per second")
    for name, title in (("bursts", "Replicas that come in bursts (figure 7)"), ("congestion", "Congestion (figure 8)")):
        with picture(f"merge_{name}", title, machine) as axes:
            for (who, rate), plain in zip(series[name].items(), _VARIANTS, strict=False):
                width, colour = (2.0, COLOURS["C"]) if who == "merged" else (0.7, plain)
                axes.plot([at / 10 for at in range(len(rate))], rate, linewidth=width, color=colour, label=who)
            axes.set_yscale("log")
            axes.set_xlabel("seconds")
            axes.set_ylabel("elements per second")
            axes.legend(frameon=False, fontsize=8)


_MERGE_FIGURES = {
    ("ordered", "memory"): 2, ("ordered", "speed"): 3, ("stable_freq", "memory"): 5, ("stable_freq", "speed"): 5,
    ("cleansed", "memory"): 6, ("cleansed", "speed"): 6,
}  # fmt: skip
_VARIANTS = ("#92c5de", COLOURS["B"], COLOURS["D"], COLOURS["C"], COLOURS["A"], "#888888")


def _words(name: str) -> str:
    return name.replace("_", " ")


def heartbeats(kept: dict[str, Any]) -> None:
    """Section 7 of the heartbeat paper, and a source that is cut off while a query runs on Spark."""
    _by_release(kept)
    _cut_off_on_spark(kept)


def _cut_off_on_spark(kept: dict[str, Any]) -> None:
    """Rows in answers that went out, by micro-batch: what stalls is flat, what loses ends below the others."""
    drawn = kept["series"].get("cut off on Spark", {})
    if not drawn:
        return
    title = "One of two sources is cut off for a while: rows counted on Spark"
    with picture("heartbeats_cut_off_on_spark", title, kept["machine"]) as axes:
        for name, counted in drawn.items():
            batches = range(1, len(counted) + 1)
            axes.plot(batches, counted, label=_CUT_OFF[name][0], color=_CUT_OFF[name][1], linestyle=_CUT_OFF[name][2])
        axes.set_xlabel("micro-batch")
        axes.set_ylabel("rows in answers")
        axes.legend(frameon=False, fontsize=8)


_CUT_OFF = {
    "rows that came": ("rows that came", "#888888", ":"),
    "native, min": ("native watermarks, policy min: waits for the one that is cut off", COLOURS["B"], "-"),
    "native, max": ("native watermarks, policy max: drops what comes after the cut", COLOURS["A"], "-"),
    "by origin": ("sort_within_origins: each source by its own rows", COLOURS["C"], "-"),
}
"""The lines, with their words, colours and strokes."""


def _by_release(kept: dict[str, Any]) -> None:
    """The plan of Figure 5 while its third source lags, by release."""
    drawn = kept["series"].get("releases", {})
    for place, (what, title, unit) in enumerate(_RELEASED):
        if not drawn:
            continue
        with picture(f"heartbeats_release_{what}", title, kept["machine"]) as axes:
            for bar, (release, colour) in enumerate(_RELEASES.items()):
                heights = [by_release[release][place] for by_release in drawn.values()]
                at = [number + 0.25 * (bar - 1) for number in range(len(drawn))]
                bars = axes.bar(at, heights, width=0.25, color=colour, label=f"by {release}")
                axes.bar_label(bars, fmt="%.3g", fontsize=8)
            axes.set_xticks(range(len(drawn)), [f"the first join {variant}" for variant in drawn])
            axes.set_ylabel(unit)
            axes.legend(frameon=False, fontsize=8)


_RELEASES = {"operator": COLOURS["A"], "query": COLOURS["B"], "memory": COLOURS["C"]}
"""The releases of section 7, with their colours."""

_RELEASED = (
    ("latency", "Figure 5, S3 lags: from rows of S3 to all results", "latency, ms"),
    ("memory", "Figure 5, S3 lags: most that the query holds", "most bytes held, MiB"),
)


if __name__ == "__main__":
    main()
