"""The `strop` command. Imports stay inside the commands, so that `--help` is quick."""

from __future__ import annotations

from harness.cli.app import main as main

__all__ = ["main"]
