"""The one decorator for compiled loops: how Numba is used is decided here and nowhere else.

Machine code is kept on disk (`code_cache.py`), so that only the first process on a machine compiles; nogil lets a
feeding thread run while a kernel does. The signature is given by hand: a kernel compiles once, not again for every
mixture of argument types. It is compiled, or loaded from disk, when it is first called: a process pays for the loops it
runs.

Numba counts who holds an array, at every call of a loop from another loop, by instructions that stop the processor for
as long as a whole step of a merge takes. Loops that make no arrays do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from numba import types
from numba.core.compiler_lock import global_compiler_lock

from slackwater.kernels.code_cache import jitted

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def handed_as_one(values: type[tuple[Any, ...]], *kinds: Any) -> Any:
    """The type of a named tuple with fields of these types, for signatures: loops that need many arrays take it as one.

    Fields have these very types: an array that may only be read is not taken where another is expected. To find out
    the type of a named tuple takes Numba several microseconds: where calls from Python matter hand over a plain one.
    """
    of: Any = types
    alike = len(set(kinds)) == 1
    return of.NamedUniTuple(kinds[0], len(kinds), values) if alike else of.NamedTuple(kinds, values)


def plain_tuple(*kinds: Any) -> Any:
    """The type of a plain tuple with values of these types, for signatures."""
    of: Any = types
    return of.BaseTuple.from_types(kinds)


def kernel(
    *signatures: Any, makes_arrays: bool = False, inlined: bool = False, inner: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a plain loop over arrays, for the given signature and no other: a text, or a signature of Numba's types.

    One that other loops call for every element is better `inlined`: to hand over an array takes seven values.
    An `inner` one is only called by other loops: it compiles faster. It may have several signatures, which differ in
    where nothing is handed over (none): what is asked by `is not None` there is left out.
    """
    options: dict[str, Any] = {"nogil": True, "_nrt": makes_arrays, "forceinline": inlined}
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}

    def compiled(loop: Callable[P, R]) -> Callable[P, R]:
        dispatcher = jitted(loop, options)
        compile_for = dispatcher.compile

        def compile_as_signed(types_of_the_call: Any) -> Any:
            with global_compiler_lock:
                if len(signatures) > 1:
                    return compile_for(_chosen(signatures, types_of_the_call))
                if not dispatcher.overloads:
                    compile_for(signatures[0])
                    dispatcher.disable_compile()  # from now on arguments are taken by the signature, or refused
                compiled_once: Any = next(iter(dispatcher.overloads.values()))
                return compiled_once.entry_point

        # Numba asks for this by itself, for a first call from Python as for one from another kernel.
        dispatcher.compile = compile_as_signed
        if inner:
            # There is no way into it from Python: a call must not find one.
            dispatcher._insert = _keep_to_loops  # noqa: SLF001
            dispatcher._compile_for_args = _refuse_python  # noqa: SLF001
        return dispatcher

    return compiled


def _keep_to_loops(*_of_the_overload: Any, **_more: Any) -> None:
    """Leave what was compiled out of what calls from Python find."""


def _refuse_python(*_arguments: Any, **_named: Any) -> None:
    message = "this loop is called by other loops only"
    raise TypeError(message)


def _chosen(signatures: tuple[Any, ...], types_of_the_call: tuple[Any, ...]) -> Any:
    """The signature in which nothing is handed over where nothing is in a call."""
    missing = [kind == types.none for kind in types_of_the_call]
    return next(one for one in signatures if [kind == types.none for kind in one.args] == missing)
