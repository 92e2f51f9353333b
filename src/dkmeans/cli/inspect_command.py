"""`dkmeans inspect`: what a model file holds."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from dkmeans.cli.console import file_size, grid, label_text, percent, plural, say, show, stdout
from dkmeans.cli.errors import listing
from dkmeans.cli.loaded_model import LoadedModel, load_model
from dkmeans.questions.purity import purities

_WIDE = 56  # columns; with fewer, the table has fewer


def run_inspect(path: Path, *, clusters: bool = False) -> None:
    """Print what a model is, its classes, and how it was trained."""
    model = load_model(path)
    console = stdout()
    for title, text in _facts(path, model):
        console.print(f"{title:<11}", style="bold", end="")
        say(console, text)
    console.print()
    if model.is_medoids:
        _medoids(console, model, clusters=clusters)
        return
    _classes(console, model.core)
    if clusters:
        console.print()
        _clusters(console, model.core)


def _facts(path: Path, model: LoadedModel) -> list[tuple[str, str]]:
    core = model.core
    kind = f"discriminative k-{'medoids' if model.is_medoids else 'means'}, " + (
        "rows standardised first" if model.is_scaled else "rows as they are"
    )
    if model.takes_distances:
        kind = "discriminative k-medoids, of distances"
    names = f": {listing(model.names, 6)}" if model.names else ", without names"
    facts = [
        ("model", f"{path.name} ({file_size(path.stat().st_size)}): {kind}"),
        _width(model, names),
        ("classes", f"{len(core.classes_)}: {listing(map(label_text, core.classes_))}"),
        (f"{model.noun}s", f"{len(model.prototype_ids):,}"),
        ("parameters", _parameters(core)),
        ("training", _medoid_training(core) if model.is_medoids else _training(core)),
    ]
    return facts


def _width(model: LoadedModel, names: str) -> tuple[str, str]:
    if model.takes_distances:
        return "rows", f"{model.core.n_features_in_:,}, of which distances are known"
    return "features", plural(model.core.n_features_in_, "feature") + names


def _medoid_training(core: Any) -> str:
    parts = [f"{np.sum(core.medoid_sizes_):,.10g} rows"]
    if hasattr(core, "path_"):
        parts.append(f"error {percent(float(core.path_.training_error[-1]))} %")
    parts.append(plural(core.n_iter_, "round"))
    ending = "no swap lowers the cost" if core.converged_ else "ended before convergence"
    return ", ".join([*parts, ending])


def _medoids(console: Console, model: LoadedModel, *, clusters: bool) -> None:
    """List the classes, or every medoid."""
    labels, sizes = model.prototype_classes, model.prototype_sizes
    if clusters:
        table = grid("class", "medoid\n(row)", "rows")
        for label, row, size in zip(labels, model.prototype_ids, sizes, strict=True):
            table.add_row(label_text(label), f"{row:,}", f"{size:,.10g}")
    else:
        table = grid("class", "medoids", "rows")
        for label in model.core.classes_:
            mine = labels == label
            table.add_row(label_text(label), f"{mine.sum():,}", f"{sizes[mine].sum():,.10g}")
    show(console, table)


def _parameters(core: Any) -> str:
    """Name the parameters that are not the default."""
    default = type(core)().get_params()
    given = {n: v for n, v in core.get_params().items() if v != default[n]}
    return ", ".join(f"{n}={v!r}" for n, v in given.items()) or "all as they come"


def _training(core: Any) -> str:
    parts = [f"{np.sum(core.cluster_sizes_):,.10g} rows"]
    mine = float((purities(core._fitted) * core.cluster_sizes_).sum())
    parts.append(f"error {percent(1 - mine / core.cluster_sizes_.sum())} %")
    parts.append(plural(core.n_iter_, "round"))
    parts.append(_ending(core))
    if hasattr(core, "history_") and len(core.history_.seconds):
        parts.append(f"{np.sum(core.history_.seconds):.1f} s")
    if getattr(core, "conflicts_", None):
        parts.append(f"{plural(len(core.conflicts_), 'group')} of equal rows with several labels")
    return ", ".join(parts)


def _ending(core: Any) -> str:
    if core.converged_:
        return "converged"
    budget = core.max_clusters
    if budget == "auto" or (budget is not None and core.n_clusters_ >= budget):
        return "ended at its number of clusters"
    return "ended before convergence"


def _classes(console: Console, core: Any) -> None:
    is_wide = console.width >= _WIDE
    sizes_too = ("smallest", "largest") if is_wide else ()
    table = grid("class", "clusters", "rows", *sizes_too, "purity\n%")
    purity = purities(core._fitted)
    for label in core.classes_:
        mine = core.cluster_classes_ == label
        sizes = core.cluster_sizes_[mine]
        if not len(sizes):
            table.add_row(label_text(label), "0")
            continue
        table.add_row(
            label_text(label),
            f"{mine.sum():,}",
            f"{sizes.sum():,.10g}",
            *([f"{sizes.min():,.10g}", f"{sizes.max():,.10g}"] if is_wide else []),
            percent(float((purity[mine] * sizes).sum() / sizes.sum())),
        )
    show(console, table)


def _clusters(console: Console, core: Any) -> None:
    table = grid("class", "cluster\nid", "rows", "purity\n%")
    rows = zip(
        core.cluster_classes_,
        core.cluster_ids_,
        core.cluster_sizes_,
        purities(core._fitted),
        strict=True,
    )
    for label, number, size, purity in rows:
        table.add_row(label_text(label), str(number), f"{size:,.10g}", percent(float(purity)))
    show(console, table)
