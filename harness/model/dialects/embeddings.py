"""`/v1/embeddings`."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.base import PING, Asked, Counted
from harness.model.dialects import allowed
from harness.model.dialects.openai import OpenAi, usage_of
from harness.model.tokens import Said
from harness.records import Json


class Embeddings(OpenAi):
    """Vectors for texts; nothing is written, so nothing comes out."""

    name = "embeddings"
    writes = False
    path = "/embeddings"

    def read(self, path: str, body: Mapping[str, Json], *, cap: int) -> Asked:
        if body.get("input") is None:
            raise ValueError("input must be given")
        return Asked(stream=False, body=allowed.kept(body, allowed.EMBEDDINGS), most_out=0)

    def plainest(self, model: str) -> tuple[str, Mapping[str, Json]]:
        return self.path, {"model": model, "input": PING}

    def tally(self, asked: Asked) -> _Tally:
        return _Tally()

    def usable(self, reply: Mapping[str, Json]) -> bool:
        return isinstance(reply.get("data"), list)


class _Tally:
    def __init__(self) -> None:
        self.counted = Counted(tokens_out=0)
        self.text = Said()
        self.last = False
        self.finished = False

    def take(self, event: Mapping[str, Json]) -> None:
        self.counted = Counted(usage_of(event.get("usage")).tokens_in, 0)
        self.finished = True
