"""`Session`: all state of an explorer. One instance answers all requests, of any number of tabs."""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline

from dkmeans.data.value_checks import as_labels, check_same_kind
from dkmeans.explorer import edits
from dkmeans.explorer.digests import digest_model, digest_rows
from dkmeans.explorer.draft import Change, Draft
from dkmeans.explorer.edits import Edit, Material
from dkmeans.explorer.journal import Journal
from dkmeans.explorer.layers import MAX_CLASSES, Codes, Layer, Rows, make_layer
from dkmeans.explorer.planes import MapPlane, RowDirections, prototype_plane
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.tables import Origin
from dkmeans.explorer.units import Images, Units
from dkmeans.explorer.views import View
from dkmeans.plots.inputs import FittedModel, unwrap_pipeline

_CLOSING_S = 2.0  # that the end waits for an answer
_KEPT_VIEWS = 8  # models and layers whose rows are kept
_KEPT_ANSWERS = 40  # some have an entry for each row
LAYERS = ("training", "held_out")


class Session:
    """A model, rows, and the edits of a person.

    `model` is the edited model, `labels()` are the corrected labels, and `dropped()` tells which
    rows were dropped.

    Parameters
    ----------
    model : DiscriminativeKMeans or Pipeline
        Fitted; it is not changed.
    training : Rows
        Rows that the model was fitted on.
    held_out : Rows, optional
        Rows that it was not fitted on.
    title : str
    image_shape : sequence of int, optional
        Shape of the image that the features make up, line by line.
    origin : Origin, optional
        Where rows and model come from.
    journal : path, optional
        File of the edits. If it exists, its edits are made again.
    """

    def __init__(
        self,
        model: Any,
        training: Rows,
        held_out: Rows | None = None,
        *,
        title: str = "dkmeans",
        image_shape: Sequence[int] | None = None,
        origin: Origin | None = None,
        journal: str | Path | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.searching = threading.Lock()  # held while suspects are searched for
        self.opened: FittedModel = unwrap_pipeline(model)
        self.title, self.origin = title, origin or Origin()
        core = self.opened.model
        self._steps = list(getattr(model, "steps", ()))
        labels, codes = _number_classes(core, training.y, None if held_out is None else held_out.y)
        self.units = Units.of(self.opened)
        layer = make_layer(self.opened, training.X, codes[0], training.weight, training.places)
        _check_rows(layer, "X", "y")
        self.layers: dict[str, Layer] = {"training": layer}
        if held_out is not None and len(codes[1]):
            self.layers["held_out"] = make_layer(
                self.opened, held_out.X, codes[1], held_out.weight, held_out.places
            )
            _check_rows(self.layers["held_out"], "X_test", "y_test")
        self.images = None if image_shape is None else Images(image_shape, self.units, layer.X)
        marks = np.zeros(len(layer), dtype=np.uint8)
        merged = tuple(range(len(labels)))
        self.start = Draft(core, tuple(labels), merged, {}, codes[0], marks)
        self.draft = self.start
        self.material = Material(layer, self.layers.get("held_out"), self.units)
        self.shown_k: int | None = None
        self.version = 1
        self.done: list[Change] = []
        self.undone: list[Change] = []
        self._views: OrderedDict[tuple[int, str], View] = OrderedDict()
        self._serials: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._counter = itertools.count()
        self._planes: dict[Any, Any] = {}
        self._cache: OrderedDict[Any, Any] = OrderedDict()
        self.job: Any = None
        self.answering: set[int] = set()  # threads that are answering a request
        self.journal: Journal | None = None
        if journal is not None:
            self._open_journal(Path(journal))

    @property
    def model(self) -> Any:
        """The edited model, behind the steps that come before it."""
        if self.opened.before is None:
            return self.draft.core
        name = self._steps[-1][0]
        return Pipeline([*self._steps[:-1], (name, self.draft.core)])

    def labels(self) -> npt.NDArray[Any]:
        """Return the corrected label of each training row, dropped rows included."""
        return self.draft.label_array(self.draft.row_classes)

    def dropped(self) -> npt.NDArray[np.bool_]:
        """Return whether each training row was dropped."""
        return ~self.draft.used

    @property
    def shown(self) -> Draft:
        """The draft that the page shows: with the model on the way, while one is looked at."""
        if self.shown_k is None:
            return self.draft
        return self.at(self.shown_k)

    def at(self, k: int) -> Draft:
        """Return the draft with the model that growth passed through at k prototypes."""
        core = self.draft.core
        found = self.cached(("at", self.serial(core), k), lambda: edits.model_at(core, k))
        return replace(self.draft, core=found)

    def view(self, draft: Draft, layer: str) -> View:
        """Return the rows of a layer as the model of a draft sees them."""
        key = (self.serial(draft.core), layer)
        if key not in self._views:
            self._views[key] = View(draft.core, self.layers[layer])
        self._views.move_to_end(key)
        while len(self._views) > _KEPT_VIEWS:
            self._views.popitem(last=False)
        return self._views[key]

    def serial(self, core: Any) -> int:
        """Return a number that tells a model from all others of this session."""
        if core not in self._serials:
            self._serials[core] = next(self._counter)
        return self._serials[core]

    def cached(self, key: Any, compute: Callable[[], Any], most: int = _KEPT_ANSWERS) -> Any:
        """Compute something once; the oldest of many things is forgotten."""
        if key not in self._cache:
            self._cache[key] = compute()
        self._cache.move_to_end(key)
        while len(self._cache) > most:
            self._cache.popitem(last=False)
        return self._cache[key]

    def peek(self, key: Any) -> Any:
        """Return what has been computed, or None."""
        return self._cache.get(key)

    def classes(self, draft: Draft, layer: str) -> Codes:
        """Return the class of each row, by number."""
        if layer == "training":
            return draft.row_classes
        return draft.counts_as[self.layers[layer].codes]

    def predicted(self, draft: Draft, layer: str) -> Codes:
        """Return the predicted class of each row, by number."""
        return draft.prototype_classes[self.view(draft, layer).cells]

    def used(self, draft: Draft, layer: str) -> npt.NDArray[np.bool_]:
        """Return whether each row counts."""
        return draft.used if layer == "training" else np.ones(len(self.layers[layer]), dtype=bool)

    def errors(self, draft: Draft, layer: str) -> tuple[int, int]:
        """Count the rows that are wrong, and all."""
        used = self.used(draft, layer)
        wrong = self.classes(draft, layer) != self.predicted(draft, layer)
        return int(np.count_nonzero(wrong & used)), int(np.count_nonzero(used))

    def plane(self, id: str, x: int, y: int) -> MapPlane:
        """Return a plane by its id; x and y are features of the plane "features"."""
        if id == "learned":
            core, names = self.shown.core, self.units.names
            mine = ("plane", self.serial(core))
            return self.cached(mine, lambda: prototype_plane(core, names))
        if "directions" not in self._planes:
            self._planes["directions"] = RowDirections(
                self.layers["training"].X, self.layers["training"].codes
            )
        directions: RowDirections = self._planes["directions"]
        key = (id, x, y) if id == "features" else id
        if key not in self._planes:
            if id == "features":
                pair = [x, y]
                scales = np.array([self.units.factor[pair], self.units.offset[pair]])
                titles = (self.units.names[x], self.units.names[y])
                plane = directions.features(x, y, titles, scales)
            else:
                plane = directions.lda() if id == "lda" else directions.pca()
            self._planes[key] = plane
        return self._planes[key]

    def edit(self, edit: Edit) -> None:
        """Make an edit that was checked, and write it to the journal."""
        self.require_idle()
        change = self._changed(edit)
        if self.journal is not None:
            self.journal.append({"edit": edit})
        self._push(change)

    def undo(self) -> None:
        """Take the last edit back."""
        self.require_idle()
        if not self.done:
            raise RequestError("There is nothing to undo.")
        if self.journal is not None:
            self.journal.append({"undo": 1})
        self._undo()

    def redo(self) -> None:
        """Make the last edit that was taken back again."""
        self.require_idle()
        if not self.undone:
            raise RequestError("There is nothing to redo.")
        if self.journal is not None:
            self.journal.append({"redo": 1})
        self._redo()

    def put(self, edit: Edit, after: Draft) -> None:
        """Record an edit whose result was computed elsewhere."""
        change = Change.between(edit, edits.describe(edit), self.draft, after)
        if self.journal is not None:
            self.journal.append({"edit": edit})
        self._push(change)

    def require_idle(self) -> None:
        """Refuse a change while a fit is running."""
        if self.job is not None and self.job.is_running:
            raise RequestError("A fit is running: wait until it ends, or stop it.")

    def close(self) -> None:
        """End the session; the journal stays. An edit that is being written is completed."""
        if self.job is not None:
            self.job.stop()
        if self.journal is not None:
            is_locked = self.lock.acquire(timeout=_CLOSING_S)
            try:
                self.journal.close()
            finally:
                if is_locked:
                    self.lock.release()

    @property
    def is_working(self) -> bool:
        """Whether a request is being answered, or a fit is running."""
        return bool(self.answering) or (self.job is not None and self.job.is_running)

    def _changed(self, edit: Edit) -> Change:
        after = edits.apply(self.draft, self.material, edit)
        return Change.between(edit, edits.describe(edit), self.draft, after)

    def _push(self, change: Change) -> None:
        self.draft = change.redone(self.draft)
        self.done.append(change)
        self.undone.clear()
        self._moved()

    def _undo(self) -> None:
        change = self.done.pop()
        self.draft = change.undone(self.draft)
        self.undone.append(change)
        self._moved()

    def _redo(self) -> None:
        change = self.undone.pop()
        self.draft = change.redone(self.draft)
        self.done.append(change)
        self._moved()

    def _moved(self) -> None:
        self.shown_k = None
        self.version += 1

    def _open_journal(self, path: Path) -> None:
        """Open the journal, and make its edits again."""
        layer = self.layers["training"]
        digests = {
            "model": digest_model(self.start.core),
            "rows": digest_rows(layer.X, layer.codes, self.start.labels),
        }
        self.journal = Journal(path, digests)
        try:
            for number, entry in enumerate(self.journal.entries):
                self._replay(entry, number)
        except BaseException:
            self.journal.close()
            raise

    def _replay(self, entry: dict[str, Any], number: int) -> None:
        try:
            if "undo" in entry:
                self._undo()
            elif "redo" in entry:
                self._redo()
            else:
                self._push(self._changed(entry["edit"]))
        except (RequestError, KeyError, IndexError, TypeError) as error:
            assert self.journal is not None
            raise ValueError(
                f"{self.journal.path}: line {number + 2} cannot be done again ({error}): name "
                "another journal, or remove it."
            ) from error


def _number_classes(core: Any, *labels: Any) -> tuple[list[Any], list[Codes]]:
    """List all classes, those of the model first, and number the labels of some rows."""
    classes: list[Any] = core.classes_.tolist()
    arrays = [np.asarray(as_labels(y)).ravel() for y in labels if y is not None]
    for y in arrays:
        if len(y):
            check_same_kind(core.classes_, y)
    place = {label: at for at, label in enumerate(classes)}
    codes: list[Codes] = []
    for y in arrays:
        found, index = np.unique(y, return_inverse=True)
        for label in found.tolist():
            place.setdefault(label, len(place))
        of_label = np.array([place[label] for label in found.tolist()], dtype=np.int64)
        if len(place) > MAX_CLASSES:
            raise ValueError(f"There are more than {MAX_CLASSES} classes, the most for explore.")
        codes.append(of_label[index.ravel()].astype(np.uint16))
    return list(place), codes


def _check_rows(layer: Layer, name: str, labels: str) -> None:
    n = layer.X.shape[0]
    if n != len(layer):
        raise ValueError(f"{labels} has {len(layer)} labels, but {name} has {n} rows.")
    if layer.weight is not None and layer.weight.shape != (n,):
        raise ValueError(f"sample_weight has {len(layer.weight)} entries, but X has {n} rows.")
