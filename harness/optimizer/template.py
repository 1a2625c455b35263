"""How a slot's text becomes a prompt: raw, `{name}` braces, or a sandboxed jinja template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from jinja2 import StrictUndefined, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from harness.optimizer.base import Engine
from harness.records import Json

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_JINJA = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


class TemplateRefusedError(ValueError):
    """The text cannot be rendered; the message says why."""


def placeholders(text: str, engine: Engine, known: Set[str] = frozenset()) -> frozenset[str]:
    """The names `text` would fill in. With braces only `known` names count: every other brace is literal text.

    Raises TemplateRefusedError for a template that does not parse.
    """
    if engine == "raw":
        return frozenset()
    if engine == "braces":
        return frozenset(name for name in _FIELD.findall(text) if name in known)
    try:
        return frozenset(meta.find_undeclared_variables(_JINJA.parse(text)))
    except TemplateError as error:
        raise TemplateRefusedError(f"not a template: {error}") from None


def render(text: str, engine: Engine, inputs: Mapping[str, Json]) -> str:
    """The prompt for one example. Text with literal braces (JSON, code, sets) comes through as it stands.

    Raises TemplateRefusedError.
    """
    if engine == "raw":
        return text
    if engine == "braces":
        return _FIELD.sub(lambda found: _shown(inputs, found), text)
    try:
        return _JINJA.from_string(text).render(dict(inputs))
    except TemplateError as error:
        raise TemplateRefusedError(f"does not render: {error}") from None
    except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise TemplateRefusedError(f"does not render: {error!r}") from None


def _shown(inputs: Mapping[str, Json], found: re.Match[str]) -> str:
    name = found.group(1)
    return str(inputs[name]) if name in inputs else found.group(0)
