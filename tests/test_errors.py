import pytest

from harness.errors import LimitError, StorageError
from harness.records import Completed

NOTHING = Completed(exit_code=0, stdout=b"", stderr=b"", truncated=False, wall_s=0.0, cpu_s=0.0)


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("memory", 2048, "2048 MB"),
        ("disk", 256, "256 MB"),
        ("output", 2**20, "1 MB"),
        ("output", 2**16, "64 kB"),
        ("pids", 64, "64"),
    ],
)
def test_a_limit_is_said_in_its_unit(limit, value, said):
    assert str(LimitError(limit, value=value, partial=NOTHING)) == f"hit its {limit} limit of {said}"


def test_a_full_disk_says_what_to_do_where_there_is_a_run_and_where_there_is_none():
    assert "strop resume" in str(StorageError("runs", reason="full"))
    assert str(StorageError("runs", reason="full", mend="try again")).endswith("mend: try again")
