"""The command line. Commands import what they need when they run, so that help stays quick."""

from pathlib import Path
from typing import Annotated

import typer

import dkmeans

app = typer.Typer(
    name="dkmeans",
    help="Discriminative k-means: labelled data in, labelled prototypes out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dkmeans {dkmeans.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Hold the options of the command itself."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("demo"),
) -> None:
    """Fit built-in data, compare with k-means and 1-NN, and draw two figures."""
    from dkmeans.apps.demo import run_demo

    run_demo(out)
