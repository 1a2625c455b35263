"""The system call filter of a box, as the classic BPF that `bwrap --seccomp` and the kernel take.

Allows by default, for it sits under namespaces, no capabilities and no new privileges; refuses what those leave
open: io_uring, keys, ptrace, bpf, perf, mounts, more namespaces, memory nobody counts, larger buffers of sockets and
pipes and pages lent to them, threads with files of their own (the watchdog counts those of processes), sockets that a
network namespace does not hold (AF_VSOCK), limits set on another process (one could kill the worker with its
own), and the scheduling of PID 1 (a starved worker keeps no deadline and watches no memory).
A call of a foreign architecture kills the process.
"""

from __future__ import annotations

import errno
import json
import platform
import struct
from functools import cache
from typing import Any

from harness.box import syscalls
from harness.errors import BoxUnavailableError

_LOAD, _JUMP_EQUAL, _JUMP_GREATER, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32  # offsets in struct seccomp_data; low halves, little-endian
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X32_BIT = 0x40000000
_AUDIT = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: what the network namespace holds
_WORKER = 1  # the worker's pid in a box; it has one thread that matters
_INT = 0xFFFFFFFF  # the kernel reads no more of these arguments; without the mask, higher bits would hide them
_PROTOCOLS = (33, 132, 136, 262)  # DCCP, SCTP, UDP-Lite, MPTCP: their buffers are not asked for
_SOL_SOCKET, _BUFFERS = 1, (7, 8, 32, 33, 60)  # SO_SNDBUF, SO_RCVBUF and their FORCE; SO_ZEROCOPY
_SETPIPE_SZ = 1031
_THREAD, _FILES = 0x10000, 0x400  # CLONE_THREAD, CLONE_FILES
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _fail(code: int) -> bytes:
    return _step(_RETURN, _ERRNO | code)


@cache
def program(machine: str | None = None) -> bytes:
    """The filter for `machine` (this one by default): 8-byte instructions in this machine's byte order.

    Raises BoxUnavailableError for an architecture whose numbers we do not know.
    """
    machine = machine or platform.machine()
    if machine not in _AUDIT:
        raise BoxUnavailableError(
            "embedded boxes",
            reason=f"no system call filter for {machine}",
            mend="use an x86-64 or aarch64 machine, or Docker",
        )
    arch, column = _AUDIT[machine]
    out = [_step(_LOAD, _ARCH), _step(_JUMP_EQUAL, arch, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, _NUMBER)]
    if machine == "x86_64":
        out += [_step(_JUMP_GREATER, _X32_BIT, 0, 1), _step(_RETURN, _KILL)]
    refused = {**syscalls.REFUSED, **syscalls.NEWEST}
    for numbers, code in (
        (refused, errno.EPERM),
        (syscalls.ABSENT, errno.ENOSYS),
        (syscalls.UNSUITED, errno.EINVAL),
    ):
        for pair in numbers.values():
            if pair[column] is not None:
                out += [_step(_JUMP_EQUAL, pair[column] or 0, 0, 1), _fail(code)]
    spaces = [_step(_JUMP_SET, _NEW_NAMESPACES, 0, 1), _fail(errno.EPERM)]
    apart = [_step(_JUMP_SET, _THREAD, 0, 2), _step(_JUMP_SET, _FILES, 1, 0), _fail(errno.EPERM)]
    out += _on(syscalls.CLONE[column], _ARG0, [*spaces, *apart])
    out += _on(syscalls.FCNTL[column], _ARG1, [_step(_JUMP_EQUAL, _SETPIPE_SZ, 0, 1), _fail(errno.EPERM)])
    out += _on(syscalls.PRLIMIT[column], _ARG0, [_step(_JUMP_EQUAL, 0, 1, 0), _fail(errno.EPERM)])
    families = [_step(_JUMP_EQUAL, family, len(_FAMILIES) - at, 0) for at, family in enumerate(_FAMILIES)]
    protocols = [_step(_LOAD, _ARG2)]
    for protocol in _PROTOCOLS:
        protocols += [_step(_JUMP_EQUAL, protocol, 0, 1), _fail(errno.EPROTONOSUPPORT)]
    out += _on(syscalls.SOCKET[column], _ARG0, [*families, _fail(errno.EAFNOSUPPORT), *protocols])
    buffers = [_step(_JUMP_EQUAL, _SOL_SOCKET, 1, 0), _step(_RETURN, _ALLOW), _step(_LOAD, _ARG2)]
    for option in _BUFFERS:
        buffers += [_step(_JUMP_EQUAL, option, 0, 1), _fail(errno.EPERM)]
    out += _on(syscalls.SETSOCKOPT[column], _ARG1, buffers)
    terminal = [_step(_JUMP_EQUAL, _TERMINAL_INJECTION[0], 1, 0), _step(_JUMP_EQUAL, _TERMINAL_INJECTION[1], 0, 1)]
    out += _on(syscalls.IOCTL[column], _ARG1, [*terminal, _fail(errno.EPERM)])
    for numbers, whom, many in syscalls.SLOWING.values():
        tests = [_step(_LOAD, (_ARG0, _ARG1)[whom]), _step(_JUMP_EQUAL, _WORKER, 0, 1), _fail(errno.EPERM)]
        for value in many:
            tests = [_step(_JUMP_EQUAL, value, 0, 1), _fail(errno.EPERM), *tests]
        out += _on(numbers[column], _ARG0, tests)
    out.append(_step(_RETURN, _ALLOW))
    return b"".join(out)


