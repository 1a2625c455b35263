"""Find the literals of a Python file that look like settings. Read from the syntax tree; nothing is executed."""

from __future__ import annotations

import ast
import math
from collections import Counter
from dataclasses import dataclass, replace

from harness.agent import words
from harness.agent.choices import Choices, is_word, option_name, terminal
from harness.agent.source import Source

Value = bool | int | float | str
MAX_INT = 10**12
_OPAQUE = (ast.JoinedStr, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.List, ast.Tuple)
_STRUCTURAL = (0, 1, 2, 0.5, -1)


@dataclass(frozen=True, slots=True)
class Knob:
    """One literal. `id` names its place in the program and outlives edits of literals; `start` and `end` are bytes.

    `weight` in (0, 1] says how much it looks like a setting; `choices` are the other values of a string.
    """

    id: str
    path: str
    name: str
    value: Value
    text: str
    start: int
    end: int
    weight: float
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the walk stands. `trivial` says whether 0, 1 and flags are settings here or just starting values."""

    scope: str
    label: str
    name: str
    weight: float
    trivial: bool = True
    flags: bool = True


def find(path: str, source: Source) -> list[Knob]:
    """Every knob of one file, in order of appearance. Deeply nested files may have none."""
    finder = _Finder(path, source)
    try:
        finder.body(source.module.body, scope="", kind="module")
    except RecursionError:
        return []
    return sorted(finder.found, key=lambda knob: knob.start)


class _Finder:
    def __init__(self, path: str, source: Source) -> None:
        self.path = path
        self.source = source
        self.choices = Choices(source.module)
        self.found: list[Knob] = []
        self.seen: Counter[str] = Counter()

    def body(self, statements: list[ast.stmt], scope: str, kind: str) -> None:
        for statement in statements:
            self.statement(statement, scope, kind)

    def statement(self, node: ast.stmt, scope: str, kind: str) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inner = f"{scope}.{node.name}".lstrip(".")
                self.defaults(node.args, inner)
                self.body(node.body, inner, "function")
            case ast.ClassDef(name=name, body=body):
                self.body(body, f"{scope}.{name}".lstrip("."), "class")
            case ast.Assign(targets=targets, value=value):
                self.assign(targets[0], value, scope, kind)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, value, scope, kind)
            case ast.Assert() | ast.Raise() | ast.Import() | ast.ImportFrom() | ast.Delete():
                pass
            case _:
                self.other(node, scope, kind)

    def other(self, node: ast.stmt, scope: str, kind: str) -> None:
        """A compound or simple statement without a name of its own: its expressions, then its blocks."""
        place = _Place(scope, type(node).__name__, "", 0.15, trivial=False, flags=isinstance(node, ast.If))
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.expr():
                    self.expression(child, place)
                case ast.stmt():
                    self.statement(child, scope, kind)
                case ast.ExceptHandler(body=body) | ast.match_case(body=body):
                    self.body(body, scope, kind)
                case ast.withitem(context_expr=expression):
                    self.expression(expression, place)
                case _:
                    pass

    def defaults(self, args: ast.arguments, scope: str) -> None:
        positional = [*args.posonlyargs, *args.args]
        pairs = [*zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)]
        pairs += [(arg, value) for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value]
        for arg, value in pairs:
            self.expression(value, _Place(scope, f"({arg.arg}=)", arg.arg, 0.8))

    def assign(self, target: ast.expr, value: ast.expr, scope: str, kind: str) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, part in zip(target.elts, value.elts, strict=True):
                self.assign(one, part, scope, kind)
            return
        name = terminal(target) or ""
        owned = isinstance(target, ast.Attribute)
        weight = {"module": 1.0 if name.isupper() else 0.8, "class": 0.9}.get(kind, 0.5 if owned else 0.4)
        start = kind == "function"
        self.expression(value, _Place(scope, name or "=", name, weight, trivial=not start, flags=not start))

    def expression(self, node: ast.expr, at: _Place) -> None:
        if at.name and words.is_fixed(at.name):
            return
        match node:
            case ast.Constant(value=value):
                self.literal(node, value, at)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if not isinstance(
                value, bool
            ):
                self.literal(node, -value, at)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        label = f"{at.label}[{key.value!r}]"
                        self.expression(value, replace(at, label=label, name=key.value, weight=at.weight * 0.9))
            case ast.Tuple(elts=elts) | ast.List(elts=elts) if len(elts) <= 8:
                for place, element in enumerate(elts):
                    self.expression(element, replace(at, label=f"{at.label}[{place}]", weight=at.weight * 0.6))
            case ast.Call():
                self.call(node, at)
            case ast.Subscript(value=value):
                self.expression(value, replace(at, name=""))
            case _ if isinstance(node, _OPAQUE):
                pass
            case _:
                self.inner(node, at)

    def inner(self, node: ast.expr, at: _Place) -> None:
        """Operands of arithmetic, comparisons and the like: weak, and never a structural 0, 1 or 2."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.Mod):
            return
        flags = at.flags and isinstance(node, ast.BoolOp | ast.IfExp)
        place = replace(at, label=f"{at.label}/{type(node).__name__}", weight=at.weight * 0.25, trivial=False)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child, replace(place, flags=flags))

    def call(self, node: ast.Call, at: _Place) -> None:
        called = terminal(node.func) or ""
        if called in words.SEEDING:
            return
        if isinstance(node.func, ast.Attribute):
            self.expression(node.func.value, replace(at, name="", weight=at.weight * 0.25, trivial=False, flags=False))
        if called == "add_argument":
            name = option_name(node) or ""
            for word in node.keywords:
                if word.arg == "default":
                    self.expression(word.value, _Place(at.scope, f"--{name}", name, 0.9))
            return
        if called not in words.FIXED_CALLS:
            for place, arg in enumerate(node.args):
                weak = replace(at, label=f"{called}()[{place}]", name="", weight=0.2, trivial=False, flags=False)
                self.expression(arg, weak)
        for word in node.keywords:
            if word.arg:
                self.expression(word.value, _Place(at.scope, f"{called}({word.arg}=)", word.arg, 0.6))

    def literal(self, node: ast.expr, value: object, at: _Place) -> None:
        choices: tuple[str, ...] = ()
        weight = at.weight
        identity = self.identity(at)
        match value:
            case bool():
                usable = at.flags and bool(at.name or at.label == "If")
                weight *= 0.5 if at.label.endswith("=)") else 1.0
            case int():
                usable = abs(value) <= MAX_INT and (at.trivial or value not in _STRUCTURAL)
                weight *= 1.0 if at.name and at.trivial else 0.5
            case float():
                usable = math.isfinite(value) and (at.trivial or value not in _STRUCTURAL)
                weight *= 0.2 if words.is_tiny(at.name) or 0 < abs(value) < 1e-7 else 1.0
            case str():
                choices = tuple(word for word in self.choices.of(at.name) if word != value) if at.name else ()
                usable = bool(choices) and is_word(value)
            case _:
                return
        start, end = self.source.span(node)
        text = self.source.text(start, end)
        if usable and not text.lower().lstrip("- (").startswith(("0x", "0o", "0b")):
            shown = ".".join(part for part in (at.scope, at.name or at.label) if part)
            self.found.append(Knob(identity, self.path, shown, value, text, start, end, weight, choices))

    def identity(self, at: _Place) -> str:
        """The place of a literal, numbered where it holds several, whether or not they are knobs today."""
        place = f"{self.path}::{at.scope}::{at.label}" if at.scope else f"{self.path}::{at.label}"
        self.seen[place] += 1
        return place if self.seen[place] == 1 else f"{place}#{self.seen[place]}"
