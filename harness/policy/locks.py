"""Which paths may change: the `editable` globs, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wcmatch import glob

_FLAGS = glob.GLOBSTAR | glob.DOTGLOB | glob.CASE


@dataclass(frozen=True, slots=True)
class Globs:
    """Anchored, case-sensitive globs over POSIX-relative paths: `*` stays in a folder, `**` crosses them."""

    patterns: tuple[str, ...]

    def __call__(self, path: str) -> bool:
        return any(glob.globmatch(path, pattern, flags=_FLAGS) for pattern in self.patterns)

    def select(self, paths: Iterable[str]) -> list[str]:
        """The paths that match, in the order given."""
        return [path for path in paths if self(path)]

    def barren(self, paths: Iterable[str]) -> list[str]:
        """The patterns that match none of `paths`."""
        known = list(paths)
        return [pattern for pattern in self.patterns if not Globs((pattern,)).select(known)]
