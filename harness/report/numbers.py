"""Numbers for people, and careful reading of summaries that are plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.records import Json


def metric(value: float | None, missing: str = "-") -> str:
    """A metric: six significant digits, and a dash when there is none."""
    return missing if value is None else f"{value + 0.0:.6g}"  # -0.0 + 0.0 is 0.0


_TOO_FAR = 100  # of a value near nought a percentage says nothing


def change(new: float | None, old: float | None) -> str:
    """How far `new` is from `old`, as a signed percentage of it; nothing when `old` is nought, or next to it."""
    if new is None or old is None or old == 0:
        return ""
    if new == old:
        return ""
    if abs(new - old) >= _TOO_FAR * abs(old):
        return ""
    share = f"{100 * (new - old) / abs(old):+.1f} %"
    return "0.0 %" if share in {"+0.0 %", "-0.0 %"} else share


def count(value: float) -> str:
    """A counter: whole numbers in full, never with an exponent."""
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def duration(seconds: float) -> str:
    """Seconds as 0:45, 12:03 or 8:00:00."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


def part(summary: Mapping[str, Json], name: str) -> dict[str, Json]:
    """One sub-object of a summary; empty when it is missing or null."""
    value = summary.get(name)
    return value if isinstance(value, dict) else {}


def as_float(value: Json) -> float | None:
    """A JSON number, or None for anything that is not one."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def number(value: Json) -> str:
    """A JSON number as a metric."""
    return metric(as_float(value))


def words(value: Json) -> str:
    """Any JSON for people: rounded numbers, yes and no, `key value` pairs, and no brackets."""
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {words(below)}" for name, below in value.items())
    if isinstance(value, list):
        return " ".join(words(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return metric(value)
    return "none" if value is None else str(value)


def measured(value: float | None, between: Sequence[float] | None) -> str:
    """A metric, and its interval where it has one."""
    ends = interval([*between]) if between is not None else ""
    return f"{metric(value)} {ends}".rstrip()


def interval(value: Json) -> str:
    """A confidence interval as [low, high]; nothing when there is none."""
    if not isinstance(value, list) or len(value) != 2:
        return ""
    return f"[{as_float(value[0]) or 0.0:.4g}, {as_float(value[1]) or 0.0:.4g}]"
