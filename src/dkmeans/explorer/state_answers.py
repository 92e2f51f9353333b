"""The state of a session, and what changes it: edits, undo, models on the way, fits."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.explorer import edits
from dkmeans.explorer.curves import error_curve
from dkmeans.explorer.draft import Draft
from dkmeans.explorer.jobs import start_refit
from dkmeans.explorer.lookup import read_k
from dkmeans.explorer.planes import IDS
from dkmeans.explorer.session import LAYERS, Session


def state(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Tell everything that is small: classes, prototypes, errors, edits."""
    key = ("state", session.version, session.shown_k)
    told = dict(session.cached(key, lambda: _about_model(session)))
    told["job"] = None if session.job is None else session.job.told()
    return told


def preview(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Count errors before and after an edit, which is not made."""
    edit = edits.lasting(session.draft, session.material, params.get("edit"))
    after = edits.apply(session.draft, session.material, edit)
    told: dict[str, Any] = {"text": edits.describe(edit), "held_out": None}
    for layer in session.layers:
        before, n = session.errors(session.draft, layer)
        wrong, n_after = session.errors(after, layer)
        told[layer] = {"before": before, "after": wrong, "n": n, "n_after": n_after}
    return told


def edit(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Make an edit."""
    session.edit(edits.lasting(session.draft, session.material, params.get("edit")))
    return state(session, {})


def undo(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Take the last edit back."""
    session.undo()
    return state(session, {})


def redo(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Make it again."""
    session.redo()
    return state(session, {})


def at(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Show the model at k prototypes, or the present one."""
    k = read_k(params) if params.get("k") is not None else None
    if k is not None:
        session.at(k)
    if k != session.shown_k:
        session.shown_k = k
        session.version += 1
    return state(session, {})


def refit(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Start to fit again; the model is replaced when the fit is done."""
    start_refit(session, params)
    return state(session, {})


def stop(session: Session, params: dict[str, Any]) -> dict[str, Any]:
    """Stop the fit that is running; the model stays as it is."""
    if session.job is not None:
        session.job.stop()
    return state(session, {})


def _about_model(session: Session) -> dict[str, Any]:
    draft, core = session.shown, session.shown.core
    view = session.view(draft, "training")
    used = draft.used
    members = np.bincount(view.cells[used], minlength=core.n_clusters_)
    own = used & (draft.row_classes == draft.prototype_classes[view.cells])
    right = np.bincount(view.cells[own], minlength=core.n_clusters_)
    errors = {layer: session.errors(draft, layer) for layer in session.layers}
    told = {layer: {"wrong": wrong, "n": n} for layer, (wrong, n) in errors.items()}
    planes = [session.plane(id, 0, min(1, len(session.units.names) - 1)) for id in IDS]
    rejection = core._fitted.rejection
    return {
        "version": session.version,
        "title": session.title,
        "layers": {layer: len(session.layers.get(layer, ())) for layer in LAYERS},
        "features": session.units.names,
        "image_shape": None if session.images is None else list(session.images.shape[:2]),
        "classes": _classes(session, draft),
        "planes": [{"id": p.id, "title": p.title, "x": p.x, "y": p.y} for p in planes],
        "prototypes": [
            {
                "index": index,
                "id": int(id),
                "name": draft.names.get(int(id)),
                "class": int(code),
                "members": int(members[index]),
                "purity": float(right[index] / members[index]) if members[index] else None,
            }
            for index, (id, code) in enumerate(
                zip(core.cluster_ids_, draft.prototype_classes, strict=True)
            )
        ],
        "error": {"held_out": None, **told},
        "path": error_curve(session, session.draft),
        "path_at": session.shown_k,
        "rejection": None if rejection is None else _about_rejection(session, draft),
        "last_refit": _last_refit(session),
        "undo": session.done[-1].text if session.done else None,
        "redo": session.undone[-1].text if session.undone else None,
        "edits": len(session.done),
        "journal": None if session.journal is None else session.journal.path.name,
    }


def _classes(session: Session, draft: Draft) -> list[dict[str, Any]]:
    n = len(draft.labels)
    counts: dict[str, npt.NDArray[Any]] = {}
    for layer in session.layers:
        used, codes = session.used(draft, layer), session.classes(draft, layer)
        wrong = used & (codes != session.predicted(draft, layer))
        counts[layer] = np.bincount(codes[used], minlength=n)
        counts[f"{layer}_wrong"] = np.bincount(codes[wrong], minlength=n)
    nothing = np.zeros(n, dtype=np.int64)
    return [
        {
            "name": name,
            "count": int(counts["training"][at]),
            "wrong": int(counts["training_wrong"][at]),
            "held_out_count": int(counts.get("held_out", nothing)[at]),
            "held_out_wrong": int(counts.get("held_out_wrong", nothing)[at]),
            "merged_into": None if draft.merged[at] == at else draft.merged[at],
        }
        for at, name in enumerate(draft.class_names)
    ]


def _last_refit(session: Session) -> dict[str, Any] | None:
    """Errors before and after the last fit that was not undone, with the present labels."""
    fits = [change for change in session.done if change.edit["kind"] == "refit"]
    if not fits:
        return None
    told: dict[str, Any] = {"held_out": None}
    for layer in session.layers:
        before, n = session.errors(replace(session.draft, core=fits[-1].before.core), layer)
        after, _ = session.errors(replace(session.draft, core=fits[-1].after.core), layer)
        told[layer] = {"before": before, "after": after, "n": n}
    return told


def _about_rejection(session: Session, draft: Draft) -> dict[str, Any]:
    made = [c.edit for c in session.done if c.edit["kind"] == "set_rejection"]
    rate = made[-1]["rate"] if made else float(draft.core._fitted.rejection.rate.max())
    layer = "held_out" if "held_out" in session.layers else "training"
    return {"rate": rate, "n_rejected": int(session.view(draft, layer).unknown.sum())}
