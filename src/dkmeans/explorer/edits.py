"""Edits: checked, put in terms that last (ids of prototypes, labels), and applied to a draft."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.data.arguments import threads_of
from dkmeans.explorer import requests as r
from dkmeans.explorer.draft import DROPPED, KEPT, Draft
from dkmeans.explorer.layers import MAX_CLASSES, Layer, label_text
from dkmeans.explorer.refit import fit_again
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.units import Units
from dkmeans.questions.edit import set_center
from dkmeans.questions.reject import choose_rejection

Edit = dict[str, Any]
ROW_KINDS = ("relabel", "drop_rows", "restore_rows", "keep")
KINDS = (
    *ROW_KINDS,
    "add_class",
    "merge_classes",
    "rename_prototype",
    "move",
    "merge_prototypes",
    "drop_prototype",
    "set_rejection",
    "use_k",
)


@dataclass(frozen=True)
class Material:
    """What edits may look at: the rows, and the units of features."""

    training: Layer
    held_out: Layer | None
    units: Units


def lasting(draft: Draft, material: Material, params: Any) -> Edit:
    """Check an edit as the page sends it, and name prototypes by id and classes by label."""
    if not isinstance(params, dict):
        raise RequestError("edit must be an object with a kind.")
    kind = r.choice(params, "kind", KINDS)
    if kind in ROW_KINDS:
        if kind == "relabel" and "classes" in params:
            return {"kind": kind, **_labels_by_row(draft, material, params)}
        rows = r.integers(params, "rows", len(material.training)).tolist()
        more = {"label": _label(draft, params, "class")} if kind == "relabel" else {}
        return {"kind": kind, "rows": rows, **more}
    if kind == "add_class":
        return {"kind": kind, "label": _new_label(draft, r.text(params, "name"))}
    if kind == "merge_classes":
        one, into = _label(draft, params, "from"), _label(draft, params, "into")
        if one == into:
            raise RequestError("from and into are the same class: choose two.")
        return {"kind": kind, "from": one, "into": into}
    if kind == "rename_prototype":
        id = _id(draft, params, "index")
        return {"kind": kind, "id": id, "name": r.text(params, "name")}
    if kind == "move":
        return {"kind": kind, "id": _id(draft, params, "index"), **_target(material, params)}
    if kind == "merge_prototypes":
        return {"kind": kind, "ids": _ids_to_merge(draft, params)}
    if kind == "drop_prototype":
        if len(draft.core.cluster_ids_) < 2:
            raise RequestError("This is the only prototype: at least one must remain.")
        return {"kind": kind, "id": _id(draft, params, "index")}
    if kind == "set_rejection":
        return {"kind": kind, "rate": r.rate(params, "rate")}
    return {"kind": kind, "k": 1 + r.integer({"k": _less(params.get("k"))}, "k", 1 << 31)}


def apply(draft: Draft, material: Material, edit: Edit, listen: Any = None) -> Draft:
    """Apply an edit; the draft itself is not changed. `listen` hears of the rounds of a fit."""
    kind = edit["kind"]
    try:
        if kind == "refit":
            return replace(
                draft, core=fit_again(draft, material.training, edit["max_clusters"], listen)
            )
        return _APPLY[kind](draft, material, edit)
    except KeyError as error:
        raise RequestError(f"The edit {kind!r} lacks {error}, or has something unknown.") from error
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise RequestError(str(error)) from error


def describe(edit: Mapping[str, Any]) -> str:
    """Say in a few words what an edit does."""
    kind = edit["kind"]
    if kind in ROW_KINDS:
        count = f"{len(edit['rows']):,} row{'s' * (len(edit['rows']) != 1)}"
        verbs = {"drop_rows": "drop", "restore_rows": "restore", "keep": "keep the label of"}
        if kind == "relabel":
            return f"relabel {count}" + (
                f" as {label_text(edit['label'])}" if "label" in edit else ""
            )
        return f"{verbs[kind]} {count}"
    texts: dict[str, Callable[[], str]] = {
        "add_class": lambda: f"add class {label_text(edit['label'])}",
        "merge_classes": lambda: (
            f"merge class {label_text(edit['from'])} into {label_text(edit['into'])}"
        ),
        "rename_prototype": lambda: f"name prototype {edit['id']} {edit['name']}",
        "move": lambda: f"move prototype {edit['id']}",
        "merge_prototypes": lambda: f"merge prototypes {', '.join(map(str, edit['ids']))}",
        "drop_prototype": lambda: f"drop prototype {edit['id']}",
        "set_rejection": lambda: f"reject at a false-alarm rate of {edit['rate']:g}",
        "use_k": lambda: f"use the model of {edit['k']} prototypes",
        "refit": lambda: "fit again",
    }
    return texts[kind]()


def _relabel(draft: Draft, material: Material, edit: Edit) -> Draft:
    codes = draft.codes.copy()
    if "label" in edit:
        codes[_rows(draft, edit)] = draft.labels.index(edit["label"])
    else:
        _rows(draft, edit)
        codes[edit["rows"]] = [draft.labels.index(label) for label in edit["labels"]]
    return replace(draft, codes=codes)


def _mark(bits: int) -> Callable[[Draft, Material, Edit], Draft]:
    def add(draft: Draft, material: Material, edit: Edit) -> Draft:
        marks = draft.marks.copy()
        marks[_rows(draft, edit)] |= bits
        if ((marks & DROPPED) != 0).all():
            raise RequestError("No row would be left: at least one must stay.")
        return replace(draft, marks=marks)

    return add


def _restore(draft: Draft, material: Material, edit: Edit) -> Draft:
    marks = draft.marks.copy()
    marks[_rows(draft, edit)] &= np.uint8(255 - DROPPED)
    return replace(draft, marks=marks)


def _add_class(draft: Draft, material: Material, edit: Edit) -> Draft:
    if edit["label"] in draft.labels:
        raise RequestError(f"There is a class {label_text(edit['label'])} already.")
    if len(draft.labels) >= MAX_CLASSES:
        raise RequestError(f"There are {MAX_CLASSES} classes, the most that are accepted.")
    return replace(
        draft,
        labels=(*draft.labels, edit["label"]),
        merged=(*draft.merged, len(draft.labels)),
    )


def _merge_classes(draft: Draft, material: Material, edit: Edit) -> Draft:
    one, into = (draft.merged[draft.labels.index(edit[name])] for name in ("from", "into"))
    return replace(draft, merged=tuple(into if c == one else c for c in draft.merged))


def _rename(draft: Draft, material: Material, edit: Edit) -> Draft:
    return replace(draft, names={**draft.names, edit["id"]: edit["name"]})


def _move(draft: Draft, material: Material, edit: Edit) -> Draft:
    if "row" in edit:
        center = material.training.X[[edit["row"]]]
        center = center.toarray()[0] if hasattr(center, "toarray") else center[0]
    else:
        center = np.array(edit["features"], dtype=np.float64)
    core = draft.core
    if edit["id"] not in core.cluster_ids_:
        raise RequestError(f"There is no prototype {edit['id']} any more.")
    row = center.reshape(1, -1).astype(core._fitted.prototypes.centers.dtype)
    mapped = core._fitted.geometry.rows(row)[0]
    return _published(draft, set_center(core._fitted, edit["id"], mapped))


def _merge_prototypes(draft: Draft, material: Material, edit: Edit) -> Draft:
    return _edited(draft, lambda core: core.merge(edit["ids"]))


def _drop_prototype(draft: Draft, material: Material, edit: Edit) -> Draft:
    return _edited(draft, lambda core: core.drop(edit["id"]))


def _set_rejection(draft: Draft, material: Material, edit: Edit) -> Draft:
    model, threads = draft.core._fitted, threads_of(draft.core)
    known = held_out_of_known_classes(draft, material)
    assert material.held_out is not None
    rows = model.geometry.rows(material.held_out.X[known], threads)
    table = choose_rejection(model, rows, edit["rate"], "class", threads)
    return _published(draft, replace(model, rejection=table))


def _use_k(draft: Draft, material: Material, edit: Edit) -> Draft:
    return replace(draft, core=model_at(draft.core, edit["k"]))


def model_at(core: Any, k: int) -> Any:
    """Return the model on the way with at most k prototypes."""
    if not hasattr(core, "path_"):
        raise RequestError("The model does not know its growth: fit again to see it.")
    try:
        return core.at(k)
    except ValueError as error:
        raise RequestError(str(error)) from error


def held_out_of_known_classes(draft: Draft, material: Material) -> npt.NDArray[np.intp]:
    """Return the held-out rows of classes that the model knows, for rejection."""
    held_out = material.held_out
    if held_out is None or not len(held_out):
        raise RequestError(
            "Rejection needs held-out rows, and there are none: training rows would reject too "
            "many."
        )
    return np.flatnonzero(np.isin(draft.counts_as[held_out.codes], draft.prototype_classes))


_APPLY: dict[str, Callable[[Draft, Material, Edit], Draft]] = {
    "relabel": _relabel,
    "drop_rows": _mark(DROPPED),
    "restore_rows": _restore,
    "keep": _mark(KEPT),
    "add_class": _add_class,
    "merge_classes": _merge_classes,
    "rename_prototype": _rename,
    "move": _move,
    "merge_prototypes": _merge_prototypes,
    "drop_prototype": _drop_prototype,
    "set_rejection": _set_rejection,
    "use_k": _use_k,
}


def _edited(draft: Draft, change: Callable[[Any], Any]) -> Draft:
    """Change a copy of the model; what it consists of is shared, as that is never written."""
    core = copy.copy(draft.core)
    change(core)
    return replace(draft, core=core)


def _published(draft: Draft, fitted: Any) -> Draft:
    return _edited(draft, lambda core: core._publish(fitted))


def _rows(draft: Draft, edit: Edit) -> npt.NDArray[np.int64]:
    return r.integers(edit, "rows", len(draft.codes))


def _label(draft: Draft, params: Mapping[str, Any], name: str) -> Any:
    return draft.labels[r.integer(params, name, len(draft.labels))]


def _labels_by_row(draft: Draft, material: Material, params: Mapping[str, Any]) -> dict[str, Any]:
    """Read rows with a class for each."""
    rows, classes = params.get("rows", []), params["classes"]
    unique = r.integers(params, "rows", len(material.training))
    r.integers(params, "classes", len(draft.labels))
    if len(unique) != len(rows) or len(classes) != len(rows):
        raise RequestError("rows must be different, and classes must be one for each of them.")
    return {"rows": rows, "labels": [draft.labels[code] for code in classes]}


def _new_label(draft: Draft, name: str) -> Any:
    """Make a label of a text: of the type of the other labels."""
    if isinstance(draft.labels[0], str):
        return name
    try:
        value = type(draft.labels[0])(int(name))
    except ValueError:
        raise RequestError(f"Labels are whole numbers, so {name!r} cannot be one.") from None
    if isinstance(value, bool) or value != int(name) or abs(int(name)) >= 1 << 53:
        raise RequestError(f"{name} cannot be a label beside {label_text(draft.labels[0])}.")
    return value


def _id(draft: Draft, params: Mapping[str, Any], name: str) -> int:
    return int(draft.core.cluster_ids_[r.integer(params, name, len(draft.core.cluster_ids_))])


def _ids_to_merge(draft: Draft, params: Mapping[str, Any]) -> list[int]:
    indices = r.integers(params, "indices", len(draft.core.cluster_ids_))
    if len(indices) < 2:
        raise RequestError("Choose two or more prototypes to merge.")
    return [int(id) for id in draft.core.cluster_ids_[indices]]


def _target(material: Material, params: Mapping[str, Any]) -> dict[str, Any]:
    """Read where a prototype is moved: onto a row, or to values in the units of features."""
    if "row" in params:
        return {"row": r.integer(params, "row", len(material.training))}
    units = material.units
    values = r.floats(params, "values", len(units.names))
    features = np.divide(
        values - units.offset, units.factor, out=np.zeros_like(values), where=units.factor != 0
    )
    return {"features": features.tolist()}


def _less(k: Any) -> Any:
    return k - 1 if type(k) is int else k
