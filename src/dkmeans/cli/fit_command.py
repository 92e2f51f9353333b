"""`dkmeans fit`: from a table to a model file."""

import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.cli.console import say, stderr, stdout
from dkmeans.cli.errors import InputError, suggestion
from dkmeans.cli.fit_progress import FitProgress
from dkmeans.cli.fit_report import Errors, report
from dkmeans.cli.frame_rows import FrameRows
from dkmeans.cli.inputs import resolve_input
from dkmeans.cli.labelled_rows import Labelled, LargeTable, Template, Wanted, take_rows
from dkmeans.cli.loaded_model import LoadedModel
from dkmeans.cli.output_files import check_free
from dkmeans.cli.rows import Rows, open_rows, read_rows, whole
from dkmeans.estimator import DiscriminativeKMeans
from dkmeans.files.model_file import save
from dkmeans.medoid_estimator import DiscriminativeKMedoids
from dkmeans.metrics.pairwise import BOOLEAN, NAMES, NEEDED_PARAMETERS
from dkmeans.progress import listening
from dkmeans.scale_warnings import SCALING

# Metrics of `--medoids`: those that need no parameters.
MEDOID_METRICS = tuple(name for name in NAMES if name not in NEEDED_PARAMETERS)
CHOSEN_NUMBER = "The number of medoids is chosen on held-out rows; --max-clusters sets it."
NONE = "none"  # an option that stands for None
# What the library says of parameters, and what that is on the command line.
_OPTION_NAMES = (
    ("set max_clusters (a budget, or 'auto')", "set --max-clusters"),
    ("set max_clusters (a smaller budget, or 'auto')", "lower --max-clusters, or drop it"),
    (" or min_cluster_size", ""),
    ("set max_clusters to a number or 'auto', or ", "drop --max-clusters none, or add "),
    ("refine=None", "--refine none"),
    ("metric='euclidean'", "--metric euclidean"),
    ("metric='learned' raised", "--metric learned raised"),
    ("set metric='learned'", "set --metric learned"),
    ("n_components=", "--n-components "),
    ("in max_iter=", "in "),
    ("raise max_iter, or set max_clusters", "set --max-clusters"),
    ("max_clusters=None", "--max-clusters none"),
    ("max_clusters=", "--max-clusters "),
    ("max_medoids=", "--max-clusters "),
    ("refine='margin'", "--refine margin"),
    ("use metric='learned'", "use --metric learned"),
    (SCALING, "add --standardise"),
    ("pass symmetrize='mean', 'min' or 'max'", "add --symmetrize mean, min or max"),
)


@dataclass(frozen=True)
class FitOptions:
    """How to fit, and where to write the model; None is the estimator's default."""

    out: Path
    max_clusters: str | None = None
    refine: str | None = None
    growth: str | None = None
    metric: str | None = None
    medoids: str | None = None  # a metric; rows are chosen as prototypes
    symmetrize: str | None = None  # of given distances
    n_components: int | None = None
    balanced: bool = False
    standardise: bool = False
    threads: int | None = None
    test: Path | None = None
    reject: float | None = None
    force: bool = False
    quiet: bool = False
    list_features: bool = False


