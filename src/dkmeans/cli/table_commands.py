"""Commands on tables: evaluate, compare, explain, suspects, condense, columns, explore."""

from pathlib import Path
from typing import Annotated

import typer

from dkmeans.cli import options as o

_More = Annotated[
    Path | None,
    typer.Argument(metavar="[DATA]", help="Labelled rows, if the first is a model."),
]
_Cv = Annotated[int, typer.Option("--cv", min=2, help="Parts that are held out in turn.")]
_TestSize = Annotated[
    float | None,
    typer.Option("--test-size", metavar="SHARE", help="Hold out this share once, instead of --cv."),
]
_TableOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help=".csv, .tsv, .parquet or .feather; - prints CSV."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(short_help="Show what each column of a table is taken for.")(columns)
    app.command(short_help="Measure the error on held-out rows.")(evaluate)
    app.command(short_help="Compare with other methods on a table.")(compare)
    app.command(short_help="Explain why rows get their class.")(explain)
    app.command(short_help="List rows whose label may be wrong.")(suspects)
    app.command(short_help="Make a small table that stands for a large one.")(condense)
    app.command(short_help="Explore classes and rows in a browser, and correct them.")(explore)


def columns(
    data: o.Data,
    label: o.Label = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    category: o.Category = None,
    sep: o.Sep = None,
    decimal: o.Decimal = None,
    as_json: o.Json = False,
) -> None:
    """Show the kind of every column, its values, and whether it is a feature or left out."""
    from dkmeans.cli.columns_command import run_columns

    wanted = o.wanted(
        label, columns=columns, drop=drop, category=category, sep=sep, decimal=decimal
    )
    run_columns(data, wanted, as_json=as_json)


