"""What loops need of the processor that arrays do not give: memory read ahead, and words that begin at any byte.

Each becomes one instruction of the machine, or none. Nothing is looked after: an address must lie in the array.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_BYTE_POINTER = ir.IntType(8).as_pointer()
_INT = ir.IntType(32)
_WORD = ir.IntType(64)
_READ: Final = 0  # and not written
_KEEP: Final = 3  # as near as there is
_DATA: Final = 1  # and not code


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The address of an element of an array."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


def _read_ahead(_: Any, array: Any, place: Any) -> Any:
    """Have an element of an array brought near, and go on without it: who asks for it later need not wait."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.bitcast(_address(context, builder, signature, arguments), _BYTE_POINTER)
        kind = ir.FunctionType(ir.VoidType(), [_BYTE_POINTER, _INT, _INT, _INT])
        declared: Any = cgutils.get_or_insert_function
        prefetch = declared(builder.module, kind, "llvm.prefetch.p0")
        builder.call(prefetch, [address, _INT(_READ), _INT(_KEEP), _INT(_DATA)])
        return context.get_dummy_value()

    return types.void(array, place), generate


def _word_at(_: Any, data: Any, place: Any) -> Any:
    """Eight bytes as a word, the first one lowest, wherever they begin. All of them must lie in the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature, arguments)
        return builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, place), generate


def _settled(_: Any, value: Any) -> Any:
    """The same number, of which the compiler forgets what it was made of.

    Where a branch depends on two things, the compiler makes two branches of it. If either of them nobody can guess, and
    both together nearly always, that costs more than all the rest: a condition that is settled is asked as one.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.asm(ir.FunctionType(_WORD, [_WORD]), "", "=r,0", arguments, side_effect=False)

    return types.int64(value), generate


read_ahead: Any = intrinsic(_read_ahead)
"""read_ahead(array, place)"""

word_at: Any = intrinsic(_word_at)
"""word_at(bytes, place)"""

settled: Any = intrinsic(_settled)
"""settled(number)"""
