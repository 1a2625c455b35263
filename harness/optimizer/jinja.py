"""Jinja templates that a model wrote, rendered on the host: a part of the language whose cost is bounded.

A sandbox keeps a template from code, not from taking all time and memory: `{{ 9 ** 9 ** 9 }}`, a loop over a range, ten
`tojson` in a row. So there are no calls, no `*`, `**` and `%`, no `set`, macros or imports; the filters are those that
cannot make much out of little; and every turn of a loop, every filter and every letter written is paid for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, cast

from jinja2 import StrictUndefined, Template, TemplateError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from harness.records import Json

FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "join", "last"),
    *("length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr"),
    *("sort", "string", "title", "tojson", "trim", "truncate", "unique", "upper", "wordcount"),
)
_MOST_NODES = 1_000
_WORK, _WORK_A_LETTER = 2_000_000, 100
_KINDS: tuple[type[nodes.Node], ...] = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Tuple, nodes.List, nodes.Dict),
    *(nodes.Pair, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Filter, nodes.Test, nodes.If, nodes.CondExpr),
    *(nodes.For, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos, nodes.Add),
    *(nodes.Sub, nodes.Div, nodes.FloorDiv, nodes.Concat, nodes.Keyword),
)
_TURNS = "turns"
_left: ContextVar[list[int]] = ContextVar("left")


class TemplateRefusedError(ValueError):
    """The text cannot be rendered; the message says why."""


def names_in(text: str) -> frozenset[str]:
    """The names that `text` would fill in. Raises TemplateRefusedError."""
    return _read(text)[1]


def rendered(text: str, inputs: Mapping[str, Json]) -> str:
    """The prompt for one example. Raises TemplateRefusedError, also for what would take too much."""
    template, _ = _read(text)
    size = sum(len(str(value)) for value in inputs.values())
    token = _left.set([_WORK + _WORK_A_LETTER * size])
    made: list[str] = []
    try:
        for part in template.generate(dict(inputs)):
            _pay(len(part))
            made.append(part)
    except TemplateError as error:
        raise TemplateRefusedError(f"does not render: {error}") from None
    except TemplateRefusedError:
        raise
    except Exception as error:  # whatever its operators and filters raise
        raise TemplateRefusedError(f"does not render: {error!r}") from None
    finally:
        _left.reset(token)
    return "".join(made)


def _pay(work: int) -> None:
    left = _left.get()
    left[0] -= work
    if left[0] < 0:
        raise TemplateRefusedError("does not render: it takes too much work")


def _turns(values: Any) -> Iterator[Any]:  # noqa: ANN401  whatever a template loops over
    for value in values:
        _pay(1)
        yield value


def _paid(inner: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that pays for what it is given and for what it makes of it."""

    @wraps(inner)
    def paid(*given: Any, **named: Any) -> Any:  # noqa: ANN401  as the filters of jinja are
        _pay(1 + sum(_size(one) for one in (*given, *named.values())))
        made = inner(*given, **named)
        _pay(_size(made))
        return made

    return paid


def _join(values: Any, d: str = "") -> str:  # noqa: ANN401  as jinja's own
    texts = [str(value) for value in values]
    _pay(len(texts) * len(str(d)))
    return str(d).join(texts)


def _json(value: Any) -> str:  # noqa: ANN401  as jinja's own, whose settings could make much out of little
    return json.dumps(value)


def _size(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple | dict) else 1  # pyright: ignore[reportUnknownArgumentType]


class _Bounded(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})


def _environment() -> _Bounded:
    made = _Bounded(undefined=StrictUndefined, autoescape=False, cache_size=0)
    cast("dict[str, Any]", made.globals).clear()  # pyright: ignore[reportUnknownMemberType]  jinja's own are untyped
    theirs = cast("dict[str, Callable[..., Any]]", made.filters)  # pyright: ignore[reportUnknownMemberType]
    own: dict[str, Callable[..., Any]] = {**theirs, "join": _join, "tojson": _json, "string": str}
    made.filters = {name: _paid(own[name]) for name in FILTERS}
    made.filters[_TURNS] = _turns
    return made


_JINJA = _environment()


@lru_cache(maxsize=32)
def _read(text: str) -> tuple[Template, frozenset[str]]:
    try:
        tree = _JINJA.parse(text)
        _check(tree)
        names = frozenset(meta.find_undeclared_variables(tree))
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, _TURNS, [], [], None, None, lineno=loop.lineno)
        code = _JINJA.compile(tree)
        return Template.from_code(_JINJA, cast("Any", code), {}), names
    except TemplateError as error:
        raise TemplateRefusedError(f"not a template: {error}") from None
    except TemplateRefusedError:
        raise
    except Exception as error:  # a parser fed by a model: nesting without end, odd names
        raise TemplateRefusedError(f"not a template: {type(error).__name__}") from None


def _check(tree: nodes.Template) -> None:
    count = 0
    for node in _nodes(tree):
        count += 1
        if not isinstance(node, _KINDS) or (isinstance(node, nodes.For) and node.recursive):
            raise TemplateRefusedError(f"not a template for a prompt: {_word(node)} has no place in one")
        if isinstance(node, nodes.Filter) and node.name not in FILTERS:
            raise TemplateRefusedError(f"not a template for a prompt: the filter {node.name!r} has no place in one")
    if count > _MOST_NODES:
        raise TemplateRefusedError(f"not a template for a prompt: more than {_MOST_NODES} parts")


def _nodes(tree: nodes.Node) -> Iterator[nodes.Node]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.iter_child_nodes())


def _word(node: nodes.Node) -> str:
    named = {"Call": "a call", "Mul": "`*`", "Pow": "`**`", "Mod": "`%`", "Assign": "`set`", "AssignBlock": "`set`"}
    kind = type(node).__name__
    return named.get(kind, f"`{kind.lower()}`")