def evaluate(
    source: o.Source,
    data: _More = None,
    label: o.Label = None,
    cv: _Cv = 5,
    test_size: _TestSize = None,
    max_clusters: o.MaxClusters = None,
    refine: o.Refine = None,
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
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Tell error, balanced error, errors by class and confusions on rows that were not fitted.

    Of a model: dkmeans evaluate MODEL DATA --label COL. Of a table, on which models are fitted and
    tested: dkmeans evaluate DATA --label COL.
    """
    from dkmeans.cli.evaluate_command import run_evaluate
    from dkmeans.cli.trials import Split

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
    options = o.fitting(
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
    run_evaluate(source, data, wanted, options, Split(cv, test_size), as_json=as_json)


def compare(
    data: o.Data,
    label: o.Label = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Picture: .png, .svg or .pdf.")
    ] = None,
    cv: _Cv = 5,
    test_size: _TestSize = None,
    rows: Annotated[
        int, typer.Option(min=0, help="Most rows to use, chosen by class; 0 uses all.")
    ] = 20_000,
    max_clusters: o.MaxClusters = None,
    refine: o.Refine = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    category: o.Category = None,
    numeric_only: o.NumericOnly = False,
    skip_missing: o.SkipMissing = False,
    skip_unlabelled: o.SkipUnlabelled = False,
    impute: o.Impute = o.ImputeOption.median,
    raw: o.Raw = False,
    standardise: o.Standardise = False,
    metric: o.Metric = None,
    n_components: o.Components = None,
    sep: o.Sep = None,
    decimal: o.Decimal = None,
    size: o.Size = None,
    array: o.Array = "X",
    threads: o.Threads = None,
    as_json: o.Json = False,
    force: o.Force = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare with class-wise k-means, k-NN, an SVM and boosting on the same rows and features.

    Class-wise k-means gets as many prototypes. --out draws the errors.
    """
    from dkmeans.cli.compare_command import run_compare
    from dkmeans.cli.trials import Split

    wanted = o.wanted(
        label,
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
    options = o.fitting(
        max_clusters=max_clusters,
        refine=refine,
        metric=metric,
        n_components=n_components,
        standardise=standardise,
        threads=threads,
        quiet=quiet,
    )
    run_compare(
        data,
        wanted,
        options,
        Split(cv, test_size),
        most_rows=rows,
        picture=out,
        force=force,
        as_json=as_json,
    )


def explain(
    model: o.ModelFile,
    data: o.Data,
    out: _TableOut = None,
    sep: o.Sep = None,
    decimal: o.Decimal = None,
    array: o.Array = "X",
    force: o.Force = False,
    quiet: o.Quiet = False,
) -> None:
    """Tell for each row its class, the nearest rival class, and the columns that decide.

    radius: no change of the row that is smaller, after scaling, changes its class.
    """
    from dkmeans.cli.explain_command import run_explain
    from dkmeans.cli.predict_command import PredictOptions
    from dkmeans.cli.table_input import text_format

    text = text_format(sep, decimal)
    options = PredictOptions(Path("-"), only=True, array=array, quiet=quiet, text=text)
    run_explain(model, data, out, options, force=force)


def suspects(
    source: o.Source,
    data: _More = None,
    label: o.Label = None,
    out: _TableOut = None,
    n: Annotated[
        int | None, typer.Option("--n", min=1, help="How many; by default all above a score.")
    ] = None,
    max_clusters: o.MaxClusters = "auto",
    refine: Annotated[
        o.RefineOption, typer.Option(help="Move the clusters for wider margins, or not.")
    ] = o.RefineOption.none,
    weight: o.Weight = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    category: o.Category = None,
    skip_missing: o.SkipMissing = False,
    skip_unlabelled: o.SkipUnlabelled = False,
    raw: o.Raw = False,
    standardise: o.Standardise = False,
    sep: o.Sep = None,
    decimal: o.Decimal = None,
    size: o.Size = None,
    array: o.Array = "X",
    force: o.Force = False,
    quiet: o.Quiet = False,
) -> None:
    """List rows whose label may be wrong, the most suspicious first.

    Of a table, which is fitted first: dkmeans suspects DATA --label COL. By a model: dkmeans
    suspects MODEL DATA --label COL.
    """
    from dkmeans.cli.suspects_command import run_suspects

    wanted = o.wanted(
        label,
        weight=weight,
        columns=columns,
        drop=drop,
        category=category,
        skip_missing=skip_missing,
        skip_unlabelled=skip_unlabelled,
        raw=raw,
        sep=sep,
        decimal=decimal,
        size=size,
        array=array,
    )
    options = o.fitting(
        max_clusters=max_clusters,
        refine=refine,
        metric=o.MetricOption.euclidean,
        standardise=standardise,
        quiet=quiet,
    )
    run_suspects(source, data, wanted, options, n=n, out=out, force=force)


def condense(
    data: o.Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help=".csv, .tsv, .parquet or .feather file; - prints CSV.",
            show_default=False,
        ),
    ],
    label: o.Label = None,
    n: Annotated[
        str, typer.Option("--n", metavar="N|SHARE|auto", help="Most rows, or a share of them.")
    ] = "0.05",
    keep: Annotated[
        o.KeepOption, typer.Option(help="Rows of the table, or prototypes in its units.")
    ] = o.KeepOption.exemplars,
    weight: o.Weight = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    category: o.Category = None,
    skip_missing: o.SkipMissing = False,
    skip_unlabelled: o.SkipUnlabelled = False,
    raw: o.Raw = False,
    sep: o.Sep = None,
    decimal: o.Decimal = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
) -> None:
    """Make a small table that stands for a large one, with a weight for each of its rows."""
    from dkmeans.cli.condense_command import run_condense

    wanted = o.wanted(
        label,
        weight=weight,
        columns=columns,
        drop=drop,
        category=category,
        skip_missing=skip_missing,
        skip_unlabelled=skip_unlabelled,
        raw=raw,
        sep=sep,
        decimal=decimal,
    )
    run_condense(data, wanted, n=n, keep=keep.value, out=out, force=force, quiet=quiet)


def explore(
    source: o.Source,
    data: _More = None,
    label: o.Label = None,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labelled rows that are not fitted.")
    ] = None,
    held_out: Annotated[
        float,
        typer.Option(min=0, metavar="SHARE", help="Rows of a table to hold out; not with --test."),
    ] = 0.2,
    shape: Annotated[
        str | None, typer.Option(metavar="HxW", help="How features make up an image.")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of the edits; by default beside the table."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes a free one.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, but do not open it.")
    ] = False,
    max_clusters: o.MaxClusters = "auto",
    refine: o.Refine = None,
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
    n_components: o.Components = None,
    sep: o.Sep = None,
    decimal: o.Decimal = None,
    size: o.Size = None,
    array: o.Array = "X",
    threads: o.Threads = None,
    quiet: o.Quiet = False,
) -> None:
    """Show a model and its rows on a page in the browser, where labels and model can be edited.

    A table is fitted first, without the rows that are held out: dkmeans explore DATA --label COL.
    Of a model: dkmeans explore MODEL DATA --label COL. Nobody else can open the page.
    """
    from dkmeans.cli.explore_command import ExploreOptions, run_explore

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
    fitting = o.fitting(
        max_clusters=max_clusters,
        refine=refine,
        growth=growth,
        metric=metric,
        n_components=n_components,
        balanced=balanced,
        standardise=standardise,
        threads=threads,
        quiet=quiet,
    )
    options = ExploreOptions(
        test=test,
        held_out=held_out,
        shape=shape,
        journal=journal,
        port=port,
        browser=not no_browser,
    )
    run_explore(source, data, wanted, fitting, options)
