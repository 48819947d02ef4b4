"""Pipelines in Python: a file with a function `pipeline()` that returns one stream, or several.

    def pipeline(day, spark=None):
        ...
        return stream                                  rows go where the command line says
        return stream, other                           several; or bands
        return {"hourly": stream, "daily": other}      by name
        return {"hourly": (stream, "hourly.csv")}      with the sink of each

Its first parameters are the words behind `--` on the command line, as texts; `name=value` goes to the parameter of that
name. One that is called `spark` gets a session, if the runner is Spark. The file may import what stands beside it.
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import slackwater as sw
from slackwater.cli.pipeline import MAIN, Output, Pipeline
from slackwater.cli.users_lines import users_lines
from slackwater.errors import PlanError, SlackwaterError, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slackwater.cli.pipeline import Runner

_FUNCTION: Final = "pipeline"
_SESSION: Final = "spark"
_A_PAIR: Final = 2
_RETURN: Final = "return a stream, several, a mapping of them by name, or pairs of a stream and a sink"


def pipeline_of_python(
    path: Path, text: str, runner: Runner, arguments: Sequence[str], session: Callable[[], Any]
) -> Pipeline:
    """Run a file, call its function, and take what it returns."""
    function = _function_of(path, text)
    given = _arguments_of(path, function, runner, arguments, session)
    with _users_failure(f"{_FUNCTION}() of {path} failed"):
        returned = function(*given.args, **given.kwargs)
    return Pipeline(_outputs_of(path, returned))


def _function_of(path: Path, text: str) -> Callable[..., Any]:
    module = ModuleType("slackwater_pipeline")
    module.__file__ = str(path)
    beside = str(path.absolute().parent)
    if beside not in sys.path:
        sys.path.insert(0, beside)
    try:
        code = compile(text, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        facts = {"file": path if line is None else f"{path}:{line}", "cause": getattr(error, "msg", None) or error}
        raise PlanError(message("a pipeline is no Python", facts)) from error
    # Known by its name while its classes are made; not later, so that tasks of Spark get its functions by value.
    sys.modules[module.__name__] = module
    try:
        with _users_failure(f"{path} could not be loaded"):
            exec(code, module.__dict__)  # noqa: S102 - that is what the user asks for
    finally:
        del sys.modules[module.__name__]
    function = getattr(module, _FUNCTION, None)
    if not callable(function):
        others = [
            name for name, one in vars(module).items() if inspect.isfunction(one) and one.__module__ == module.__name__
        ]
        facts = {"file": path, "functions": ", ".join(others) or "none"}
        hint = f"write def {_FUNCTION}(): ... that returns a stream"
        raise PlanError(message(f"a pipeline has a function {_FUNCTION}()", facts, hint))
    return function


def _arguments_of(
    path: Path, function: Callable[..., Any], runner: Runner, words: Sequence[str], session: Callable[[], Any]
) -> inspect.BoundArguments:
    """What the function is called with; refused where it takes something else."""
    signature = inspect.signature(function)
    named = [word.partition("=") for word in words]
    by_name = {name: value for name, equals, value in named if equals and name in signature.parameters}
    in_order = [word for word, (name, equals, _) in zip(words, named, strict=True) if not (equals and name in by_name)]
    takes = signature.parameters.get(_SESSION)
    if takes is not None and runner != _SESSION and takes.default is takes.empty:
        facts = {"file": path, "takes": f"{_FUNCTION}{signature}"}
        hint = "say --runner spark, or give spark a default: spark=None"
        raise PlanError(message("this pipeline takes a session of Spark, and is to run in process", facts, hint))
    own = [one for name, one in signature.parameters.items() if name != _SESSION]  # a session is no word
    try:
        bound = signature.replace(parameters=own).bind(*in_order, **by_name)
    except TypeError as error:
        facts = {"file": path, "takes": f"{_FUNCTION}{signature}", "got": " ".join(words) or "nothing", "cause": error}
        hint = f"words for it stand behind --: slackwater run {path} -- WORD name=value"
        raise PlanError(message("a pipeline was called with other arguments than it takes", facts, hint)) from error
    given = dict(bound.arguments)
    if takes is not None and runner == _SESSION:
        given[_SESSION] = session()
    return inspect.BoundArguments(
        signature, OrderedDict((name, given[name]) for name in signature.parameters if name in given)
    )


def _outputs_of(path: Path, returned: Any) -> dict[str, Output]:
    if isinstance(returned, Mapping):
        found = {str(name): _output(path, one) for name, one in returned.items()}
    elif isinstance(returned, sw.Stream) or _is_pair(returned):
        found = {MAIN: _output(path, returned)}
    elif isinstance(returned, Sequence) and not isinstance(returned, str | bytes):
        names = (MAIN if number == 1 else f"{MAIN}-{number}" for number in range(1, len(returned) + 1))
        found = {name: _output(path, one) for name, one in zip(names, returned, strict=True)}
    else:
        raise _no_stream(path, returned)
    if not found:
        raise _no_stream(path, returned)
    return found


def _output(path: Path, one: Any) -> Output:
    stream, sink = one if _is_pair(one) else (one, None)
    if not isinstance(stream, sw.Stream):
        raise _no_stream(path, stream)
    return Output(stream, sink)


def _is_pair(one: Any) -> bool:
    """Whether it is a stream and who takes its rows, and not two streams."""
    return (
        isinstance(one, tuple)
        and len(one) == _A_PAIR
        and isinstance(one[0], sw.Stream)
        and not isinstance(one[1], sw.Stream)
        and not _is_pair(one[1])
    )


def _no_stream(path: Path, got: Any) -> PlanError:
    shown = f"{type(got).__name__}: {got!r}" if got is not None else "None"
    hint = f"{_RETURN}; nothing is run or started there"
    return PlanError(message(f"{_FUNCTION}() returned no stream", {"file": path, "got": shown.splitlines()[0]}, hint))


@contextmanager
def _users_failure(headline: str) -> Iterator[None]:
    """Make one message of what a user's file raises, with the lines of that file."""
    try:
        yield
    except SlackwaterError as refusal:
        lines = users_lines(refusal.__traceback__)
        if lines:
            refusal.add_note(f"    in  {lines[-1]}")
        raise
    except SystemExit as ended:
        raise PlanError(message(headline, {"cause": f"it ended the program: SystemExit({ended.code!r})"})) from ended
    except Exception as cause:
        text = str(cause).strip()
        facts = {"cause": f"{type(cause).__name__}: {text}" if text else type(cause).__name__}
        lines = [f"    in     {line}" for line in users_lines(cause.__traceback__)]
        raise PlanError("\n".join([message(headline, facts), *lines])) from cause
