"""What pipes hold in kernel memory, which no process's resident size shows.

Nobody can ask a pipe of somebody else's for its bytes without opening it, and so holding it open: each is taken to be
full. The box's filter keeps pipes at their first size and other memory's pages out of them.
"""

import os
import stat

ROOM = 16 * os.sysconf("SC_PAGE_SIZE")  # pipe(7): 16 pages, when nobody asks for more


def held(pids, slots):
    """Bytes, by every pipe and fifo that the processes have open, each once. `slots` is {pid: how many files its table
    has room for}, for one that made itself unreadable."""
    found, hidden = set(), 0
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except PermissionError:
            hidden += slots.get(pid, 0)
            continue
        except OSError:
            continue
        for name in names:
            try:
                told = os.stat(f"{folder}/{name}")
            except OSError:
                continue
            if stat.S_ISFIFO(told.st_mode):
                found.add((told.st_dev, told.st_ino))
    return (len(found) + hidden) * ROOM