def run_fit(train: Path, wanted: Wanted, options: FitOptions) -> None:
    """Read rows, fit, judge, save and tell."""
    train = resolve_input(train)
    check_free(options.out, train, options.test, force=options.force)
    if options.reject is not None and options.test is None:
        raise InputError("--reject needs rows that are not fitted: name a file of them as --test.")
    estimator = make_estimator(options)
    rows = open_rows(train, wanted) if options.medoids is None else read_rows(train, wanted)
    check_medoid_rows(rows, options)
    if isinstance(rows, Labelled) and len(np.unique(rows.y)) < 2:
        raise InputError(_one_class(train, rows.y[0]))
    model = make_model(estimator, rows, options)
    test = None if options.test is None else _read_test(options, wanted, Template.of(rows))
    notes = [*rows.notes, *(f"{options.test}: {n}" for n in (test.notes if test else ()))]
    console = stderr()
    if not options.quiet:
        for note in notes:
            say(console, note)
        if options.medoids is not None and options.max_clusters is None:
            say(console, CHOSEN_NUMBER)
    seconds = fit_rows(model, rows, options, console)
    core = LoadedModel(model).core
    if len(core.classes_) < 2:
        raise InputError(_one_class(train, core.classes_[0]))
    errors = Errors.of(model, rows)
    test_errors = None if test is None else Errors.of(model, test)
    if options.reject is not None:
        choose_thresholds(LoadedModel(model), whole(test), options.reject)
    save(model, options.out)
    if not options.quiet:
        report(
            stdout(),
            LoadedModel(model),
            errors,
            test_errors,
            seconds=seconds,
            saved=options.out.resolve(),
            list_features=options.list_features,
        )


def make_estimator(options: FitOptions) -> Any:
    """Make the estimator that the options ask for."""
    if options.medoids is not None:
        if options.medoids not in MEDOID_METRICS:
            known = suggestion(options.medoids, MEDOID_METRICS)
            raise InputError(f"--medoids {options.medoids}: there is no such metric; {known}")
        return make_medoids(options, options.medoids)
    names = ("refine", "growth", "metric")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    settings: dict[str, Any] = {n: None if value == NONE else value for n, value in given.items()}
    if options.max_clusters is not None:
        settings["max_clusters"] = budget_of(options.max_clusters)
    return DiscriminativeKMeans(
        **settings,
        n_components=options.n_components,
        class_weight="balanced" if options.balanced else None,
        n_threads=options.threads,
    )


def make_medoids(options: FitOptions, metric: str) -> DiscriminativeKMedoids:
    """Make an estimator of medoids."""
    for name in ("refine", "growth", "metric", "n_components"):
        if getattr(options, name) is not None:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} is for clusters, not for medoids: drop it.")
    symmetrize: Any = options.symmetrize
    return DiscriminativeKMedoids(
        budget_of(options.max_clusters or "auto"),
        metric=metric,
        symmetrize=symmetrize,
        class_weight="balanced" if options.balanced else None,
        n_threads=options.threads,
    )


def check_medoid_rows(rows: Rows, options: FitOptions) -> None:
    """Refuse to scale values that a metric takes as they are."""
    scaled = isinstance(rows, FrameRows) or options.standardise
    if scaled and options.medoids in (*BOOLEAN, "haversine"):
        raise InputError(
            f"--medoids {options.medoids} compares values as they are, and they would be scaled: "
            "add --raw, and leave out --standardise."
        )


def make_model(estimator: Any, rows: Rows, options: FitOptions) -> Any:
    """Put an estimator behind what makes features of the rows; that is fitted to them."""
    if isinstance(rows, FrameRows):
        return rows.pipeline(estimator)
    if not options.standardise:
        return estimator
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), estimator)


def budget_of(text: str) -> Any:
    """Read `--max-clusters`."""
    if text in ("auto", NONE):
        return None if text == NONE else text
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise InputError(f"--max-clusters {text}: it must be a whole number >= 1, auto or none.")
    return int(text)


def _read_test(options: FitOptions, wanted: Wanted, like: Template) -> Rows:
    """Read rows to test on; those that thresholds are chosen by are needed in memory."""
    assert options.test is not None
    if options.reject is not None:
        return read_rows(options.test, wanted, like)
    return open_rows(options.test, wanted, like)


def _one_class(train: Path, label: Any) -> str:
    return f"All rows of {train.name} have the label {label!s}; two classes are needed."


def fit_rows(model: Any, rows: Rows, options: FitOptions, console: Any) -> float:
    """Fit with a bar, tell what the library warns of, and return the seconds it took."""

    def fit() -> None:
        if isinstance(rows, FrameRows):
            _fit_frames(model, rows)
        elif isinstance(rows, LargeTable):
            _fit_blocks(model, rows)
        else:
            _fit_arrays(model, rows)

    return fit_with_progress(model, fit, options, console)


