"""`strop redteam`: attack a subject's own eval before trusting it for a night."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.arguments import AsJson, Quiet
from harness.untrusted import line

if TYPE_CHECKING:
    from rich.table import Table

    from harness.research.redteam.base import Attack
    from harness.research.redteam.campaign import Campaign
    from harness.research.redteam.trial import Finding

STYLE = {"blocked": "green", "harmless": "dim", "got through": "bold red", "does not apply": "dim"}


def redteam(
    subject: Annotated[Path, typer.Argument(help="The folder with a strop.toml.", show_default=False)],
    only: Annotated[
        list[str] | None, typer.Option(help="An attack or a kind of attacks. May be repeated.", show_default="all")
    ] = None,
    unguarded: Annotated[
        bool, typer.Option("--unguarded", help="Also show what each cheat gains where nothing guards.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="Only list the attacks.")] = False,
    policy: Annotated[
        str | None, typer.Option(help="A shipped policy's name, or a TOML file.", show_default="the subject's")
    ] = None,
    box: Annotated[
        Literal["auto", "docker", "embedded"] | None,
        typer.Option(help="Where the attacks run; never as a plain process.", show_default="policy"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override any policy key. May be repeated.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run every known cheat against SUBJECT, through the real door, boxes, gate and holdout.

    Each is blocked by a named control, harmless, or got through, with what to do about it. Exit 1 if any got
    through.

    Example: strop redteam archives/digits --only "score spoofing"
    """
    import anyio

    from harness.cli.output import console, print_json
    from harness.cli.settings import find_subject, gather, policy_path
    from harness.research.redteam.campaign import redteam as attack
    from harness.research.redteam.catalogue import attacks

    chosen = attacks(only or [])
    if listed:
        _list(chosen, as_json)
        return
    overrides = gather(settings or [], agent=None, steps=None, rollouts=None, wall=None, box=box)
    folder = find_subject(subject)
    noise = console(stderr=True)
    count = 0

    def told(finding: Finding) -> None:
        nonlocal count
        count += 1
        if not quiet and not as_json:
            noise.print(
                f"[{count:>3}/{len(chosen)}] {finding.attack:<28} {finding.ending}", style=STYLE[finding.ending]
            )

    async def campaign() -> Campaign:
        return await attack(
            folder, chosen, policy=policy_path(policy), overrides=overrides, unguarded=unguarded, told=told
        )

    found = anyio.run(campaign)
    if as_json:
        print_json(_json(found))
    else:
        _print(found)
    if found.through:
        raise typer.Exit(1)


def _list(chosen: Sequence[Attack], as_json: bool) -> None:
    from harness.cli.output import console, print_json

    if as_json:
        print_json([{"attack": one.name, "kind": one.kind, "what": one.what} for one in chosen])
        return
    table = _table("attack", "kind", "what")
    for one in chosen:
        table.add_row(line(one.name), line(one.kind), line(one.what))
    console().print(table)


def _json(found: Campaign) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "subject": found.subject,
        "mode": found.mode,
        "metric": found.metric,
        "honest": found.honest,
        "holdout": found.holdout,
        "got_through": len(found.through),
        "attacks": [asdict(finding) | _taken(found, finding) for finding in found.findings],
    }


def _taken(found: Campaign, finding: Finding) -> dict[str, object]:
    taken = found.taken.get(finding.attack)
    if taken is None:
        return {}
    reported = taken.reported if taken.reported is not None and math.isfinite(taken.reported) else str(taken.reported)
    return {"unguarded": {"reported": reported, "kept": taken.kept}}


def _print(found: Campaign) -> None:
    from rich.text import Text

    from harness.cli.output import console

    out = console()
    table = _table("attack", "kind", "ending", "by", *(["unguarded", "guarded"] if found.taken else ["found"]))
    for finding in found.findings:
        row = [line(finding.attack), line(finding.kind), Text(finding.ending, style=STYLE[finding.ending])]
        row.append(line(finding.control) or line(finding.detail))
        if found.taken:
            taken = found.taken[finding.attack]
            row += [f"{taken.reported:.4g}{' kept' if taken.kept else ''}", _score(finding.reported)]
        else:
            row.append(line(finding.detail, 70))
        table.add_row(*row)
    out.print(table)
    for finding in found.through:
        out.print(f"got through: {finding.attack}: {line(finding.detail)}", style="bold red", soft_wrap=True)
        out.print(f"  mend: {finding.mend}", soft_wrap=True)
    out.print(summary(found), style="bold", soft_wrap=True)


def summary(found: Campaign) -> str:
    """The last line: how many ended how."""
    counts = Counter(finding.ending for finding in found.findings)
    ways = ", ".join(f"{counts[ending]} {ending}" for ending in STYLE if counts[ending])
    text = f"{line(found.subject)} ({found.mode}): {len(found.findings)} attacks: {ways}"
    text += f"; honest {found.metric} {found.honest:.4g}"
    if found.taken:
        kept = sum(taken.kept for taken in found.taken.values())
        text += f"; without a guard {kept} of them would have been kept"
    return text


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.4g}"


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
