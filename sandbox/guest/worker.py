"""Entry of the guest: `python -I -S -E worker.py`. The rest is imported, so that its byte code can be cached."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from serve import main  # noqa: E402 - found through the line above

command = main()
if command is not None:  # in a fork of a warm worker
    from warm import start

    start(command)
