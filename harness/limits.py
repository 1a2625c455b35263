"""What one box may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Each is enforced, and reported by name when it is hit.

    `disk_mb` bounds every writable place of the box on its own; `output_kb` bounds stdout and stderr each.
    """

    memory_mb: int = 2048
    cpus: float = 1.0
    pids: int = 64
    disk_mb: int = 256
    open_files: int = 256
    output_kb: int = 1024
