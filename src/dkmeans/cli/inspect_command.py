"""`dkmeans inspect`: what a model file holds."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from dkmeans.cli.console import (
    file_size,
    grid,
    label_text,
    percent,
    plural,
    print_json,
    say,
    show,
    stdout,
)
from dkmeans.cli.errors import listing
from dkmeans.cli.frame_rows import describe_kinds
from dkmeans.cli.loaded_model import LoadedModel, load_model
from dkmeans.files.scaler import is_scaled
from dkmeans.questions.purity import purities
from dkmeans.tables.kinds import Kind

_WIDE = 56  # columns; with fewer, the table has fewer


def run_inspect(
    path: Path, *, clusters: bool = False, features: bool = False, as_json: bool = False
) -> None:
    """Print what a model is, its classes, and how it was trained."""
    model = load_model(path)
    console = stdout()
    if as_json:
        print_json(console, describe_model(path, model))
        return
    for title, text in _facts(path, model):
        console.print(f"{title:<11}", style="bold", end="")
        say(console, text)
    console.print()
    if model.is_medoids:
        _medoids(console, model, clusters=clusters)
        return
    _classes(console, model.core)
    if features:
        console.print()
        show_features(console, model)
    if clusters:
        console.print()
        _clusters(console, model.core)


def describe_model(path: Path, model: LoadedModel) -> dict[str, Any]:
    """Tell all that `inspect` shows as values that JSON has."""
    core = model.core
    parameters = {
        name: value if isinstance(value, str | int | float | None) else repr(value)
        for name, value in core.get_params().items()
    }
    return {
        "file": path.name,
        "bytes": path.stat().st_size,
        "steps": [type(step).__name__ for _, step in getattr(model.whole, "steps", [("", core)])],
        "columns": [] if model.takes_distances else _columns(model),
        "n_features": int(core.n_features_in_),
        "classes": core.classes_.tolist(),
        "n_clusters": len(model.prototype_ids),
        "metric": model.metric,
        "parameters": parameters,
        "training": {
            "weight": float(np.sum(model.prototype_sizes)),
            "error": _medoid_error(core) if model.is_medoids else _training_error(core),
            "rounds": int(core.n_iter_),
            "converged": bool(core.converged_),
        },
        "clusters": _describe_prototypes(model),
    }


def _describe_prototypes(model: LoadedModel) -> list[dict[str, Any]]:
    """Describe every cluster, or every medoid, whose id is the number of its row."""
    columns = {
        "id": model.prototype_ids.tolist(),
        "class": model.prototype_classes.tolist(),
        "size": model.prototype_sizes.tolist(),
    }
    if not model.is_medoids:
        columns["purity"] = purities(model.core._fitted).tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def show_features(console: Console, model: LoadedModel) -> None:
    """List every column with its kind and what is known of its values."""
    table = grid("column", "kind", "values", left=3)
    for column in _columns(model):
        values = column.get("values", "")
        table.add_row(column["name"], column["kind"], values)
    show(console, table)


def _columns(model: LoadedModel) -> list[dict[str, str]]:
    """Describe the columns that a model takes."""
    if not model.kinds:
        names = model.names or [f"x{j}" for j in range(model.core.n_features_in_)]
        return [{"name": name, "kind": "number"} for name in names]
    found: dict[str, dict[str, str]] = {}
    for step, transformer, names in model.whole[0].transformers_:
        if step == "remainder":
            continue
        for j, name in enumerate(names):
            found[name] = {"name": name, "kind": str(model.kinds[name])}
            found[name]["values"] = _values(step, transformer, j)
    return [found[name] for name in model.names or found]


def _values(step: str, transformer: Any, j: int) -> str:
    """Say what a fitted transformer knows of its j-th column."""
    if step == "categories":
        encoder = transformer.named_steps["encoder"]
        levels = ["missing" if level != level else str(level) for level in encoder.categories_[j]]
        rare = encoder.infrequent_categories_[j]
        pooled = f"; rare, pooled: {len(rare)}" if rare is not None and len(rare) else ""
        return f"{len(levels)}: {listing(levels, 5)}{pooled}"
    filled = transformer.named_steps["imputer"].statistics_[j]
    scaler = transformer.named_steps.get("scaler")
    if step == "dates":
        day = np.datetime64(int(filled), "D")
        return f"missing ones {day}"
    if scaler is None:
        return f"missing ones {bool(filled)}"
    mean, scale = scaler.mean_[j], scaler.scale_[j]
    return f"mean {mean:.4g}, deviation {scale:.4g}, missing ones {filled:.4g}"


def _facts(path: Path, model: LoadedModel) -> list[tuple[str, str]]:
    core = model.core
    facts = [
        ("model", f"{path.name} ({file_size(path.stat().st_size)}): {_kind(model)}"),
        ("rows" if model.takes_distances else "features", _features(model)),
        ("classes", f"{len(core.classes_)}: {listing(map(label_text, core.classes_))}"),
        (f"{model.noun}s", f"{len(model.prototype_ids):,}"),
        ("metric", _metric(model)),
        ("parameters", _parameters(core)),
        ("training", _medoid_training(core) if model.is_medoids else _training(core)),
    ]
    return facts


def _medoid_training(core: Any) -> str:
    parts = [f"{np.sum(core.medoid_sizes_):,.10g} rows"]
    error = _medoid_error(core)
    if error is not None:
        parts.append(f"error {percent(error)} %")
    parts.append(plural(core.n_iter_, "round"))
    ending = "no swap lowers the cost" if core.converged_ else "ended before convergence"
    return ", ".join([*parts, ending])


def _medoid_error(core: Any) -> float | None:
    if not hasattr(core, "path_"):
        return None
    # With "auto", the path goes on beyond the chosen number.
    mine = core.path_.clusters == core.n_medoids_
    return float(core.path_.training_error[mine][0]) if mine.any() else None


def _medoids(console: Console, model: LoadedModel, *, clusters: bool) -> None:
    """List the classes, or every medoid."""
    labels, sizes = model.prototype_classes, model.prototype_sizes
    if clusters:
        table = grid("class", "medoid\n(row from 0)", "rows")
        for label, row, size in zip(labels, model.prototype_ids, sizes, strict=True):
            table.add_row(label_text(label), f"{row:,}", f"{size:,.10g}")
    else:
        table = grid("class", "medoids", "rows")
        for label in model.core.classes_:
            mine = labels == label
            table.add_row(label_text(label), f"{mine.sum():,}", f"{sizes[mine].sum():,.10g}")
    show(console, table)


def _kind(model: LoadedModel) -> str:
    if model.takes_distances:
        return "discriminative k-medoids, of distances"
    if not model.has_steps:
        how = "rows as they are"
    elif is_scaled(model.whole):
        how = "rows standardised first"
    elif model.kinds:
        how = "missing values filled, numbers scaled"
        how += ", categories one-hot" if Kind.CATEGORY in model.kinds.values() else ""
    else:
        how = "after " + ", ".join(type(step).__name__ for _, step in model.whole.steps[:-1])
    return f"discriminative k-{'medoids' if model.is_medoids else 'means'}, {how}"


def _features(model: LoadedModel) -> str:
    if model.takes_distances:
        return f"{model.core.n_features_in_:,}, of which distances are known"
    count = plural(model.core.n_features_in_, "feature")
    if model.kinds:
        return f"{count} of {describe_kinds(model.kinds)}"
    return count + (f": {listing(model.names, 6)}" if model.names else ", without names")


def _metric(model: LoadedModel) -> str:
    """Name the metric, and tell the rank of a learned one."""
    components = getattr(model.core, "components_", None)
    return model.metric if components is None else f"{model.metric}, of rank {len(components)}"


def _parameters(core: Any) -> str:
    """Name the parameters that are not the default."""
    default = type(core)().get_params()
    given = {n: v for n, v in core.get_params().items() if v != default[n]}
    return ", ".join(f"{n}={v!r}" for n, v in given.items()) or "all defaults"


def _training(core: Any) -> str:
    parts = [f"{np.sum(core.cluster_sizes_):,.10g} rows"]
    parts.append(f"error {percent(_training_error(core))} %")
    parts.append(plural(core.n_iter_, "round"))
    parts.append(_ending(core))
    if hasattr(core, "history_") and len(core.history_.seconds):
        parts.append(f"{np.sum(core.history_.seconds):.1f} s")
    if getattr(core, "conflicts_", None):
        parts.append(f"{plural(len(core.conflicts_), 'group')} of equal rows with several labels")
    return ", ".join(parts)


def _training_error(core: Any) -> float:
    # Purities count identical rows as rows of their heaviest class. The path of a whole fit, which
    # begins with a single cluster, does not.
    path = getattr(core, "path_", None)
    if path is not None and path.clusters[0] == 1:
        at = np.flatnonzero(path.clusters == core.n_clusters_)
        if len(at):
            return float(path.training_error[at[0]])
    mine = float((purities(core._fitted) * core.cluster_sizes_).sum())
    return 1 - mine / float(core.cluster_sizes_.sum())


def _ending(core: Any) -> str:
    if core.converged_:
        return "converged"
    budget = core.max_clusters
    if budget == "auto":
        return "stopped at the number chosen on held-out rows"
    if budget is not None and core.n_clusters_ >= budget:
        return "stopped at its number of clusters"
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
