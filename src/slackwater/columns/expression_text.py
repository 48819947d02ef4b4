"""Writes computations as people would: `(a > 0) & (b < 9)` instead of the chain of calls that Narwhals prints.

What Narwhals prints is nearly Python, so Python's own parser reads it, operators are put back for their methods, and
Python's own printer sets the parentheses. Where the text cannot be read it is left as it is.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import narwhals as nw

if TYPE_CHECKING:
    from slackwater.columns.expressions import Computation

_COMPARED: dict[str, type[ast.cmpop]] = {
    "__gt__": ast.Gt, "__ge__": ast.GtE, "__lt__": ast.Lt, "__le__": ast.LtE, "__eq__": ast.Eq, "__ne__": ast.NotEq,
}  # fmt: skip
_COMBINED: dict[str, type[ast.operator]] = {
    "__and__": ast.BitAnd, "__or__": ast.BitOr, "__add__": ast.Add, "__sub__": ast.Sub, "__mul__": ast.Mult,
    "__truediv__": ast.Div, "__floordiv__": ast.FloorDiv, "__mod__": ast.Mod, "__pow__": ast.Pow,
}  # fmt: skip
_PREFIXED: dict[str, type[ast.unaryop]] = {"__invert__": ast.Invert, "__neg__": ast.USub}


def describe(computation: Computation) -> str:
    """Write a computation for people, on one line.

    >>> describe((nw.col("amount") > 0) & (nw.col("k") == 3))
    '(amount > 0) & (k == 3)'
    """
    if not isinstance(computation, nw.Expr):
        return getattr(computation, "__name__", type(computation).__name__)
    try:
        return ast.unparse(_Operators().visit(ast.parse(str(computation), mode="eval")))
    except SyntaxError:
        return str(computation)


class _Operators(ast.NodeTransformer):
    """Puts operators back for the methods that Python calls for them, and names for columns."""

    def visit_Call(self, call: ast.Call) -> ast.AST:
        self.generic_visit(call)
        match call:
            case ast.Call(func=ast.Name("col"), args=[column], keywords=[]):
                return column
            case ast.Call(func=ast.Name("lit"), keywords=[ast.keyword("value", value), *_]):
                return value
            case ast.Call(func=ast.Attribute(left, name), args=[right]) if name in _COMPARED:
                return ast.Compare(left, [_COMPARED[name]()], [right])
            case ast.Call(func=ast.Attribute(left, name), args=[right]) if name in _COMBINED:
                return ast.BinOp(left, _COMBINED[name](), right)
            case ast.Call(func=ast.Attribute(operand, name), args=[]) if name in _PREFIXED:
                return ast.UnaryOp(_PREFIXED[name](), operand)
        return call
