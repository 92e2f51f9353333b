"""What a person takes away: the corrected table, the model, and a script of the edits."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.explorer import requests as r
from dkmeans.explorer.script import write_script
from dkmeans.explorer.session import Session
from dkmeans.explorer.tables import write_table
from dkmeans.files.model_file import to_bytes

KINDS = ("table", "model", "script")
_MAX_PATH_VALUES = 1 << 22  # numbers in models on the way that are written with the model


def export(session: Session, params: dict[str, Any]) -> bytes:
    """Return the contents of a file."""
    what = r.choice(params, "what", KINDS)
    if what == "model":
        return _model(session)
    if what == "script":
        return write_script(session).encode()
    return _table(session)


def export_name(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Return the name that a file should get."""
    what = r.choice(params, "what", KINDS)
    source = session.origin.source
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in Path(session.title).name)
    stem = name.partition(".")[0] or "dkmeans"
    if what == "model":
        return {"name": f"{stem}-corrected.dkm"}
    if what == "script":
        return {"name": f"{stem}-edits.py"}
    if source is None:
        return {"name": f"{stem}-labels.csv"}
    ending = "".join(source.path.suffixes[-2:] if source.path.suffix == ".gz" else ())
    return {"name": f"{stem}-corrected{ending or source.path.suffix}"}


def _model(session: Session) -> bytes:
    """Return a model file; with the models on the way, unless these are large."""
    growth = session.draft.core._fitted.growth_path
    n_values = 0
    if growth is not None:
        n_values = sum(point.prototypes.centers.size for point in growth.waypoints)
    return to_bytes(session.model, with_path=0 < n_values <= _MAX_PATH_VALUES)


def _table(session: Session) -> bytes:
    source = session.origin.source
    if source is None:
        return _label_list(session)
    n = _table_length(session)
    labels, used = np.full(n, None, dtype=object), np.ones(n, dtype=bool)
    for layer in session.layers:
        places = session.layers[layer].places
        if places is None or (layer == "held_out" and session.origin.test is not None):
            continue
        changed, new = _changed(session, layer)
        labels[places[changed]] = new
        used[places] = session.used(session.draft, layer)
    return write_table(source, labels, used)


def _table_length(session: Session) -> int:
    from dkmeans.data.tables import open_tables

    assert session.origin.source is not None
    return sum(file.count_rows() for file in open_tables(session.origin.source.path))


def _changed(session: Session, layer: str) -> tuple[npt.NDArray[np.intp], list[Any]]:
    """Return the rows whose label is not the one that was read, and their labels."""
    now = session.classes(session.draft, layer)
    changed = np.flatnonzero(now != session.layers[layer].codes)
    return changed, [session.draft.labels[code] for code in now[changed]]


def _label_list(session: Session) -> bytes:
    """Return row, label and whether it is used, for rows that come from no table."""
    draft, layer = session.draft, session.layers["training"]
    places = np.arange(len(layer)) if layer.places is None else layer.places
    names = draft.class_names
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "label", "used"])
    for place, code, used in zip(places, draft.row_classes, draft.used, strict=True):
        writer.writerow([place, names[code], int(used)])
    return text.getvalue().encode()
