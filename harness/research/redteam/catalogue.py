"""Every attack there is: the built-in ones, kind by kind, and those of the entry-point group `harness.attacks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import cast

from harness.errors import InputError
from harness.research.redteam import (
    beside,
    detecting,
    host,
    imports,
    inprocess,
    kernel,
    network,
    outputs,
    peeking,
    planting,
    resources,
    shopping,
    spoofing,
    tampering,
    text,
    watcher,
)
from harness.research.redteam.base import KINDS, Attack

GROUP = "harness.attacks"
_FILE_BY_FILE: tuple[Attack, ...] = (
    *tampering.ATTACKS,
    *imports.ATTACKS,
    *inprocess.ATTACKS,
    *spoofing.ATTACKS,
    *peeking.ATTACKS,
    *shopping.ATTACKS,
    *detecting.ATTACKS,
    *host.ATTACKS,
    *resources.ATTACKS,
    *network.ATTACKS,
    *text.ATTACKS,
    *watcher.ATTACKS,
    *planting.ATTACKS,
    *beside.ATTACKS,
    *outputs.ATTACKS,
    *kernel.ATTACKS,
)
BUILT_IN = tuple(sorted(_FILE_BY_FILE, key=lambda attack: KINDS.index(attack.kind)))


def attacks(only: Sequence[str] = ()) -> list[Attack]:
    """Built-in and installed attacks; `only` names or kinds, if any are given.

    An entry point names a class (made without arguments) or a ready attack. Raises InputError for one that cannot be
    loaded, for two of one name and for a name that is not there.
    """
    found: dict[str, Attack] = {attack.name: attack for attack in BUILT_IN}
    for point in entry_points(group=GROUP):
        attack = _load(point.name, point.load)
        if attack.name in found:
            raise InputError(f"two attacks are called {attack.name!r}", key=f"{GROUP}.{point.name}", mend="rename one")
        found[attack.name] = attack
    chosen = [attack for attack in found.values() if not only or attack.name in only or attack.kind in only]
    unknown = set(only) - {attack.name for attack in chosen} - {attack.kind for attack in chosen}
    if unknown:
        raise InputError(
            f"no attack or kind called {sorted(unknown)[0]!r}", key="--only", mend="`strop redteam --list` shows all"
        )
    return chosen


def _load(name: str, load: Callable[[], object]) -> Attack:
    try:
        loaded = load()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"cannot be loaded: {error}", key=f"{GROUP}.{name}", mend="check the entry point's module path"
        ) from error
    attack = cast("Callable[[], Attack]", loaded)() if isinstance(loaded, type) else cast("Attack", loaded)
    if not all(hasattr(attack, part) for part in ("name", "kind", "what", "mend", "propose")):
        raise InputError(
            "is no attack", key=f"{GROUP}.{name}", mend="see harness.research.redteam.base.Attack for what one has"
        )
    return attack
