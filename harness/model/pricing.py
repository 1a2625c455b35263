"""What calls cost: from the policy's own price, else from a dated table that ships with this version."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.errors import InputError
from harness.model.base import Counted
from harness.policy.schema import ModelPolicy
from harness.records import Json, Spend

NANO = 10**9
_PER_TOKEN = 1000  # a dollar for a million tokens is a thousand nano-dollars for one
_TABLE = Path(__file__).with_name("prices.json")


@dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens of each kind; `dated` is empty for a price the user gave."""

    input: float
    output: float
    cached_input: float
    cache_write: float
    dated: str = ""

    def of(self, counted: Counted) -> int:
        """Billionths of a dollar, rounded up."""
        cached, written = counted.cached_in, counted.written_in
        plain = max(0, (counted.tokens_in or 0) - cached - written)
        dollars = plain * self.input + cached * self.cached_input + written * self.cache_write
        dollars += (counted.tokens_out or 0) * self.output
        return math.ceil(round(dollars * _PER_TOKEN, 6))

    def most(self, tokens_in: int, tokens_out: int) -> int:
        """Billionths of a dollar that so many tokens can cost at the most."""
        dearest = max(self.input, self.cached_input, self.cache_write)
        return math.ceil(round((tokens_in * dearest + tokens_out * self.output) * _PER_TOKEN, 6))


FREE = Price(0.0, 0.0, 0.0, 0.0)


@cache
def _table() -> tuple[str, Mapping[str, Mapping[str, float]]]:
    found = json.loads(_TABLE.read_text())
    return found["dated"], found["models"]


def listed(model: str) -> Price | None:
    """The price of `model` in the table: by its whole name, or by the longest listed name that a date follows."""
    dated, models = _table()
    bare = model.rpartition("/")[2]
    for name in sorted(models, key=len, reverse=True):
        rest = bare.removeprefix(name)
        if bare == name or (bare.startswith(name) and rest[:1] in {"-", "@"} and rest[1:].replace("-", "").isdigit()):
            return _price(models[name], dated)
    return None


def _price(row: Mapping[str, float], dated: str = "") -> Price:
    plain = row["input"]
    return Price(plain, row["output"], row.get("cached_input", plain), row.get("cache_write", plain), dated)


def price_of(name: str, model: ModelPolicy, *, needed: bool) -> Price:
    """The price of a policy's model. Raises InputError when money is bounded and no price is known."""
    if model.price is not None:
        return _price(model.price.model_dump(exclude_none=True))
    found = listed(model.model or name)
    if found is None and needed:
        raise InputError(
            "no price is known for it, and budget.usd is set",
            key=f"models.{name}.price",
            mend="give price = { input = 0.5, output = 1.5 } (USD for a million tokens), zeros for a model of your own",
        )
    return found or FREE


def spend_json(spend: Spend) -> dict[str, Json]:
    """A spend for `--json` and the report."""
    return {
        "requests": spend.requests,
        "tokens_in": spend.tokens_in,
        "tokens_out": spend.tokens_out,
        "usd": round(spend.nano_usd / NANO, 9),
        "estimated": spend.estimated,
    }
