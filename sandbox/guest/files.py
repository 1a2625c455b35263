"""Files in and out of the box, and wiping them. Runs only while nothing else lives in the box."""

import fcntl
import os
import stat
import sys

from frames import CHUNK, DATA, END, ENTRY, ENTRY_HEAD, FAIL, KINDS, OK, ignoring, pack, unpack

MAX_PATH = 4096
FILE, DIR, SYMLINK, HARDLINK, FIFO, SOCKET, DEVICE, UNKNOWN = range(len(KINDS))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_GETFLAGS, _SETFLAGS, _OWNERS = 0x80086601, 0x40086602, 0xC0  # FS_IOC_*; nodump and noatime are an owner's to set


def put(wire, channel, payload):
    """Write the entries that follow; the first failure is told at the end, when all of them have been read."""
    at, read_only = unpack(payload)
    writer = _Writer(at)
    while True:
        kind, _, body = wire.next()
        if kind == END:
            break
        writer.attempt(writer.entry if kind == ENTRY else writer.data, body)
    writer.attempt(writer.close)
    if read_only == b"1":
        writer.attempt(writer.freeze)
    writer.abandon()
    if writer.failure is None:
        wire.send(OK, channel)
    else:
        wire.send(FAIL, channel, pack([b"%d" % (writer.failure.errno or 0), str(writer.failure).encode()]))


