"""Finds the small changes of a source file that its tests ought to notice.

A change swaps a comparison, an operator or a bound, moves a number by one, turns a condition round, or leaves a
statement out. Texts, types, imports, `check()` methods and refusals are left alone: they decide no row's action.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
_OPERATORS: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.FloorDiv: ("//", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
_LEFT_ALONE: Final = ("check", "details", "reason", "__repr__", "__str__", "__init_subclass__")


@dataclass(frozen=True)
class Change:
    """One changed place of a file."""

    start: int
    """Where the text to be replaced begins, in characters of the file."""

    end: int
    new: str
    line: int
    inside: str
    """The function that it is in, with its class."""

    what: str
    """The change in words, such as `< becomes <=`."""

    def of(self, source: str) -> str:
        """Apply it to the text of the file.

        >>> Change(4, 5, "2", 1, "f", "").of("x = 1")
        'x = 2'
        """
        return source[: self.start] + self.new + source[self.end :]

    @property
    def key(self) -> str:
        """What stays the same when lines move: the function and the change."""
        return f"{self.inside}: {self.what}"


def changes_of(source: str) -> list[Change]:
    r"""All changes of a file, in its order.

    >>> [change.key for change in changes_of("def f(x):\n    return x < 3\n")]
    ['f: x < 3 -> x <= 3', 'f: x < 3 -> x < 4']
    """
    return sorted(_Finder(source).changes(), key=lambda change: (change.start, change.end, change.new))


class _Finder:
    """Walks the functions of a file."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tree = ast.parse(source)
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._encoded = [line.encode() for line in source.splitlines(keepends=True)]

    def changes(self) -> Iterator[Change]:
        """All of them."""
        yield from self._in_body(self._tree.body, "")

    def _in_body(self, body: list[ast.stmt], inside: str) -> Iterator[Change]:
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                yield from self._in_body(statement.body, f"{inside}{statement.name}.")
            elif isinstance(statement, ast.FunctionDef) and statement.name not in _LEFT_ALONE:
                yield from self._in_statements(statement.body, f"{inside}{statement.name}")

    def _in_statements(self, body: list[ast.stmt], inside: str) -> Iterator[Change]:
        for statement in body:
            if isinstance(statement, ast.FunctionDef):
                yield from self._in_statements(statement.body, f"{inside}.{statement.name}")
                continue
            if not isinstance(statement, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom) and not _is_text(
                statement
            ):
                yield from self._of_statement(statement, inside)

    def _of_statement(self, statement: ast.stmt, inside: str) -> Iterator[Change]:
        if isinstance(statement, ast.Expr | ast.AugAssign):
            text = self._text(statement)
            # Never evaluated, but still there: what it closes over, or that it yields, stays a trait of the function.
            new = f"0 and ({text})" if isinstance(statement, ast.Expr) else "pass"
            yield self._change(statement, new, inside, f"{text} -> left out")
        for child in ast.iter_child_nodes(statement):
            expression = child.context_expr if isinstance(child, ast.withitem) else child
            if isinstance(expression, ast.expr) and expression is not getattr(statement, "annotation", None):
                yield from self._in_expression(expression, statement, inside)
        if isinstance(statement, ast.If | ast.While):
            test = self._text(statement.test)
            yield self._change(statement.test, f"not ({test})", inside, f"{test} -> turned round")
        for name in ("body", "orelse", "finalbody"):
            yield from self._in_statements(getattr(statement, name, []), inside)
        for handler in getattr(statement, "handlers", []):
            yield from self._in_statements(handler.body, inside)
        for case in getattr(statement, "cases", []):
            if case.guard is not None:
                yield from self._in_expression(case.guard, statement, inside)
            yield from self._in_statements(case.body, inside)

    def _in_expression(self, expression: ast.expr, statement: ast.stmt, inside: str) -> Iterator[Change]:
        old_text, where = self._text(expression), self._offset_of(expression)
        for node in ast.walk(expression):
            for start, end, new in self._of_node(node):
                new_text = old_text[: start - where] + new + old_text[end - where :]
                what = " ".join(f"{old_text} -> {new_text}".split())
                yield Change(start, end, new, statement.lineno, inside, what)

    def _of_node(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                for before, op, after in zip([left, *comparators], ops, comparators, strict=False):
                    if type(op) in _COMPARISONS:
                        yield self._between(before, after, _COMPARISONS[type(op)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                yield self._between(left, right, _OPERATORS[type(op)])
            case ast.BoolOp(op=op, values=[first, second, *_]):
                words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                yield self._between(first, second, words)
            case ast.IfExp(test=test):
                yield self._offset_of(test), self._end_of(test), f"not ({self._text(test)})"
            case ast.UnaryOp(op=ast.Not()):
                yield self._offset_of(node), self._offset_of(node) + len("not "), ""
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name) as called) if name in _CALLS:
                yield self._end_of(called) - len(name), self._end_of(called), _CALLS[name]
            case ast.Constant(value=int() as value):
                new = not value if isinstance(value, bool) else value + 1
                yield self._offset_of(node), self._end_of(node), str(new)

    def _between(self, before: ast.expr, after: ast.expr, words: tuple[str, str]) -> tuple[int, int, str]:
        old, new = words
        start = self._source.index(old, self._end_of(before), self._offset_of(after))
        return start, start + len(old), new

    def _change(self, node: ast.AST, new: str, inside: str, what: str) -> Change:
        line = getattr(node, "lineno", 0)
        return Change(self._offset_of(node), self._end_of(node), new, line, inside, " ".join(what.split()))

    def _text(self, node: ast.AST) -> str:
        return self._source[self._offset_of(node) : self._end_of(node)]

    def _offset_of(self, node: ast.AST) -> int:
        return self._place(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))

    def _end_of(self, node: ast.AST) -> int:
        return self._place(getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0))

    def _place(self, line: int, column: int) -> int:
        """Characters from the beginning of the file: the parser counts bytes."""
        return self._lines[line - 1] + len(self._encoded[line - 1][:column].decode())


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
