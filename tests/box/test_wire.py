import importlib.util
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.box import wire
from harness.errors import InfraError
from harness.resources import resource
from harness.tree import Entry

FROM_GUEST = [wire.HELLO, wire.OK, wire.FAIL, wire.ENTRY, wire.DATA, wire.END, wire.OUT, wire.ERR, wire.EXIT, 33]
names = st.binary(min_size=1, max_size=40).filter(lambda n: b"/" not in n and b"\0" not in n and n not in {b".", b".."})
paths = st.lists(names, min_size=1, max_size=4).map(b"/".join)
entries = st.builds(
    Entry,
    path=paths,
    kind=st.sampled_from(["file", "dir"]),
    mode=st.integers(0, 0o777),
    data=st.just(b""),
) | st.builds(Entry, path=paths, kind=st.just("file"), mode=st.integers(0, 0o777), data=st.binary(max_size=70_000))


def _guest_frames():
    spec = importlib.util.spec_from_file_location("guest_frames", resource("sandbox") / "guest" / "frames.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_host_and_guest_speak_the_same():
    guest = _guest_frames()
    names = [name for name in vars(guest) if name.isupper() and isinstance(getattr(guest, name), int)]
    assert len(names) >= 17
    assert {name: getattr(guest, name) for name in names} == {name: getattr(wire, name) for name in names}
    assert guest.KINDS == wire.KINDS
    assert (guest.HEADER.size, guest.ENTRY_HEAD.format) == (wire.HEADER.size, wire.ENTRY_HEAD.format)
    assert guest.unpack(wire.pack([b"", b"ab"])) == wire.unpack(guest.pack([b"", b"ab"]), 2) == [b"", b"ab"]


@given(
    st.lists(st.tuples(st.sampled_from(FROM_GUEST), st.integers(0, 0xFFFF), st.binary(min_size=1, max_size=300))),
    st.data(),
)
def test_frames_arrive_whole_however_they_are_cut(frames, data):
    sent = b"".join(wire.encode(*frame) for frame in frames)
    decoder = wire.Decoder()
    got, at = [], 0
    while at < len(sent):
        size = data.draw(st.integers(1, 400))
        got += decoder.feed(sent[at : at + size])
        at += size
    assert [tuple(frame) for frame in got] == frames
    assert decoder.pending == 0


@given(st.lists(st.binary(max_size=2000), max_size=20))
def test_garbage_raises_infra_error_or_waits_within_bounds(chunks):
    decoder = wire.Decoder()
    reader = wire.EntryReader(max_bytes=1000, max_entries=10)
    try:
        for chunk in chunks:
            for frame in decoder.feed(chunk):
                reader.feed(frame)
        reader.done()
    except InfraError:
        return
    assert decoder.pending <= wire.MAX_FRAME + wire.HEADER.size


@pytest.mark.parametrize(
    "head",
    [
        (99, 0, 0, 1),
        (wire.EXEC, 0, 0, 1),
        (wire.OUT, 1, 0, 1),
        (wire.OUT, 0, 0, wire.MAX_FRAME + 1),
        (wire.OUT, 0, 0, 0xFFFFFFFF),
        (wire.OUT, 0, 0, 0),
        (wire.DATA, 0, 0, 0),
    ],
)
def test_a_bad_header_is_refused_before_its_payload(head):
    with pytest.raises(InfraError):
        list(wire.Decoder().feed(wire.HEADER.pack(*head)))


@given(st.lists(entries, max_size=8, unique_by=lambda entry: entry.path))
def test_entries_survive_the_wire(given_entries):
    decoder, reader = wire.Decoder(), wire.EntryReader(1 << 20, 8)
    for part in wire.encode_entries(given_entries, 1):
        for frame in decoder.feed(part):
            reader.feed(frame)
    assert reader.done() == sorted(given_entries, key=lambda entry: entry.path)


@given(
    st.integers(0, 255),
    st.integers(0, 0xFFFF),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=60),
    st.binary(max_size=60),
)
def test_one_hostile_entry_stays_within_bounds(kind, mode, size, path, data):
    reader = wire.EntryReader(max_bytes=50, max_entries=1)
    try:
        reader.feed(wire.Frame(wire.ENTRY, 1, wire.ENTRY_HEAD.pack(kind, mode, 1, size) + path))
        if data:
            reader.feed(wire.Frame(wire.DATA, 1, data))
        (entry,) = reader.done()
    except InfraError:
        return
    assert len(entry.data) == size <= 50
    assert b".." not in entry.path.split(b"/")
    assert not entry.path.startswith(b"/")


def _feed_all(reader, frames):
    for frame in frames:
        reader.feed(frame)


def test_entries_that_no_honest_worker_sends():
    def head(kind, size, path=b"f"):
        return wire.Frame(wire.ENTRY, 1, wire.ENTRY_HEAD.pack(kind, 0o644, 1, size) + path)

    for frames in (
        [wire.Frame(wire.DATA, 1, b"x")],
        [head(0, 2), wire.Frame(wire.DATA, 1, b"xyz")],
        [head(0, 2), head(0, 2)],
        [head(4, 1)],
        [head(0, 0), head(0, 0), head(0, 0)],
        [wire.Frame(wire.ENTRY, 1, b"short")],
        [head(0, 0, b"/abs")],
        [head(0, 0, b"a/../b")],
        [head(0, 0, b"a" * 5000)],
    ):
        reader = wire.EntryReader(10, 2)
        with pytest.raises(InfraError):
            _feed_all(reader, frames)
    reader = wire.EntryReader(10, 2)
    reader.feed(head(0, 2))
    with pytest.raises(InfraError):
        reader.done()


@given(st.binary(max_size=200), st.integers(0, 6))
def test_fields_add_up_or_are_refused(payload, count):
    try:
        items = wire.unpack(payload, count)
    except InfraError:
        return
    assert wire.pack(items) == payload


@given(st.binary(max_size=40))
def test_numbers_are_plain_and_in_range(field):
    try:
        value = wire.number(field, -5, 1e9)
    except InfraError:
        return
    assert math.isfinite(value)
    assert -5 <= value <= 1e9
