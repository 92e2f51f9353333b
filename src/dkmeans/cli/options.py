"""Options that several commands share, and what they mean together."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dkmeans.cli.fit_command import FitOptions
    from dkmeans.cli.labelled_rows import Wanted


class RefineOption(StrEnum):
    """Ways to refine."""

    margin = "margin"
    none = "none"


class GrowthOption(StrEnum):
    """Ways to grow."""

    best = "best"
    paper = "paper"


class MetricOption(StrEnum):
    """Ways to measure distance."""

    auto = "auto"
    euclidean = "euclidean"
    cosine = "cosine"
    learned = "learned"


class ImputeOption(StrEnum):
    """Values that replace missing numbers."""

    median = "median"
    mean = "mean"


class SymmetrizeOption(StrEnum):
    """How to make one distance of both directions."""

    mean = "mean"
    min = "min"
    max = "max"


class KeepOption(StrEnum):
    """What a condensed table consists of."""

    exemplars = "exemplars"
    prototypes = "prototypes"


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file (.dkm).")]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table (.csv, .tsv, .parquet, .feather; text also .gz), .npz file, folder of tables "
        "or of images, or - for the standard input.",
    ),
]
Source = Annotated[
    Path, typer.Argument(metavar="MODEL|DATA", help="Model, or labelled table to fit first.")
]
Rows = Annotated[
    Path | None, typer.Option("--data", metavar="FILE", help="Labelled rows, for a model.")
]
Label = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Column of the labels; in .npz files the array, default y."),
]
Weight = Annotated[str | None, typer.Option(metavar="COL", help="Column of weights of the rows.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B", help="Columns that are features; by default all that may be."),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B", help="Columns to leave out; may be given several times."),
]
Category = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B", help="Columns of numbers that are codes, not quantities."),
]
NumericOnly = Annotated[
    bool, typer.Option("--numeric-only", help="Leave out all columns that are not numbers.")
]
SkipMissing = Annotated[
    bool,
    typer.Option(
        "--skip-missing", help="Leave out rows that lack a feature, their label or their weight."
    ),
]
SkipUnlabelled = Annotated[
    bool,
    typer.Option(
        "--skip-unlabelled",
        "--skip-unlabeled",
        help="Leave out rows without a label or a weight; missing features are filled.",
    ),
]
Impute = Annotated[ImputeOption, typer.Option(help="What missing numbers are replaced by.")]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Take numbers as they are: no scaling, no categories or dates."),
]
Sep = Annotated[
    str | None, typer.Option(metavar="CHAR", help="What separates columns in text files.")
]
Decimal = Annotated[
    str | None, typer.Option(metavar="CHAR", help="Decimal point in text files: . or ,")
]
Size = Annotated[str | None, typer.Option(metavar="HxW", help="Size that images are resized to.")]
MaxClusters = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto|none",
        help="Most clusters; auto (default) chooses on held-out rows, none grows until every label "
        "is fitted, which --refine none --metric euclidean keep so.",
    ),
]
Refine = Annotated[
    RefineOption | None,
    typer.Option(help="Move the clusters for wider margins: margin, the default, or none."),
]
Standardise = Annotated[
    bool,
    typer.Option(
        "--standardise",
        "--standardize",
        help="With --raw and arrays: scale features to mean 0 and deviation 1.",
    ),
]
Balanced = Annotated[bool, typer.Option("--balanced", help="Give all classes the same weight.")]
Growth = Annotated[GrowthOption | None, typer.Option(help="How clusters are added.")]
Metric = Annotated[
    MetricOption | None,
    typer.Option(help="What distance is; auto chooses between euclidean and learned."),
]
Medoids = Annotated[
    str | None,
    typer.Option(
        metavar="METRIC",
        help="Choose rows as prototypes (medoids), by the distance METRIC, such as manhattan.",
    ),
]
Components = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Largest rank of --metric learned.")
]
Array = Annotated[str, typer.Option(metavar="NAME", help="In .npz files, the array of the rows.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; all cores if not given.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def wanted(
    label: str | None = None,
    *,
    weight: str | None = None,
    columns: list[str] | None = None,
    drop: list[str] | None = None,
    category: list[str] | None = None,
    numeric_only: bool = False,
    skip_missing: bool = False,
    skip_unlabelled: bool = False,
    impute: ImputeOption = ImputeOption.median,
    raw: bool = False,
    sep: str | None = None,
    decimal: str | None = None,
    size: str | None = None,
    array: str = "X",
) -> "Wanted":
    """Collect what to take from a file."""
    from dkmeans.cli.image_folders import parse_size
    from dkmeans.cli.labelled_rows import Wanted
    from dkmeans.cli.table_input import text_format

    return Wanted(
        label,
        weight,
        drop or (),
        numeric_only,
        skip_missing,
        array,
        columns,
        category or (),
        raw,
        impute.value,
        text_format(sep, decimal),
        parse_size(size),
        skip_unlabelled,
    )


def fitting(
    *,
    out: Path = Path(),
    max_clusters: str | None = None,
    refine: RefineOption | None = None,
    growth: GrowthOption | None = None,
    metric: MetricOption | None = None,
    medoids: str | None = None,
    n_components: int | None = None,
    balanced: bool = False,
    standardise: bool = False,
    threads: int | None = None,
    quiet: bool = False,
) -> "FitOptions":
    """Collect how to fit; options that are not given are those of the estimator."""
    from dkmeans.cli.fit_command import FitOptions

    return FitOptions(
        out,
        max_clusters=max_clusters,
        refine=refine.value if refine else None,
        growth=growth.value if growth else None,
        metric=metric.value if metric else None,
        medoids=medoids,
        n_components=n_components,
        balanced=balanced,
        standardise=standardise,
        threads=threads,
        quiet=quiet,
    )
