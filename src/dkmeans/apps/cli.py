"""The command line. Commands import what they need when they run, so that help stays quick."""

import sys
from enum import StrEnum
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


class Experiment(StrEnum):
    """Parts of the paper's evaluation."""

    synthetic = "synthetic"
    sequences = "sequences"
    faces = "faces"
    all = "all"


@app.command()
def reproduce(
    what: Annotated[Experiment, typer.Argument(help="Which experiments to run.")],
    out: Annotated[Path, typer.Option(help="Folder for figures, numbers and the report.")] = Path(
        "reproduction"
    ),
    data: Annotated[
        Path | None,
        typer.Option(help="Extended Yale B: the CroppedYale folder or an .npz file."),
    ] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, help="Faces to leave out one by one; all if not given.")
    ] = None,
    people: Annotated[
        int | None, typer.Option(min=2, help="Use the first people only; all if not given.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of processes; all cores if not given.")
    ] = None,
) -> None:
    """Run the paper's experiments and set its claims beside what is measured.

    Without --data the faces are rendered. What is done is kept in the folder: stop with Ctrl-C
    and run the same command again to go on.
    """
    from dkmeans.apps.experiments.command import reproduce as run
    from dkmeans.apps.experiments.faces import DataError

    try:
        run(what.value, out, data=data, queries=queries, people=people, jobs=jobs)
    except DataError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        typer.echo("Stopped. Run the same command again to go on.", err=True)
        raise typer.Exit(130) from None