class _Writer:
    def __init__(self, at):
        self.at = at
        self.failure = None
        self._file = -1
        self._mode = 0
        self._made = []

    def attempt(self, step, *arguments):
        """Take a step unless an earlier one failed."""
        if self.failure is None:
            try:
                step(*arguments)
            except OSError as error:
                self.failure = error

    def entry(self, body):
        self.close()
        kind, mode, _, _ = ENTRY_HEAD.unpack_from(body)
        path = body[ENTRY_HEAD.size :]
        *parents, name = (self.at + b"/" + path).strip(b"/").split(b"/")
        if kind == DIR:
            parents.append(name)
        parent = self._enter(parents)
        try:
            if kind == FILE:
                _remove(parent, name)
                self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=parent)
                self._mode = mode
        finally:
            os.close(parent)
        self._made.append((self.at + b"/" + path, mode))

    def data(self, body):
        view = memoryview(body)
        while view and self._file >= 0:
            view = view[os.write(self._file, view) :]

    def close(self):
        if self._file >= 0:
            file, self._file = self._file, -1
            try:
                os.fchmod(file, self._mode & 0o777)
            finally:
                os.close(file)

    def abandon(self):
        """Let go of a file that could not be finished."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def freeze(self):
        """Take the write bits off what was put, and off the folders it lies in."""
        seen = set()
        for path, mode in self._made:
            if not os.path.islink(path):
                os.chmod(path, mode & 0o555 or 0o444)
            folder = path
            while len(folder) > len(self.at):
                folder = os.path.dirname(folder)
                seen.add(folder)
        seen.add(self.at)
        for folder in sorted(seen, key=len, reverse=True):
            os.chmod(folder, 0o555)

    @staticmethod
    def _enter(parts):
        """Open a folder one name at a time, making what is missing; a link in the way is replaced, not followed."""
        here = os.open(b"/", _FOLDER)
        for name in parts:
            try:
                there = os.open(name, _FOLDER, dir_fd=here)
            except FileNotFoundError:
                os.mkdir(name, 0o755, dir_fd=here)
                there = os.open(name, _FOLDER, dir_fd=here)
            except (NotADirectoryError, OSError) as error:
                if isinstance(error, PermissionError):
                    os.close(here)
                    raise
                _remove(here, name)
                os.mkdir(name, 0o755, dir_fd=here)
                there = os.open(name, _FOLDER, dir_fd=here)
            os.close(here)
            here = there
        return here


def _remove(folder, name):
    try:
        mode = os.lstat(name, dir_fd=folder).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        wipe_below(folder, name)
        os.rmdir(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def get(wire, channel, payload, keep):
    """Tell everything below a folder, as data, in at most `max_bytes` and `max_entries`."""
    at, max_bytes, max_entries = unpack(payload)
    reader = _Reader(wire, channel, int(max_bytes), int(max_entries), keep)
    try:
        status = b"ok" if reader.walk(at) else b"over"
    except OSError as error:
        status = b"failed: " + str(error).encode()
    wire.send(END, channel, pack([status]))


class _Reader:
    def __init__(self, wire, channel, max_bytes, max_entries, keep):
        self.wire = wire
        self.channel = channel
        self.bytes_left = max_bytes
        self.entries_left = max_entries
        self.keep = keep

    def walk(self, at):
        try:
            info = os.lstat(at)
        except FileNotFoundError:
            return True
        if not stat.S_ISDIR(info.st_mode):
            return self._tell(at, b"", info)
        queue = [b""]
        while queue:
            folder = queue.pop()
            base = at + b"/" + folder if folder else at
            info = os.lstat(base)
            if info.st_mode & 0o500 != 0o500:
                os.chmod(base, 0o700)
            with os.scandir(base) as names:
                for name in names:
                    path = folder + b"/" + name.name if folder else name.name
                    whole = at + b"/" + path
                    if whole in self.keep:
                        continue
                    info = os.lstat(whole)
                    if not self._tell(whole, path, info):
                        return False
                    if stat.S_ISDIR(info.st_mode):
                        if len(whole) > MAX_PATH - 257:  # a name below it would be too long to tell
                            return False
                        queue.append(path)
        return True

    def _tell(self, whole, path, info):
        self.entries_left -= 1
        if self.entries_left < 0 or len(path) > MAX_PATH:
            return False
        kind = _kind(info)
        data = os.readlink(whole)[:MAX_PATH] if kind == SYMLINK else b""
        size = info.st_size if kind == FILE else len(data)
        self.bytes_left -= size
        if self.bytes_left < 0:
            return False
        head = ENTRY_HEAD.pack(kind, info.st_mode & 0o7777, min(info.st_nlink, 0xFFFFFFFF), size)
        self.wire.put(ENTRY, self.channel, head + path)
        if data:
            self.wire.put(DATA, self.channel, data)
        if kind == FILE and size:
            self._stream(whole, info, size)
        return True

    def _stream(self, whole, info, size):
        if info.st_mode & 0o400 == 0:
            os.chmod(whole, 0o600)
        file = os.open(whole, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            while size:
                data = os.read(file, min(size, CHUNK))
                if not data:
                    raise OSError(0, "a file shrank while it was read")
                size -= len(data)
                self.wire.put(DATA, self.channel, data)
        finally:
            os.close(file)


def _kind(info):
    mode = info.st_mode
    if stat.S_ISREG(mode):
        return HARDLINK if info.st_nlink > 1 else FILE
    tests = (stat.S_ISDIR, DIR), (stat.S_ISLNK, SYMLINK), (stat.S_ISFIFO, FIFO), (stat.S_ISSOCK, SOCKET)
    for test, kind in tests:
        if test(mode):
            return kind
    return DEVICE if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else UNKNOWN


def fresh(places, keep):
    """{folder: its mode} of the writable places and of what must stay in them, before any other code has run."""
    modes = {place: os.lstat(place) for place in places}
    for path in keep:
        for place in places:
            if path.startswith(place + b"/") and os.lstat(path).st_dev == modes[place].st_dev:
                modes[path] = os.lstat(path)
                break
    return {path: info.st_mode & 0o7777 for path, info in modes.items()}


def wipe(place, keep, modes):
    """Empty a writable place and make it look new. `keep` names what must stay: mount points and their parents;
    `modes` is what `fresh` found."""
    root = os.open(b"/", _FOLDER)
    try:
        wipe_below(root, place.lstrip(b"/"), place, keep)
        for path in sorted(keep):
            if path.startswith(place + b"/") and os.lstat(path).st_dev == os.lstat(place).st_dev:
                wipe_below(root, path.lstrip(b"/"), path, keep)
    finally:
        os.close(root)
    for path, mode in modes.items():
        if path == place or path.startswith(place + b"/"):
            _renew(path, mode)


def _renew(path, mode):
    for name in os.listxattr(path):
        with ignoring(OSError):
            os.removexattr(path, name)
    here = os.open(path, _FOLDER)
    try:
        with ignoring(OSError):  # not every file system has them
            flags = int.from_bytes(fcntl.ioctl(here, _GETFLAGS, bytes(8))[:4], sys.byteorder)
            if flags & _OWNERS:
                fcntl.ioctl(here, _SETFLAGS, (flags & ~_OWNERS).to_bytes(8, sys.byteorder))
        os.fchmod(here, mode)
        os.utime(here)
    finally:
        os.close(here)


def wipe_below(parent, name, place=b"", keep=()):
    """Remove everything in the folder `name`. Deep trees are flattened as they are met, so nothing recurses."""
    _open_up(parent, name)
    top = os.open(name, _FOLDER, dir_fd=parent)
    serial = 0
    try:
        device = os.fstat(top).st_dev
        while True:
            found = [entry for entry in os.listdir(top) if place + b"/" + os.fsencode(entry) not in keep]
            moved = False
            for entry in found:
                info = os.lstat(entry, dir_fd=top)
                if not stat.S_ISDIR(info.st_mode):
                    os.unlink(entry, dir_fd=top)
                    continue
                if info.st_dev != device:
                    continue
                _open_up(top, entry)
                folder = os.open(entry, _FOLDER, dir_fd=top)
                try:
                    for inner in os.listdir(folder):
                        if stat.S_ISDIR(os.lstat(inner, dir_fd=folder).st_mode):
                            _open_up(folder, inner)
                            serial = _lift(folder, inner, top, serial)
                            moved = True
                        else:
                            os.unlink(inner, dir_fd=folder)
                finally:
                    os.close(folder)
                os.rmdir(entry, dir_fd=top)
            if not moved:
                return
    finally:
        os.close(top)


def _open_up(folder, name):
    with ignoring(OSError):
        if os.lstat(name, dir_fd=folder).st_mode & 0o700 != 0o700:
            os.chmod(name, 0o700, dir_fd=folder)


def _lift(folder, inner, top, serial):
    while True:
        serial += 1
        try:
            os.rename(inner, f".strop-{serial}", src_dir_fd=folder, dst_dir_fd=top)
        except (FileExistsError, NotADirectoryError, OSError) as error:
            if error.errno in (17, 20, 39):
                continue
            raise
        return serial
