"""What the sockets of a network namespace hold in kernel memory, which no process's resident size shows.

Asked of the kernel by sock_diag(7): bytes by socket as the kernel itself charges them. Where it cannot be asked, what
sockets of default size hold at most; the box's filter refuses to make them larger. Two kinds cannot be asked and are
taken to be full: what a closed unix socket left in its peer's queue, and a socket in no table, as one that its peer has
reset while data waited. Tables of TCP are the whole machine's and take milliseconds, so they are read only where the
namespace's own counts say that there is a connection.
"""

import struct

from sweep import counts

BASE = 2048  # a socket that holds nothing
_UNIX, _INET, _INET6, _NETLINK, _TCP, _STREAM = 1, 2, 10, 16, 6, 1
_SHOW_QUEUE_AND_MEMORY, _MEMORY = 0x10 | 0x20, 0x40
_UNIX_QUEUE, _UNIX_MEMORY, _UNIX_SHUT, _INET_MEMORY = 4, 5, 6, 7  # attributes of the replies
_DUMP, _BY_FAMILY, _ERROR, _DONE = 0x301, 20, 2, 3
_ALIVE = 0xFFFFFFFF & ~(1 << 6)  # every state but TIME_WAIT, which is counted and has no buffers


class Sockets:
    """One descriptor to ask through, and how large a buffer is here when nobody asks for another size."""

    def __init__(self):
        import _socket  # costs every box whose commands end before the first look

        try:
            self._asked = _socket.socket(_NETLINK, _socket.SOCK_RAW, 4)
            self._asked.setblocking(False)
        except OSError:
            self._asked = None  # a kernel without sock_diag
        plain = _socket.socket(_UNIX, _socket.SOCK_STREAM)
        self._size = plain.getsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF)
        plain.close()
        self._queue = int(_text("/proc/sys/net/unix/max_dgram_qlen") or 10)
        grown = _text("/proc/sys/net/ipv4/tcp_rmem").split()
        self._grown = max(self._size, int(grown[2]) if len(grown) == 3 else 6 << 20)
        self._unlisted = 0

    def held(self):
        """Bytes, by all sockets of this network namespace."""
        told = counts()
        total = -1
        if self._asked is not None:
            try:
                total = self._known(told)
            except OSError:
                self._asked.close()
                self._asked = None
        if total < 0:
            total = told.get("sockets used", 0) * self._size * 2 + 2 * sum(_queued("tcp") + _queued("tcp6"))
        return total + sum(_queued("udp") + _queued("udp6") + _netlink())

    def _known(self, told):
        """Bytes, asked by socket. Sockets come and go between two tables: unlisted is what was so the last time too."""
        total, listed = self._unix()
        streams = told.get("TCP inuse", 0) + told.get("TCP6 inuse", 0)
        if streams:
            total += self._inet(_INET) + self._inet(_INET6)
        listed += streams + len(_netlink())
        listed += sum(told.get(f"{name}{six} inuse", 0) for name in ("UDP", "UDPLITE", "RAW") for six in ("", "6"))
        unlisted = max(0, told.get("sockets used", listed) - listed)
        sure, self._unlisted = min(unlisted, self._unlisted), unlisted
        return total + sure * self._grown + told.get("TCP tw", 0) * BASE

    def _unix(self):
        """(bytes, sockets)."""
        total = found = 0
        ask = struct.pack("=BBHIIIII", _UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW_QUEUE_AND_MEMORY, 0xFFFFFFFF, 0xFFFFFFFF)
        for body in self._replies(ask):
            told = _attributes(body, 16)
            found += 1
            total += BASE + _word(told.get(_UNIX_MEMORY), 2)
            if body[1] != _STREAM:
                total += (self._queue + 1) * self._size
            elif any(told.get(_UNIX_SHUT, b"")) and _word(told.get(_UNIX_QUEUE), 0):
                total += self._size * 3 // 2
        return total, found

    def _inet(self, family):
        total = 0
        for body in self._replies(struct.pack("=BBBBI48x", family, _TCP, _MEMORY, 0, _ALIVE)):
            told = _attributes(body, 72).get(_INET_MEMORY)
            total += BASE + sum(_word(told, at) for at in (0, 4, 5, 7))  # received, reserved, to send, backlog
        return total

    def _replies(self, ask):
        self._asked.send(struct.pack("=IHHII", 16 + len(ask), _BY_FAMILY, _DUMP, 0, 0) + ask)
        while True:
            data = self._asked.recv(1 << 16)
            at = 0
            while at + 16 <= len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == _DONE:
                    return
                if kind == _ERROR or length < 16:
                    raise OSError("sock_diag refused")
                yield data[at + 16 : at + length]
                at += length + 3 & ~3


def _attributes(body, at):
    told = {}
    while at + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, at)
        if length < 4:
            break
        told[kind] = body[at + 4 : at + length]
        at += length + 3 & ~3
    return told


def _word(data, at):
    return struct.unpack_from("=I", data, at * 4)[0] if data and len(data) >= at * 4 + 4 else 0


def _text(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _queued(name):
    """Bytes waiting in each socket of one kind; both ways."""
    rows = _text("/proc/net/" + name).split(b"\n")[1:]
    pairs = [row.split()[4].split(b":") for row in rows if row]
    return [BASE + int(sent, 16) + int(received, 16) for sent, received in pairs]


def _netlink():
    """Bytes waiting in each socket that a process has bound; the kernel's own have no number."""
    rows = [row.split() for row in _text("/proc/net/netlink").split(b"\n")[1:] if row]
    return [int(row[4]) + int(row[5]) for row in rows if row[2] != b"0"]
