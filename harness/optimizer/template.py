"""How a slot's text becomes a prompt: raw, `{name}` braces, or a sandboxed jinja template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from harness.optimizer.base import Engine
from harness.optimizer.jinja import TemplateRefusedError, names_in, rendered
from harness.records import Json

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def placeholders(text: str, engine: Engine, known: Set[str] = frozenset()) -> frozenset[str]:
    """The names `text` would fill in. With braces only `known` names count: every other brace is literal text.

    Raises TemplateRefusedError for a template that does not parse.
    """
    if engine == "raw":
        return frozenset()
    if engine == "braces":
        return frozenset(name for name in _FIELD.findall(text) if name in known)
    return names_in(text)


def render(text: str, engine: Engine, inputs: Mapping[str, Json]) -> str:
    """The prompt for one example. Text with literal braces (JSON, code, sets) comes through as it stands.

    Raises TemplateRefusedError.
    """
    if engine == "raw":
        return text
    if engine == "braces":
        return _FIELD.sub(lambda found: _shown(inputs, found), text)
    return rendered(text, inputs)


def _shown(inputs: Mapping[str, Json], found: re.Match[str]) -> str:
    name = found.group(1)
    return str(inputs[name]) if name in inputs else found.group(0)


__all__ = ["TemplateRefusedError", "placeholders", "render"]
