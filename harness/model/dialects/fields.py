"""Fields of JSON that nobody vouches for, read without trusting their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.records import Json

MOST_TOKENS = 10**9


def table(value: Json) -> Mapping[str, Json]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Json) -> Iterator[Mapping[str, Json]]:
    """The objects in a list; nothing for anything else."""
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield one


def count(value: Json) -> int | None:
    """A sane number of tokens, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return None
    return int(value)


def capped(body: Mapping[str, Json], keys: tuple[str, ...], default: str, cap: int) -> tuple[dict[str, Json], int]:
    """(`body` with its output limit at most `cap`, that limit). `default` is set when none of `keys` is there.

    Raises ValueError for a limit that is no positive whole number.
    """
    laid = dict(body)
    most = cap
    given = [key for key in keys if laid.get(key) is not None]
    for key in given or [default]:
        asked = laid.get(key)
        if asked is None:
            asked = cap
        if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
            raise ValueError(f"{key} must be a positive whole number")
        most = min(asked, most)
    for key in given or [default]:
        laid[key] = most  # with two of them, nobody knows which one an upstream heeds
    return laid, most


def one_limit(body: Mapping[str, Json]) -> Mapping[str, Json]:
    """`body` with llama.cpp's own name for the limit spelled as everyone's. Raises ValueError when both are given."""
    if "n_predict" not in body:
        return body
    laid = dict(body)
    asked = laid.pop("n_predict")
    if any(laid.get(key) is not None for key in ("max_tokens", "max_completion_tokens")):
        raise ValueError("give max_tokens or n_predict, not both")
    if asked is not None and asked != -1:
        laid["max_tokens"] = asked
    return laid


def copies(body: Mapping[str, Json], *keys: str) -> int:
    """How many replies are asked for at once. Raises ValueError when that is no whole number from 1 to 128."""
    most = 1
    for key in keys:
        asked = body.get(key)
        if asked is None:
            continue
        if isinstance(asked, bool) or not isinstance(asked, int) or not 1 <= asked <= 128:
            raise ValueError(f"{key} must be a whole number from 1 to 128")
        most = max(most, asked)
    return most


def named_in(body: Mapping[str, Json]) -> str:
    """The model asked for. Raises ValueError when there is none."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError("model must be named")
    return model


def options(request: Mapping[str, Json], key: str) -> dict[str, Json]:
    """A copy of the table at `key`, or a new one."""
    return dict(table(request.get(key)))


def must_list(body: Mapping[str, Json], key: str) -> None:
    """Raises ValueError unless there is a list at `key`."""
    if not isinstance(body.get(key), list):
        raise ValueError(f"{key} must be a list")  # noqa: TRY004 - one error for everything malformed
