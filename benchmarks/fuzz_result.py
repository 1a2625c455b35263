"""Fuzz the result parser with atheris: whatever bytes come, a finite score in range or one clean refusal.

pip install atheris && python benchmarks/fuzz_result.py -max_total_time=180
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["harness.evaluation.result"]):
    from harness.evaluation.result import MAX_ITEMS, ResultRefusedError, parse_number, parse_result

SEEDS = (b'{"error": 0.5, "items": {"a": 0, "b": 1}}', b'{"error": 1e-3}', b'{"error": 1, "size": 2}', b"[[[[", b"NaN")
KEYS = (r"\"error\":", r"\"items\":{", r"\"size\":", r"\"a\":", "guard:", r"\\ud800", r"\\u0061")
VALUES = ("NaN", "Infinity", "true", "null", "1e309", "-0", "1e-400", "0x1", "1_0", "}", ",", ":")


def said(text: str) -> None:
    assert text.isprintable()


def one(data: bytes) -> None:
    for guards in ((), ("size",)):
        try:
            result = parse_result(data, metric="error", allowed=(0.0, 1.0), guards=guards)
        except ResultRefusedError as error:
            said(str(error))
            continue
        assert type(result.score) is float
        assert 0.0 <= result.score <= 1.0
        assert len(result.items) <= MAX_ITEMS
        assert all(type(value) is float and math.isfinite(value) for value in result.all_items().values())
    try:
        value = parse_number(data.decode("latin-1"), metric="error", allowed=None)
    except ResultRefusedError as error:
        said(str(error))
    else:
        assert math.isfinite(value)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(SEEDS):
            one(seed)
            (Path(folder) / str(number)).write_bytes(seed)
        words = Path(folder) / "words.dict"
        words.write_text("".join(f'"{word}"\n' for word in (*KEYS, *VALUES)))
        atheris.Setup([*sys.argv, f"-dict={words}", folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
