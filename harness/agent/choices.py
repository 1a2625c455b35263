"""Which strings a name may hold, as far as its own module tells: by what it is compared with or looked up in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+\-]{0,39}")
MAX_CHOICES = 32


def is_word(text: object) -> bool:
    """Whether `text` looks like a choice and not like prose, a path or a format."""
    return isinstance(text, str) and _WORD.fullmatch(text) is not None


class Choices:
    """Choices of every name of one module. Names that are passed on to one another share theirs."""

    def __init__(self, module: ast.Module) -> None:
        self._parents: dict[str, str] = {}
        self._words: dict[str, dict[str, None]] = {}
        self._tables: dict[str, list[str]] = {}
        self._params: dict[str, list[str]] = {}
        nodes = list(ast.walk(module))
        for node in nodes:
            self._declare(node)
        for node in nodes:
            self._learn(node)

    def of(self, name: str) -> tuple[str, ...]:
        """The words seen for `name`, in order of appearance; empty when nothing is known."""
        root = self._root(name)
        words = [word for one, seen in self._words.items() if self._root(one) == root for word in seen]
        return tuple(dict.fromkeys(words))[:MAX_CHOICES]

    def _root(self, name: str) -> str:
        while (parent := self._parents.get(name, name)) != name:
            name = parent
        return name

    def _alias(self, one: str | None, other: str | None) -> None:
        if one and other and self._root(one) != self._root(other):
            self._parents[self._root(one)] = self._root(other)

    def _add(self, name: str | None, words: list[str]) -> None:
        if name and words:
            self._words.setdefault(name, {}).update(dict.fromkeys(words))

    def _declare(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and (keys := _keys(node.value)):
            for target in node.targets:
                if name := terminal(target):
                    self._tables[name] = keys
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._params[node.name] = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                for op, one, other in zip(ops, [left, *comparators], comparators, strict=False):
                    self._compare(op, one, other)
            case ast.Subscript(value=table, slice=key):
                self._add(terminal(key), self._table(table))
            case ast.Match(subject=subject, cases=cases):
                self._add(terminal(subject), [word for case in cases for word in _patterns(case.pattern)])
            case ast.Call():
                self._call(node)
            case ast.Assign(targets=[target], value=value):
                self._alias(terminal(target), terminal(value))
            case ast.AnnAssign(target=target, annotation=annotation):
                self._add(terminal(target), _literals(annotation))
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                self._add(name, _literals(annotation))
            case _:
                pass

    def _compare(self, op: ast.cmpop, one: ast.expr, other: ast.expr) -> None:
        if isinstance(op, ast.Eq | ast.NotEq):
            self._add(terminal(one), _strings([other]))
            self._add(terminal(other), _strings([one]))
        elif isinstance(op, ast.In | ast.NotIn):
            self._add(terminal(one), self._table(other))

    def _table(self, node: ast.expr) -> list[str]:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return _strings(node.elts)
        if isinstance(node, ast.Dict):
            return _keys(node)
        return self._tables.get(terminal(node) or "", [])

    def _call(self, call: ast.Call) -> None:
        called = terminal(call.func)
        if called == "get" and isinstance(call.func, ast.Attribute) and call.args:
            self._add(terminal(call.args[0]), self._table(call.func.value))
        if called == "add_argument":
            options = next((word.value for word in call.keywords if word.arg == "choices"), None)
            self._add(option_name(call), self._table(options) if options else [])
        params = self._params.get(called or "", [])
        if params[:1] == ["self"]:
            params = params[1:]
        for param, value in zip(params, call.args, strict=False):
            self._pass(param, value)
        for word in call.keywords:
            self._pass(word.arg, word.value)

    def _pass(self, param: str | None, value: ast.expr) -> None:
        if isinstance(value, ast.Name | ast.Attribute):
            self._alias(param, terminal(value))


def terminal(node: ast.expr) -> str | None:
    """The last name of an expression: x, a.x and a["x"] are all x."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case _:
            return None


def option_name(call: ast.Call) -> str | None:
    """The name an `add_argument` call stores under: the first long option, else the first word."""
    words = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    best = next((word for word in words if word.startswith("--")), words[0] if words else "")
    return best.lstrip("-").replace("-", "_") or None


def _strings(nodes: list[ast.expr]) -> list[str]:
    return [str(node.value) for node in nodes if isinstance(node, ast.Constant) and is_word(node.value)]


def _keys(table: ast.Dict) -> list[str]:
    return _strings([key for key in table.keys if key is not None])


def _patterns(pattern: ast.pattern) -> Iterator[str]:
    if isinstance(pattern, ast.MatchValue):
        yield from _strings([pattern.value])
    elif isinstance(pattern, ast.MatchOr):
        for one in pattern.patterns:
            yield from _patterns(one)
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern:
        yield from _patterns(pattern.pattern)


def _literals(annotation: ast.expr) -> list[str]:
    return [
        word
        for node in ast.walk(annotation)
        if isinstance(node, ast.Subscript) and terminal(node.value) == "Literal"
        for word in _strings(node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])
    ]
