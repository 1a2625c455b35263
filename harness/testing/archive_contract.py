"""What every archive must do. Subclass `ArchiveContract` in a test and say how to make and reopen one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

import anyio
import pytest

from harness.archive.base import Archive, Commit, StoredProposal
from harness.errors import IntegrityError
from harness.records import Attempt, Json, Outcome, RolloutKey, Split, Status, Variant, Verdict

KEY = RolloutKey("a" * 40, Split.VISIBLE, repeat=1, ticket=3, purpose="confirm")
OUTCOME = Outcome(Status.OK, 0.1, {"e1": 1.0, "e0": -0.0}, "said", "f" * 64, 1.5, 1.25)


def a_commit(ticket: int, *, score: float | None = 0.5, variant: bool = True) -> Commit:
    """A plausible commit of one ticket."""
    name = f"v{ticket}"
    kept = Variant(name, ticket, f"{ticket:040x}", ("v0",), Verdict.KEPT, score, "a note") if variant else None
    verdict = Verdict.KEPT if variant else Verdict.NO_PROPOSAL
    attempt = Attempt(ticket, "v0", name if variant else None, verdict, score, 0.4, "a note", {"knob": [1, 0.5]})
    body: dict[str, Json] = {"ticket": ticket, "decision": {"verdict": str(verdict)}}
    return Commit(ticket, body, {"at": "2026-01-01T00:00:00.000+00:00"}, kept, attempt)


class ArchiveContract(ABC):
    """One test class for every implementation of `harness.archive.base.Archive`."""

    @abstractmethod
    async def make(self, folder: Path) -> Archive:
        """A new archive in `folder`."""

    @abstractmethod
    async def reopen(self, folder: Path) -> Archive:
        """The archive that was made in `folder`."""

    def opened(self, archive: Archive) -> AbstractAsyncContextManager[Archive]:
        return aclosing(archive)  # type: ignore[type-var]

    async def test_a_new_archive_is_empty(self, tmp_path: Path) -> None:
        async with self.opened(await self.make(tmp_path)) as archive:
            assert await archive.head() == ("0" * 64, "0" * 64)
            assert not await archive.ledger()
            assert not await archive.variants()
            assert not await archive.attempts()
            assert not await archive.rollouts()
            assert not await archive.meta()

    async def test_what_was_written_is_read_after_reopening(self, tmp_path: Path) -> None:
        commit = a_commit(1)
        proposal = StoredProposal(1, "v0", None, "n\u00f6te\x00", {"a": [1, 2.5, None]}, ("x: added",), "blocked")
        async with self.opened(await self.make(tmp_path)) as archive:
            await archive.set_meta("seed", {"n": 2**80, "x": 1.0})
            await archive.append("run", {"seed": 0}, {"at": "now"})
            await archive.store_proposal(proposal)
            row = await archive.commit(commit)
        async with self.opened(await self.reopen(tmp_path)) as archive:
            assert await archive.meta() == {"seed": {"n": 2**80, "x": 1.0}}
            assert await archive.proposal(1) == proposal
            assert await archive.proposal(2) is None
            assert list(await archive.variants()) == [commit.variant]
            assert list(await archive.attempts()) == [commit.attempt]
            assert [entry.kind for entry in await archive.ledger()] == ["run", "ticket"]
            assert list(await archive.ledger(after=1)) == [row]
            assert await archive.head() == (row.hash, row.seal)

    async def test_observations_do_not_move_the_content_hash(self, tmp_path: Path) -> None:
        heads: list[tuple[str, str]] = []
        for name, at in (("one", "now"), ("two", "later")):
            async with self.opened(await self.make(tmp_path / name)) as archive:
                await archive.append("session", None, {"at": at, "event": "start"})
                await archive.append("run", {"seed": 0}, {"at": at})
                heads.append(await archive.head())
        assert heads[0][0] == heads[1][0]
        assert heads[0][1] != heads[1][1]

    async def test_a_rollout_is_paid_for_once(self, tmp_path: Path) -> None:
        async with self.opened(await self.make(tmp_path)) as archive:
            assert await archive.begin_rollout(KEY, 2**62) is None
            assert list(await archive.rollouts()) == [(KEY, 2**62, None)]
            await archive.finish_rollout(KEY, OUTCOME)
            assert await archive.begin_rollout(KEY, 2**62) == OUTCOME
        async with self.opened(await self.reopen(tmp_path)) as archive:
            found = await archive.begin_rollout(KEY, 2**62)
            assert found is not None
            assert str(found.items["e0"]) == "-0.0"
            with pytest.raises(IntegrityError):
                await archive.begin_rollout(KEY, 1)
            with pytest.raises(ValueError, match="another outcome"):
                await archive.finish_rollout(KEY, Outcome(Status.TIMEOUT))

    async def test_a_lost_rollout_is_run_again(self, tmp_path: Path) -> None:
        async with self.opened(await self.make(tmp_path)) as archive:
            await archive.begin_rollout(KEY, 7)
        async with self.opened(await self.reopen(tmp_path)) as archive:
            assert await archive.begin_rollout(KEY, 7) is None
            assert list(await archive.rollouts()) == [(KEY, 7, None)]

    async def test_no_outcome_without_a_beginning(self, tmp_path: Path) -> None:
        async with self.opened(await self.make(tmp_path)) as archive:
            with pytest.raises(ValueError, match="never begun"):
                await archive.finish_rollout(KEY, OUTCOME)

    @pytest.mark.parametrize("score", [float("nan"), float("inf")])
    async def test_a_score_is_finite(self, tmp_path: Path, score: float) -> None:
        async with self.opened(await self.make(tmp_path)) as archive:
            await archive.begin_rollout(KEY, 7)
            with pytest.raises(ValueError, match="a missing score is None"):
                await archive.finish_rollout(KEY, Outcome(Status.OK, score))
            with pytest.raises(ValueError, match="a missing score is None"):
                await archive.commit(a_commit(1, score=score))
            assert not await archive.ledger()
            assert not await archive.variants()

    async def test_tickets_come_in_order_and_whole(self, tmp_path: Path) -> None:
        async with self.opened(await self.make(tmp_path)) as archive:
            await archive.commit(a_commit(1))
            await archive.commit(a_commit(3, variant=False, score=None))
            for late in (1, 2, 3):
                with pytest.raises(ValueError, match="in order"):
                    await archive.commit(a_commit(late))
            assert [attempt.ticket for attempt in await archive.attempts()] == [1, 3]
            assert [variant.id for variant in await archive.variants()] == ["v1"]

    async def test_concurrent_writers_in_one_process_all_land(self, tmp_path: Path) -> None:
        async with self.opened(await self.make(tmp_path)) as archive:

            async def one(number: int) -> None:
                await archive.append("session", None, {"n": number})

            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(one, number)
            rows = await archive.ledger()
            assert [row.seq for row in rows] == list(range(1, 21))
            assert sorted(str(row.obs["n"]) for row in rows) == sorted(map(str, range(20)))

    async def test_cancellation_never_tears_a_write(self, tmp_path: Path) -> None:
        async with self.opened(await self.make(tmp_path)) as archive:
            acknowledged = 0
            for _ in range(5):
                with anyio.move_on_after(0.01):
                    while True:
                        await archive.commit(a_commit(acknowledged + 1))
                        acknowledged += 1
                tickets = [attempt.ticket for attempt in await archive.attempts()]
                assert tickets == list(range(1, len(tickets) + 1))
                assert tickets == [variant.ticket for variant in await archive.variants()]
                assert tickets == [row.ticket for row in await archive.ledger()]
                assert len(tickets) in (acknowledged, acknowledged + 1)
                acknowledged = len(tickets)