def fit_with_progress(
    model: Any, fit: Callable[[], Any], options: FitOptions, console: Any
) -> float:
    """Call a function that fits a model, as `fit_rows` does."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        refine = None if options.refine == NONE or options.medoids is not None else "margin"
        progress = FitProgress(console, refine, quiet=options.quiet)
        try:
            with progress, listening(progress):
                fit()
        except ValueError as error:
            raise InputError(in_option_names(str(error))) from error
    seconds = time.perf_counter() - start
    for warning in caught if not options.quiet else ():
        say(console, f"Note: {warning_text(warning, model)}")
    return seconds


def _fit_frames(model: Any, rows: FrameRows) -> None:
    """Fit the last step of a pipeline to what the others make of the rows."""
    columns, estimator = model[0], model[-1]
    if rows.memory_mb is not None:
        estimator.set_params(memory_mb=rows.memory_mb)
        estimator.fit(lambda: _features(columns, rows))
        return
    parts = list(_features(columns, rows))
    X, y, *weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    estimator.fit(X, y, *weight)


def _features(columns: Any, rows: FrameRows) -> Iterator[tuple[Any, ...]]:
    for block in rows.blocks():
        weight = () if block.weight is None else (block.weight,)
        yield columns.transform(block.X[list(rows.kinds)]), block.y, *weight


def _fit_arrays(model: Any, rows: Labelled) -> None:
    """Fit rows in memory."""
    if LoadedModel(model).has_steps:
        X, step = rows.X, f"{model.steps[-1][0]}__"
    else:
        X, step = rows.array(), ""
    weight = {} if rows.weight is None else {f"{step}sample_weight": rows.weight}
    model.fit(X, rows.y, **weight)


def _fit_blocks(model: Any, rows: LargeTable) -> None:
    """Fit rows that are read in blocks; the scaler reads them once, before the rest."""
    loaded = LoadedModel(model)
    loaded.core.set_params(memory_mb=rows.memory_mb)
    if not loaded.has_steps:
        loaded.core.fit(rows)
        return
    scaler = model[0]
    for block in rows.blocks():
        scaler.partial_fit(block.X)

    def scaled() -> Iterator[tuple[Any, ...]]:
        for block in rows.blocks():
            weight = () if block.weight is None else (block.weight,)
            yield scaler.transform(block.X), block.y, *weight

    loaded.core.fit(scaled)


def choose_thresholds(model: LoadedModel, test: Labelled, rate: float) -> None:
    """Let a model reject, by those rows to test on that are of classes that it knows."""
    known = np.flatnonzero(np.isin(test.y, model.core.classes_))
    rows = take_rows(test.X, known)
    try:
        model.core.set_rejection(model.scaled(rows), false_alarm_rate=rate)
    except ValueError as error:
        text = str(error).replace("false_alarm_rate=", "").replace("X has", "--test has")
        raise InputError(f"--reject {text}") from error


def in_option_names(message: str) -> str:
    """Speak of options where the library speaks of parameters."""
    for name, option in _OPTION_NAMES:
        message = message.replace(name, option)
    return message


def warning_text(warning: warnings.WarningMessage, model: Any) -> str:
    """Say what a fit warned of in terms of options and, after a pipeline's steps, of columns."""
    text = in_option_names(str(warning.message))
    if re.search(r"eatures? number \d", text) and len(getattr(model, "steps", ())) > 1:
        text = in_column_names(text, model[:-1].get_feature_names_out())
    return text


def in_column_names(message: str, names: npt.NDArray[Any]) -> str:
    """Name columns where the library, which was given an array, numbers its features."""

    def named(match: re.Match[str]) -> str:
        return match[1] + re.sub(r"\d+", lambda number: repr(str(names[int(number[0])])), match[2])

    numbers = r"\d+(?:, \d+)*(?: and \d+\b(?! more))?"
    return re.sub(rf"([Ff]eatures? )number ({numbers})", named, message)
