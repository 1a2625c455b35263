import json
import struct

import pytest

from harness.box.seccomp import profile, program
from harness.box.syscalls import ABSENT, NEWEST, REFUSED, SLOWING, UNSUITED
from harness.errors import BoxUnavailableError

ALLOW, KILL, EPERM, ENOSYS, EAFNOSUPPORT, EINVAL = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x50061, 0x50016
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def run(code, number, arch, *arguments):
    """The kernel's answer: an interpreter of the classic BPF that the filter uses."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *(list(arguments) + [0] * 6)[:6])
    steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    held, at = 0, 0
    while True:
        op, yes, no, value = steps[at]
        at += 1
        if op == 0x20:
            (held,) = struct.unpack_from("<I", data, value)
        elif op == 0x06:
            return value
        else:
            true = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[op]
            at += yes if true else no


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_every_listed_call_is_refused_and_the_rest_allowed(machine, column):
    code, arch = program(machine), ARCH[machine]
    refused = {pair[column]: name for name, pair in {**REFUSED, **NEWEST}.items() if pair[column] is not None}
    absent = {pair[column]: name for name, pair in ABSENT.items() if pair[column] is not None}
    assert len(refused) + len(absent) > 60
    for number in range(500):
        expected = EPERM if number in refused else ENOSYS if number in absent else ALLOW
        expected = EINVAL if number in {pair[column] for pair in UNSUITED.values()} else expected
        socket = (41, 198)[column]
        assert run(code, number, arch, 0 if number != socket else 1) == expected, number


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_arguments_decide(machine, column):
    code, arch = program(machine), ARCH[machine]
    clone, prlimit, socket, ioctl = ((56, 302, 41, 16), (220, 261, 198, 29))[column]
    assert run(code, clone, arch, 0x10000000 | 17) == EPERM
    assert run(code, clone, arch, 0x003D0F00) == ALLOW  # a thread
    assert run(code, prlimit, arch, 1) == EPERM
    assert run(code, prlimit, arch, 0) == ALLOW
    assert [run(code, socket, arch, family) for family in (1, 2, 10, 16)] == [ALLOW] * 4
    assert {run(code, socket, arch, family) for family in (0, 17, 31, 38, 40, 44)} == {EAFNOSUPPORT}
    assert [run(code, ioctl, arch, 0, what) for what in (0x5412, 0x541C, 0x5401)] == [EPERM, EPERM, ALLOW]


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_socket_buffers_keep_their_size_and_protocols_are_the_known_ones(machine, column):
    code, arch = program(machine), ARCH[machine]
    setsockopt, socket = ((54, 41), (208, 198))[column]
    for option in (7, 8, 32, 33, 60):
        assert run(code, setsockopt, arch, 3, 1, option) == EPERM
        assert run(code, setsockopt, arch, 3, 6, option) == ALLOW
    assert [run(code, setsockopt, arch, 3, 1, option) for option in (2, 9, 20)] == [ALLOW] * 3
    assert {run(code, socket, arch, 2, 1, protocol) for protocol in (33, 132, 136, 262)} == {0x5005D}
    assert {run(code, socket, arch, 2, 1, protocol) for protocol in (0, 6, 17)} == {ALLOW}


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_pipes_keep_their_size_and_a_thread_has_the_files_of_its_process(machine, column):
    code, arch = program(machine), ARCH[machine]
    fcntl, clone = ((72, 56), (25, 220))[column]
    assert [run(code, fcntl, arch, 3, what) for what in (1031, 1 << 32 | 1031, 1032, 1030)] == [
        EPERM,
        EPERM,
        ALLOW,
        ALLOW,
    ]
    assert run(code, clone, arch, 0x003D0F00 & ~0x400) == EPERM
    assert run(code, clone, arch, 0x4111) == ALLOW  # vfork: a process
    rules = json.loads(profile())["syscalls"]
    assert {"names": ["splice", "vmsplice"], "action": "SCMP_ACT_ERRNO", "errnoRet": 22} in rules
    tests = [rule["args"][0] for rule in rules if rule["names"] in (["fcntl"], ["clone"])]
    assert {"index": 1, "op": "SCMP_CMP_MASKED_EQ", "value": 0xFFFFFFFF, "valueTwo": 1031} in tests
    assert {"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": 0x10400, "valueTwo": 0x10000} in tests


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_nobody_slows_the_worker(machine, column):
    code, arch = program(machine), ARCH[machine]
    high = 1 << 32  # the kernel reads an int
    for numbers, whom, many in SLOWING.values():
        for pid, answer in ((1, EPERM), (high | 1, EPERM), (0, ALLOW), (2, ALLOW), (11, ALLOW)):
            assert run(code, numbers[column], arch, *((pid,) if whom == 0 else (0, pid))) == answer
        for which in many:
            assert run(code, numbers[column], arch, which, 7) == EPERM
            assert run(code, numbers[column], arch, high | which, 0) == EPERM
    rules = json.loads(profile())["syscalls"]
    for name, (_, whom, many) in SLOWING.items():
        tests = [rule["args"][0] for rule in rules if rule["names"] == [name]]
        assert [(t["index"], t["op"], t["value"], t["valueTwo"]) for t in tests] == [
            (index, "SCMP_CMP_MASKED_EQ", 0xFFFFFFFF, value) for index, value in ((whom, 1), *((0, v) for v in many))
        ]


def test_other_architectures_are_killed():
    assert run(program("x86_64"), 0, ARCH["aarch64"]) == KILL
    assert run(program("x86_64"), 0, 0x40000003) == KILL
    assert run(program("x86_64"), 0x40000000, ARCH["x86_64"]) == KILL
    assert run(program("aarch64"), 0, ARCH["x86_64"]) == KILL


def test_an_unknown_machine_is_said():
    with pytest.raises(BoxUnavailableError, match="riscv64"):
        program("riscv64")