def _on(number: int, argument: int, tests: list[bytes]) -> list[bytes]:
    """Run `tests` on the low half of an argument of one call; falling off their end allows it."""
    body = [_step(_LOAD, argument), *tests, _step(_RETURN, _ALLOW)]
    return [_step(_JUMP_EQUAL, number, 0, len(body)), *body]


@cache
def profile() -> str:
    """The same filter as a profile that Docker takes. (No terminal exists in a container of ours to inject into.)"""
    refused = [name if name != "prlimit" else "prlimit64" for name in (*syscalls.REFUSED, *syscalls.NEWEST)]
    rules: list[dict[str, Any]] = [
        {"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM},
        {"names": list(syscalls.ABSENT), "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
        {"names": list(syscalls.UNSUITED), "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EINVAL},
        _when("prlimit64", errno.EPERM, ("SCMP_CMP_NE", 0)),
        _when("clone", errno.EPERM, ("SCMP_CMP_MASKED_EQ", _THREAD | _FILES), _THREAD),
        _when("fcntl", errno.EPERM, ("SCMP_CMP_MASKED_EQ", _INT), _SETPIPE_SZ, index=1),
        _when("socket", errno.EAFNOSUPPORT, ("SCMP_CMP_GE", 64)),
    ]
    for bit in range(32):
        if _NEW_NAMESPACES >> bit & 1:
            rules.append(_when("clone", errno.EPERM, ("SCMP_CMP_MASKED_EQ", 1 << bit), 1 << bit))
    for family in range(64):
        if family not in _FAMILIES:
            rules.append(_when("socket", errno.EAFNOSUPPORT, ("SCMP_CMP_EQ", family)))
    for name, (_, whom, many) in syscalls.SLOWING.items():
        rules.append(_when(name, errno.EPERM, ("SCMP_CMP_MASKED_EQ", _INT), _WORKER, index=whom))
        rules += [_when(name, errno.EPERM, ("SCMP_CMP_MASKED_EQ", _INT), value) for value in many]
    for protocol in _PROTOCOLS:
        rules.append(_when("socket", errno.EPROTONOSUPPORT, ("SCMP_CMP_MASKED_EQ", _INT), protocol, index=2))
    for option in _BUFFERS:
        rule = _when("setsockopt", errno.EPERM, ("SCMP_CMP_MASKED_EQ", _INT), option, index=2)
        level = _when("setsockopt", errno.EPERM, ("SCMP_CMP_MASKED_EQ", _INT), _SOL_SOCKET, index=1)
        rules.append({**rule, "args": [*level["args"], *rule["args"]]})
    machine = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "architectures": list(machine.values()), "syscalls": rules})


def _when(name: str, error: int, test: tuple[str, int], second: int = 0, *, index: int = 0) -> dict[str, Any]:
    operation, value = test
    argument = {"index": index, "op": operation, "value": value, "valueTwo": second}
    return {"names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": error, "args": [argument]}
