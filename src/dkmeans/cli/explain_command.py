"""`dkmeans explain`: why rows get their class."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dkmeans.cli.console import grid, label_text, plural, say, show, stdout
from dkmeans.cli.errors import InputError
from dkmeans.cli.loaded_model import LoadedModel, load_model
from dkmeans.cli.output_files import STDOUT, check_free, output_format, table_writer
from dkmeans.cli.predict_command import PredictOptions, source_of
from dkmeans.tables.units import columns_of_features

_SHOWN = 20  # rows that are printed if no file is named
_REASONS = 3  # columns that decide most


def run_explain(
    path: Path, data: Path, out: Path | None, options: PredictOptions, *, force: bool = False
) -> None:
    """Explain the predictions of all rows; print some, or write them to a file."""
    model = load_model(path)
    if out is not None:
        output_format(out)
        check_free(out, path, force=force)
    source = source_of(data, model, options)
    if out is None:
        _print(model, source)
        return
    n_rows = 0
    with table_writer(out) as writer:
        for _, X, lost in source.batches():
            if lost.any():
                raise InputError(f"{data.name} has missing values: fill them in.")
            columns = {"row": np.arange(n_rows, n_rows + len(lost)) + 1, **_explain(model, X)}
            writer.write(pa.RecordBatch.from_pydict({k: pa.array(v) for k, v in columns.items()}))
            n_rows += len(lost)
    if out != STDOUT and not options.quiet:
        say(stdout(), f"{plural(n_rows, 'row')} explained in {out}.")


def _print(model: LoadedModel, source: Any) -> None:
    _, X, _ = next(iter(source.batches()))
    found = _explain(model, X[:_SHOWN] if not hasattr(X, "iloc") else X.iloc[:_SHOWN])
    console = stdout()
    reason = "medoid" if model.is_medoids else "decided_by"
    title = "medoid\n(row from 0)" if model.is_medoids else "decided by"
    table = grid("row", "class", "rival", title, "distance", "to rival", "radius", left=4)
    for at in range(len(found["class"])):
        table.add_row(
            str(at + 1),
            label_text(found["class"][at]),
            label_text(found["rival"][at]),
            str(found[reason][at]),
            *(f"{found[name][at]:.3g}" for name in ("distance", "rival_distance", "radius")),
        )
    show(console, table)
    if source.n_rows is None or source.n_rows > _SHOWN:
        console.print()
        say(console, f"The first {_SHOWN} rows; --out FILE explains all.")


def _explain(model: LoadedModel, X: Any) -> dict[str, Any]:
    rows = model.scaled(X)
    features = {} if model.is_medoids else {"features": True}
    why = model.core.explain(rows, **features)
    found = {
        "class": _plain(why.label),
        "medoid" if model.is_medoids else "cluster_id": why.id,
        "distance": why.distance,
        "rival": _plain(why.rival_label),
        "rival_id": why.rival_id,
        "rival_distance": why.rival_distance,
        "margin": why.margin,
        "radius": why.radius,
    }
    return found if model.is_medoids else found | {"decided_by": _reasons(model, why)}


def _reasons(model: LoadedModel, why: Any) -> list[str]:
    """Name the columns that speak most for the class and against its rival.

    The margin is split over features; a column has the share of its features.
    """
    names, codes = _columns(model)
    if (why.rival < 0).any():
        return [""] * len(why)
    shares = np.zeros((len(why), len(names)))
    np.add.at(shares.T, codes, why.parts.T)
    best = np.argsort(-shares, axis=1, kind="stable")[:, :_REASONS]
    totals = np.maximum(shares, 0).sum(axis=1)
    return [
        _text(names, share, order, total)
        for share, order, total in zip(shares, best, totals, strict=True)
    ]


def _text(names: list[str], share: npt.NDArray[Any], order: npt.NDArray[Any], total: float) -> str:
    chosen = [j for j in order if share[j] > 0]
    return ", ".join(f"{names[j]} {100 * share[j] / total:.0f} %" for j in chosen)


def _columns(model: LoadedModel) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Name columns, and tell the column of each feature."""
    n = model.core.n_features_in_
    if model.kinds:
        of_features = columns_of_features(model.whole[0])
    else:
        named = model.names is not None and len(model.names) == n
        of_features = list(model.names or ()) if named else [f"x{j}" for j in range(n)]
    names = list(dict.fromkeys(of_features))
    place = {name: at for at, name in enumerate(names)}
    return names, np.array([place[name] for name in of_features], dtype=np.intp)


def _plain(labels: npt.NDArray[Any]) -> Any:
    return labels.tolist() if labels.dtype.kind in "UO" else labels
