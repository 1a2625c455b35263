"""The model gateway as seen in the box: a listener on loopback whose connections travel over the host's wire.

Served by the worker itself while a command runs, so there is no process more and nothing the command could kill. Each
side may have `WINDOW` bytes of a connection under way that the other has not passed on.
"""

import select
import socket
import struct

from frames import CHUNK, LENGTH, ignoring

LISTEN, OPENED, BYTES, SHUT, CLOSED, CREDIT = 32, 33, 34, 35, 36, 37
WINDOW = 1 << 18
MOST = 256
SPARE = 40  # descriptors that the worker needs for itself
FAULT = select.POLLERR | select.POLLNVAL


class Relay:
    """Connections to a port of loopback, each a channel of the wire."""

    def __init__(self, wire, open_files):
        self.wire = wire
        self._most = max(1, min(MOST, open_files - SPARE))
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(128)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._poller = None
        self._channel = 0
        self._by_channel = {}
        self._by_descriptor = {}

    def begin(self, poller):
        """A command starts: accept connections."""
        self._poller = poller
        poller.register(self._listener, select.POLLIN)

    def end(self):
        """The command is over, and its connections with it."""
        self._poller = None
        for connection in list(self._by_channel.values()):
            with ignoring(OSError):  # nobody is left to read: a reset, so that the kernel forgets it
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._drop(connection)
        while True:  # what nobody accepted any more
            try:
                self._listener.accept()[0].close()
            except OSError:
                break
        self.wire.flush()

    def close(self):
        """Stop listening."""
        self._listener.close()

    def owns(self, descriptor):
        """Whether an event of the poller is ours."""
        return descriptor in self._by_descriptor or descriptor == self._listener.fileno()

    def turn(self, descriptor, event):
        """Serve one event of the poller."""
        connection = self._by_descriptor.get(descriptor)
        if connection is None:
            self._accept()
        elif event & FAULT or (event & select.POLLOUT and not connection.write()):
            self._drop(connection)
        elif event & (select.POLLIN | select.POLLHUP) and connection.reading:
            self._read(connection)
        elif event & select.POLLHUP and not connection.out:
            self._drop(connection)
        if connection is not None and connection.channel in self._by_channel:
            self._settle(connection)
        self.wire.flush()

    def frame(self, kind, channel, payload):
        """Take one frame of the host's. One for a connection that is gone is nothing."""
        connection = self._by_channel.get(channel)
        if connection is None:
            return
        if kind == BYTES:
            connection.out += payload
        elif kind == SHUT:
            connection.shut = True
        elif kind == CREDIT:
            connection.credit += LENGTH.unpack(payload)[0]
        elif kind == CLOSED:
            connection.ended = True
        if (kind == BYTES or connection.shut or connection.ended) and not connection.write():
            self._drop(connection)
        else:
            self._settle(connection)
        self.wire.flush()

    def _accept(self):
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        if len(self._by_channel) >= self._most:
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            self._channel = self._channel % 0xFFFF + 1
            if self._channel not in self._by_channel:
                break
        connection = _Connection(accepted, self._channel, self.wire)
        self._by_channel[connection.channel] = connection
        self._by_descriptor[connection.descriptor] = connection
        self._poller.register(connection.descriptor, connection.wants())
        self.wire.put(OPENED, connection.channel)

    def _read(self, connection):
        try:
            data = connection.socket.recv(min(CHUNK, connection.credit))
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        if data:
            connection.credit -= len(data)
            self.wire.put(BYTES, connection.channel, data)
        else:
            connection.heard_all = True
            self.wire.put(SHUT, connection.channel)

    def _settle(self, connection):
        done = connection.ended and not connection.out
        if done or (connection.heard_all and connection.shut and not connection.out):
            self._drop(connection)
        elif self._poller is not None:
            self._poller.modify(connection.descriptor, connection.wants())

    def _drop(self, connection):
        if self._by_channel.pop(connection.channel, None) is None:
            return
        del self._by_descriptor[connection.descriptor]
        if self._poller is not None:
            with ignoring(KeyError, OSError):
                self._poller.unregister(connection.descriptor)
        connection.socket.close()
        self.wire.put(CLOSED, connection.channel)


class _Connection:
    def __init__(self, accepted, channel, wire):
        self.socket = accepted
        self.descriptor = accepted.fileno()
        self.channel = channel
        self.wire = wire
        self.credit = WINDOW
        self.out = bytearray()
        self.heard_all = False
        self.shut = False
        self.ended = False
        self._said_end = False

    @property
    def reading(self):
        return self.credit > 0 and not self.heard_all and not self.ended

    def wants(self):
        """What the poller should wait for."""
        return (select.POLLIN if self.reading else 0) | (select.POLLOUT if self.out else 0)

    def write(self):
        """Give the client what there is; whether the connection still stands."""
        sent = 0
        try:
            while sent < len(self.out):
                sent += self.socket.send(memoryview(self.out)[sent : sent + CHUNK])
        except BlockingIOError:
            pass
        except OSError:
            return False
        if sent:
            del self.out[:sent]
            self.wire.put(CREDIT, self.channel, LENGTH.pack(sent))
        if self.shut and not self.out and not self._said_end:
            self._said_end = True
            with ignoring(OSError):
                self.socket.shutdown(socket.SHUT_WR)
        return True
