"""The command line. Commands import what they need when they run, so that help stays quick."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import dkmeans
from dkmeans.cli import options as o
from dkmeans.cli.errors import STOPPED, InputError, guard
from dkmeans.cli.table_commands import register


class Commands(TyperGroup):
    """All commands, with errors told in a sentence, and `--debug` wherever it stands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move `--debug` to the front."""
        end = args.index("--") if "--" in args else len(args)
        if "--debug" in args[:end]:
            args = ["--debug", *(a for a in args[:end] if a != "--debug"), *args[end:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with guard(debug=bool(ctx.params.get("debug"))):
            try:
                return super().invoke(ctx)
            except typer.BadParameter as error:
                # Typer passes on how pydantic begins messages.
                error.message = error.message.removeprefix("Value error, ")
                raise


app = typer.Typer(
    name="dkmeans",
    cls=Commands,
    help="Discriminative k-means: labelled data in, labelled prototypes out.",
    epilog="Start with: dkmeans demo, or dkmeans fit table.csv --label COLUMN",
    no_args_is_help=True,
    rich_markup_mode=None,  # half the time to help, and it fits narrow terminals
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dkmeans {dkmeans.__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where errors come from; with any command.")
    ] = False,
) -> None:
    """Hold the options of the command itself."""


class PictureKind(StrEnum):
    """Pictures."""

    cells = "cells"
    tree = "tree"
    path = "path"
    borders = "borders"
    profiles = "profiles"
    parallel = "parallel"
    importances = "importances"
    confusion = "confusion"
    margins = "margins"
    certified = "certified"
    reliability = "reliability"
    rejection = "rejection"
    parts = "parts"
    growth = "growth"
    prototypes = "prototypes"
    exemplars = "exemplars"
    explanation = "explanation"
    suspects = "suspects"


class ExportFormatOption(StrEnum):
    """What models are exported as."""

    onnx = "onnx"
    json = "json"
    csv = "csv"


@app.command(short_help="Fit a model to a table with labels.")
def fit(
    train: o.Data,
    label: o.Label = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to save.")] = Path("model.dkm"),
    max_clusters: o.MaxClusters = None,
    refine: o.Refine = None,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows to test on, with the same columns.")
    ] = None,
    reject: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Tell rows of no known class, with this rate of false alarms; needs --test.",
        ),
    ] = None,
    weight: o.Weight = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    category: o.Category = None,
    numeric_only: o.NumericOnly = False,
    skip_missing: o.SkipMissing = False,
    skip_unlabelled: o.SkipUnlabelled = False,
    impute: o.Impute = o.ImputeOption.median,
    raw: o.Raw = False,
    standardise: o.Standardise = False,
    balanced: o.Balanced = False,
    growth: o.Growth = None,
    metric: o.Metric = None,
    medoids: o.Medoids = None,
    n_components: o.Components = None,
    sep: o.Sep = None,
    decimal: o.Decimal = None,
    size: o.Size = None,
    array: o.Array = "X",
    threads: o.Threads = None,
    features: Annotated[
        bool, typer.Option("--features", help="List every feature, not only some.")
    ] = False,
    precomputed: Annotated[
        bool,
        typer.Option(
            "--precomputed", help="DATA is a matrix of distances between rows (.npy, .csv, .tsv)."
        ),
    ] = False,
    label_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labels of the rows, for --precomputed.")
    ] = None,
    symmetrize: Annotated[
        o.SymmetrizeOption | None,
        typer.Option(
            "--symmetrize",
            "--symmetrise",
            help="With --precomputed: make one distance of both directions.",
        ),
    ] = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
) -> None:
    """Fit a model to a table with labels, and save it.

    Numbers are scaled and missing ones replaced; text becomes categories; Booleans and dates become
    numbers. Columns that count rows, are different in every row or always the same are left out,
    and a line says so. `dkmeans columns` shows what each column is taken for. With --medoids,
    rows are chosen as prototypes, by the distances between all rows; with --precomputed, DATA has
    these distances.
    """
    from dataclasses import replace

    from dkmeans.cli.fit_command import run_fit

    options = o.fitting(
        out=out,
        max_clusters=max_clusters,
        refine=refine,
        growth=growth,
        metric=metric,
        medoids=medoids,
        n_components=n_components,
        balanced=balanced,
        standardise=standardise,
        threads=threads,
        quiet=quiet,
    )
    options = replace(options, test=test, reject=reject, force=force, list_features=features)
    if precomputed:
        from dkmeans.cli.medoid_command import run_fit_distances

        how = None if symmetrize is None else symmetrize.value
        run_fit_distances(train, label_file, label, replace(options, symmetrize=how))
        return
    if label_file is not None:
        raise InputError("--label-file is for --precomputed: name a column of DATA with --label.")
    if symmetrize is not None:
        raise InputError("--symmetrize is for --precomputed: drop it.")
    wanted = o.wanted(
        label,
        weight=weight,
        columns=columns,
        drop=drop,
        category=category,
        numeric_only=numeric_only,
        skip_missing=skip_missing,
        skip_unlabelled=skip_unlabelled,
        impute=impute,
        raw=raw,
        sep=sep,
        decimal=decimal,
        size=size,
        array=array,
    )
    run_fit(train, wanted, options)


@app.command(short_help="Classify the rows of a table.")
def predict(
    model: o.ModelFile,
    data: o.Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help=".csv, .tsv, .parquet or .feather file; - prints CSV.",
            show_default=False,
        ),
    ],
    force: o.Force = False,
    only: Annotated[
        bool, typer.Option("--only", help="Write the new columns alone, not those of DATA.")
    ] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of every class.")
    ] = False,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="Not a feature; for models without column names."),
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="No prediction where values are missing.")
    ] = False,
    sep: o.Sep = None,
    decimal: o.Decimal = None,
    array: o.Array = "X",
    quiet: o.Quiet = False,
) -> None:
    """Add class, probability, cluster id and distance to the rows of a table.

    Columns are found by name; their order does not matter, and others are passed on. Rows are read
    and written in batches, so the table may be larger than the memory.
    """
    from dkmeans.cli.predict_command import PredictOptions, run_predict
    from dkmeans.cli.table_input import text_format

    run_predict(
        model,
        data,
        PredictOptions(
            out,
            force,
            drop or (),
            skip_missing,
            probabilities,
            only,
            array=array,
            quiet=quiet,
            text=text_format(sep, decimal),
        ),
    )


@app.command(short_help="Show what a model file holds.")
def inspect(
    model: o.ModelFile,
    clusters: Annotated[bool, typer.Option("--clusters", help="List every cluster, too.")] = False,
    features: Annotated[bool, typer.Option("--features", help="List every column, too.")] = False,
    as_json: o.Json = False,
) -> None:
    """Show what a model is: columns, classes, sizes, purity, parameters, how it was trained."""
    from dkmeans.cli.inspect_command import run_inspect

    run_inspect(model, clusters=clusters, features=features, as_json=as_json)


@app.command(short_help="Draw a model, or data after a fit.")
def plot(
    source: o.Source,
    kind: Annotated[
        PictureKind | None, typer.Option(help="Which picture: cells, or path for medoids.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=".png, .svg or .pdf; named after the kind.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows to draw, for a model.")
    ] = None,
    label: o.Label = None,
    shape: Annotated[
        str | None, typer.Option(metavar="HxW", help="Size of images, for kinds that draw them.")
    ] = None,
    max_clusters: o.MaxClusters = None,
    refine: o.Refine = None,
    metric: o.Metric = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    category: o.Category = None,
    numeric_only: o.NumericOnly = False,
    skip_missing: o.SkipMissing = False,
    skip_unlabelled: o.SkipUnlabelled = False,
    raw: o.Raw = False,
    standardise: o.Standardise = False,
    sep: o.Sep = None,
    decimal: o.Decimal = None,
    size: o.Size = None,
    array: o.Array = "X",
    force: o.Force = False,
) -> None:
    """Draw a model, or labelled data after a fit.

    Of a model: cells, the regions of the classes; tree, who split from whom; path, error against
    number of clusters; borders, which classes meet; profiles and parallel, prototypes column by
    column; importances of a learned metric; prototypes, as images.

    With labelled rows: confusion, margins and certified, how they fare; reliability, whether
    probabilities are right; rejection, what false alarms gain; parts, what decided; growth, round
    by round, for two features.

    With rows that are images: exemplars, suspects and explanation.
    """
    from dkmeans.cli.plot_command import PlotOptions, run_plot

    wanted = o.wanted(
        label,
        columns=columns,
        drop=drop,
        category=category,
        numeric_only=numeric_only,
        skip_missing=skip_missing,
        skip_unlabelled=skip_unlabelled,
        raw=raw,
        sep=sep,
        decimal=decimal,
        size=size,
        array=array,
    )
    run_plot(
        source,
        None if kind is None else kind.value,
        wanted,
        PlotOptions(
            out,
            data,
            shape,
            max_clusters,
            refine.value if refine else None,
            metric.value if metric else None,
            standardise=standardise,
            force=force,
        ),
    )


register(app)


@app.command(short_help="Write a model as ONNX, JSON or CSV.")
def export(
    model: o.ModelFile,
    format: Annotated[
        ExportFormatOption | None,
        typer.Option(help="What to write; by default what the extension of --out says."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to; the model's name if not given.")
    ] = None,
    force: o.Force = False,
) -> None:
    """Write a model for other programs: a graph that predicts, or its prototypes.

    onnx: for any ONNX runtime, stored scaling included. json, csv: prototypes with their class,
    size and id.
    """
    from dkmeans.cli.export_command import run_export

    run_export(model, None if format is None else format.value, out, force=force)


@app.command(
    short_help="Compare with other methods.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def benchmark(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Which; lists them if not given.")
    ] = None,
) -> None:
    """Compare on data that comes along (digits, wine, breast-cancer, moons), or on a table.

    Options after a table are those of `dkmeans compare`. Inside a checkout, the scripts of its
    folder benchmarks/ are there as well; options after their name are theirs.
    """
    from dkmeans.cli.benchmark_command import run_benchmark

    raise typer.Exit(run_benchmark(name, ctx.args))


@app.command(short_help="Fit built-in data, compare, draw figures.")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("demo"),
) -> None:
    """Fit built-in data, compare with k-means and 1-NN, and draw three figures."""
    from dkmeans.cli.demo_command import run_demo

    run_demo(out)


class Experiment(StrEnum):
    """Parts of the paper's evaluation."""

    synthetic = "synthetic"
    sequences = "sequences"
    faces = "faces"
    all = "all"


@app.command(short_help="Run the experiments of the paper.")
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
        int | None,
        typer.Option(
            min=1,
            help="Faces to leave out one by one; all if not given. For a part of the faces, the "
            "same part of the ten folds is run, rounded up.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A complete report in minutes, from fewer repetitions.")
    ] = False,
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
    from dkmeans_paper.command import reproduce as run
    from dkmeans_paper.faces import DataError

    try:
        run(what.value, out, data=data, queries=queries, quick=quick, people=people, jobs=jobs)
    except DataError as error:
        raise InputError(str(error)) from error
    except KeyboardInterrupt:
        typer.echo("Stopped. Run the same command again to go on.", err=True)
        raise typer.Exit(STOPPED) from None
