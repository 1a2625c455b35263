"""`strop image`: make the image that docker boxes run in, with a registry or without."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import InputError

app = typer.Typer(no_args_is_help=True, help="Make the image of docker boxes.")
Tag = Annotated[str, typer.Option(help="What to call the image; box.image names another than this one.")]


@app.command("build")
def build(
    tag: Tag = "strop-box",
    base: Annotated[str, typer.Option(help="An image with Python 3.9 or later to build on.", show_default=False)] = "",
) -> None:
    """Build the shipped Dockerfile.

    Example: strop image build --base python:3.12-slim
    """
    from harness.box.image import build as make

    typer.echo(f"{tag} {make(tag, base=base)}")


@app.command("import")
def import_(
    rootfs: Annotated[Path | None, typer.Argument(help="A tar of a root file system.", show_default=False)] = None,
    from_host: Annotated[bool, typer.Option("--from-host", help="Pack this host's Python and packages.")] = False,
    tag: Tag = "strop-box",
) -> None:
    """Make the image without a registry: from a tar, or from what this host has.

    Example: strop image import --from-host
    """
    from harness.box.image import import_host, import_rootfs

    if (rootfs is None) == (not from_host):
        raise InputError("give a tar or --from-host, and not both", key="ROOTFS", mend="strop image import --from-host")
    made = import_host(tag) if rootfs is None else import_rootfs(tag, rootfs)
    typer.echo(f"{tag} {made}")
