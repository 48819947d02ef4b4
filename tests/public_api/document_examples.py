"""Finds what documents show, with Sybil: Python and commands that can be run, and what is printed by them.

A block of Python prints what the block without a language right behind it has, or nothing. A block of the language
`console` has commands behind `$`, each with what it prints. Blocks of other languages are data. What cannot be run
is skipped by a comment above it, which says why: `<!-- skip: next "reason" -->`.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final
from unittest import SkipTest

from sybil import Document, Example, Region
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from slackwater.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
DATA: Final = {"json", "mermaid", "text", "toml"}
"""Languages of blocks that show something which nobody runs."""

TESTED_ELSEWHERE: Final = {
    "docs/guides/blue_green.md": "tests/runners/spark/test_blue_green.py",
    "docs/guides/command_line.md": "tests/cli/test_guide.py",
}
"""Pages that need more around them than a folder and a session, and the tests that run them."""

_FENCED = RawFencedCodeBlockLexer(re.compile(r"(?P<language>[^\n]*)\n"))


def documents() -> list[Path]:
    """The pages with code, of the site and beside it; decisions are of their day."""
    pages = [*ROOT.glob("*.md"), *(page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "decisions")]
    ours = (page for page in pages if page.relative_to(ROOT).as_posix() not in TESTED_ELSEWHERE)
    return sorted(page for page in ours if "```" in page.read_text(encoding="utf-8"))


def parsed(page: Path) -> Document:
    """A page, whose examples can be evaluated one after the other."""
    return Document.parse(str(page), blocks_to_run, SkipParser())


def needs_spark(page: Path) -> bool:
    """Whether its code uses a session, which is called `spark`."""
    return any(re.search(r"\bspark\b", example.parsed[0]) for example, runs in _blocks(page) if runs)


def run(document: Document, names: dict[str, Any], *, alone: bool = False) -> None:
    """Run all examples of a page, which has these names; each of them by itself, or with what those before it made."""
    document.namespace.update(names)
    for example in document:
        if alone:
            document.namespace.clear()
            document.namespace.update(names)
        with contextlib.suppress(SkipTest):
            example.evaluate()


def not_run(page: Path) -> list[str]:
    """The examples of a page that are skipped: the languages of their blocks, in order."""
    return [str(example.region.lexemes["language"]) for example, runs in _blocks(page) if not runs]


def _blocks(page: Path) -> Iterator[tuple[Example, bool]]:
    """The blocks of a page, and whether they are run: those behind a comment that says so are not."""
    runs = True
    for example in parsed(page):
        if isinstance(example.region.evaluator, FunctionType):
            yield example, runs
        runs = isinstance(example.region.evaluator, FunctionType)


def blocks_to_run(document: Document) -> Iterator[Region]:
    """The blocks with code and commands; others are outputs of these, data, or nothing that a page may have."""
    blocks = sorted(_FENCED(document), key=lambda region: region.start)
    output_of = None
    for number, block in enumerate(blocks):
        language, source = block.lexemes["language"].strip(), block.lexemes["source"]
        following = blocks[number + 1] if number + 1 < len(blocks) else None
        if language == "python":
            block.parsed, block.evaluator = (source, _output_behind(document, block, following)), _check_python
            output_of = following
            yield block
        elif language == "console":
            block.parsed, block.evaluator = (source, ""), _check_commands
            yield block
        elif language == "" and block is output_of and not _between(document, blocks[number - 1], block):
            pass
        elif language not in DATA:
            block.parsed, block.evaluator = (source, ""), _refuse
            yield block


def _between(document: Document, one: Region, other: Region) -> str:
    return document.text[one.end : other.start].strip()


def _output_behind(document: Document, block: Region, following: Region | None) -> str:
    if following is None or following.lexemes["language"].strip() or _between(document, block, following):
        return ""
    return str(following.lexemes["source"])


def _check_python(example: Example) -> str | None:
    code, expected = example.parsed
    # Lines of the file, so that a traceback shows the line of the page.
    compiled = compile("\n" * example.line + code, example.path, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compiled, example.namespace)  # noqa: S102 - that is the test
    return _difference(example, printed.getvalue(), expected)


def _check_commands(example: Example) -> str | None:
    text = example.parsed[0].replace("\\\n", " ")
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        program, *arguments = shlex.split(command)
        if program != "slackwater":
            return f"only slackwater is run here, not {program}"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main(arguments)
        if difference := _difference(example, printed.getvalue(), expected):
            return difference
    return None


def _difference(example: Example, printed: str, expected: str) -> str | None:
    """What is wrong, for Sybil; None if nothing is."""
    found, shown = (["".join(line).rstrip() for line in text.strip().splitlines()] for text in (printed, expected))
    if found == shown:
        return None
    return "\n".join([f"{example.path}:{example.line} shows", *shown, "and it prints", *found])


def _refuse(example: Example) -> str:
    language = example.region.lexemes["language"]
    return f"a block of {language or 'no language'} that nothing printed: python, console, {', '.join(sorted(DATA))}?"
