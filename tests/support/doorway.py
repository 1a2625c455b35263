"""A Unix socket before an engine's own, that can go away, come back, and stop answering, as an engine does."""

import contextlib
import socket
import threading


class Doorway:
    def __init__(self, path, engine="/var/run/docker.sock"):
        self.path = path
        self.engine = engine
        self.live = set()
        self.moving = threading.Event()
        self.moving.set()
        self.listener = None
        self.served = 0

    def open(self):
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(64)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def close(self):
        """Go away: every connection is cut."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.path.unlink(missing_ok=True)
        for end in list(self.live):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def hang(self):
        """Carry nothing any more."""
        self.moving.clear()

    def resume(self):
        self.moving.set()

    def _accept(self, listener):
        while True:
            try:
                ours, _ = listener.accept()
            except OSError:
                return
            self._serve(ours)

    def _serve(self, ours):
        theirs = socket.socket(socket.AF_UNIX)
        theirs.connect(self.engine)
        self.served += 1
        self.live |= {ours, theirs}
        both = [threading.Thread(target=self._copy, args=pair) for pair in ((ours, theirs), (theirs, ours))]
        for thread in both:
            thread.daemon = True
            thread.start()
        threading.Thread(target=self._end, args=(both, ours, theirs), daemon=True).start()

    def _copy(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.moving.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _end(self, both, *ends):
        for thread in both:
            thread.join()
        for end in ends:
            self.live.discard(end)
            end.close()
