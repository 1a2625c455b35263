"""`strop export`: take a variant home as a folder, a patch or a branch."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.arguments import DEFAULT_RUNS, RunName, RunsFolder, locate
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.records import Variant
    from harness.report.view import RunView
    from harness.tree import Tree


def export(
    name: RunName = None,
    variant: Annotated[str, typer.Option(help="Which one: v7, or best.")] = "best",
    to: Annotated[
        Path | None,
        typer.Option(
            help="A new folder for its tree: what the candidate box sees, no scorer, splits or strop.toml.",
            show_default=False,
        ),
    ] = None,
    patch: Annotated[
        Path | None,
        typer.Option(
            help="A file for `git apply`; it may replace a patch written here before and not changed since.",
            show_default=False,
        ),
    ] = None,
    branch: Annotated[str | None, typer.Option(help="A new branch with one commit.", show_default=False)] = None,
    repo: Annotated[
        Path | None,
        typer.Option(
            help="With --branch or --patch: the subject's folder in your repository.",
            file_okay=False,
            show_default="where it was",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --patch: replace any file.")] = False,
    runs: RunsFolder = DEFAULT_RUNS,
) -> None:
    """Take the winner (or another variant) home: as a folder, a patch, or a branch of your own repository.

    --to holds the variant's tree as the candidate box sees it: no scorer, no splits, no strop.toml. To change your
    project, take --patch or --branch. Nothing that exists is overwritten, but a patch of an earlier
    export; your working tree and index are left alone.

    Example: strop export last --branch strop/best --repo my-project
    """
    targets = {"--to": to, "--patch": patch, "--branch": branch}
    chosen = [flag for flag, value in targets.items() if value is not None]
    if len(chosen) != 1:
        said = " and ".join(chosen) or "nothing"
        raise InputError(f"say where to: got {said}", mend="give one of --to FOLDER, --patch FILE, --branch NAME")
    if force and patch is None:
        raise InputError(f"is of no use with {chosen[0]}", file="--force", mend="give --patch FILE, or leave it out")
    import anyio

    folder = locate(name, runs)
    anyio.run(_export, folder, variant, to, patch, branch, repo, force)


async def _export(
    folder: Path,
    variant: str,
    to: Path | None,
    patch: Path | None,
    branch: str | None,
    repo: Path | None,
    force: bool,
) -> None:
    import anyio.to_thread

    from harness.repo.export import write_branch, write_folder, write_patch
    from harness.report.numbers import metric
    from harness.report.view import load

    view = await load(folder, patches=False)
    picked = view.variant(variant)
    old, new = await _trees(folder, view.root.tree, picked.tree)
    if to is None and old == new:
        raise _nothing(view, picked, asked=variant)
    if to is not None:
        await anyio.to_thread.run_sync(write_folder, new, to)
        typer.echo(
            f"{picked.id} is in {to}: its tree as the candidate box sees it, without scorer, splits and strop.toml"
        )
    elif patch is not None:
        prefix = await anyio.to_thread.run_sync(_prefix, view, repo)
        says = f"{picked.id} of {view.run_id} against its root"
        await anyio.to_thread.run_sync(lambda: write_patch(old, new, patch, prefix=prefix, says=says, force=force))
        apply = f"git apply {shlex.quote(str(patch))}"
        typer.echo(f"{picked.id} against the root is in {patch}; in your repository: {apply}")
    elif branch is not None:
        subject = str(view.summary["subject"])
        score = f"{view.metric} {metric(view.root.score)} -> {metric(picked.score)}"
        message = f"{subject}: {score}\n\n{picked.note}\n\nRun {view.run_id}, variant {picked.id}, made by strop.\n"
        place, base = _origin(view, repo)
        commit = await anyio.to_thread.run_sync(
            lambda: write_branch(place, old, new, branch=branch, message=message, base=base)
        )
        typer.echo(f"{picked.id} is commit {commit} on branch {branch}")


def _nothing(view: RunView, picked: Variant, *, asked: str) -> InputError:
    from harness.cli.ending import run_name

    run = run_name(view.summary)
    if asked == "best":
        return InputError(
            f"nothing was kept, so there is nothing to take home: the best of {view.run_id} is its root",
            mend=f"`strop log {run}` says why each try was turned down; --variant takes another one",
        )
    return InputError(f"{picked.id} does not differ from the root", mend="there is nothing to take home")


def _prefix(view: RunView, repo: Path | None) -> str:
    """Where the subject lies in its repository: `git apply` reads paths from the top, wherever it is called."""
    from harness.repo.export import origin

    place = repo or view.summary.get("subject_folder")
    came_from = origin(Path(place)) if isinstance(place, str | Path) else None
    return came_from.prefix if came_from else ""


def _origin(view: RunView, repo: Path | None) -> tuple[Path, str | None]:
    """The subject's folder and the commit it was on, as noted when the run began; `repo` wins, on its own HEAD."""
    if repo is not None:
        return repo, None
    folder, base = view.summary.get("subject_folder"), view.summary.get("subject_commit")
    if not isinstance(folder, str):
        raise InputError("which repository?", file="--repo", mend="give --repo with the subject's folder in it")
    return Path(folder), base if isinstance(base, str) else None


async def _trees(folder: Path, old: str, new: str) -> tuple[Tree, Tree]:
    from harness.repo.store import FOLDER_NAME, TreeStore

    store = TreeStore(folder / FOLDER_NAME)
    await store.view()
    return await store.read(old), await store.read(new)
