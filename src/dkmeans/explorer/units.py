"""Features as a person reads them: names, units of the table's columns, and images."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.explorer.layers import MAX_VALUES, value_text
from dkmeans.plots.inputs import FittedModel, dense, evenly_spaced, take_rows
from dkmeans.questions.explain import feature_names
from dkmeans.tables.pipeline import kinds_of_pipeline
from dkmeans.tables.units import in_original_units

Floats = npt.NDArray[np.float64]

_SAMPLE_ROWS = 2000  # rows that the brightness of images is taken from


@dataclass(frozen=True)
class Units:
    """Names and units of the features of a model."""

    opened: FittedModel
    names: list[str]
    factor: Floats  # shape (d,): a feature times its factor plus its offset is in its unit
    offset: Floats

    @classmethod
    def of(cls, opened: FittedModel) -> "Units":
        """Find out the names and units of a model's features."""
        d = int(opened.model.n_features_in_)
        names = [str(name) for name in feature_names(opened.model._fitted)]
        if opened.before is not None:
            # Some steps do not name their outputs.
            with contextlib.suppress(AttributeError, ValueError):
                names = [str(name) for name in opened.before.get_feature_names_out()]
        factor, offset = np.ones(d), np.zeros(d)
        if opened.before is not None:
            factor, offset = _scales(opened.before, d)
        return cls(opened, names, factor, offset)

    def shown(self, X: Any) -> list[list[tuple[str, str]]]:
        """Write rows of features, such as prototypes, in original units."""
        columns = self._table_columns
        rows = dense(X)
        if columns is not None:
            found = in_original_units(columns, rows)
        else:
            values = rows * self.factor + self.offset
            found = dict(zip(self.names, values.T, strict=True))
        few = list(found.items())[:MAX_VALUES]
        return [[(name, value_text(v[i])) for name, v in few] for i in range(len(rows))]

    def natural(self, X: Any) -> Floats:
        """Convert rows of features to their units, where these are known."""
        return dense(X) * self.factor + self.offset

    @property
    def _table_columns(self) -> Any:
        """The first step, if the model is a table pipeline."""
        before = self.opened.before
        if before is None or len(before.steps) != 1:
            return None
        step = before.steps[0][1]
        return step if kinds_of_pipeline(before) is not None else None


def _scales(before: Any, d: int) -> tuple[Floats, Floats]:
    """Return factor and offset of each feature: those of a scaler, or of a table's numbers."""
    factor, offset = np.ones(d), np.zeros(d)
    if len(before.steps) != 1:
        return factor, offset
    step = before.steps[0][1]
    if hasattr(step, "scale_") and hasattr(step, "mean_"):  # StandardScaler
        if step.scale_ is not None:
            factor = np.asarray(step.scale_, dtype=np.float64)
        if step.mean_ is not None:
            offset = np.asarray(step.mean_, dtype=np.float64)
        return factor, offset
    if kinds_of_pipeline(before) is None:
        return factor, offset
    at = 0
    for name, transformer, columns in step.transformers_:
        if name == "remainder":
            continue
        width = len(transformer.get_feature_names_out(columns))
        scaler = transformer.named_steps.get("scaler")
        if scaler is not None:
            factor[at : at + width], offset[at : at + width] = scaler.scale_, scaler.mean_
        at += width
    return factor, offset


class Images:
    """Rows that are images, as bytes from 0 (darkest) to 255.

    Parameters
    ----------
    shape : sequence of int
        (height, width) or (height, width, 3).
    units : Units
    X : array or CSR matrix
        Rows that tell which values are dark and bright.
    """

    def __init__(self, shape: Sequence[int], units: Units, X: Any) -> None:
        self.shape, self._units = tuple(int(side) for side in shape), units
        d = len(units.factor)
        if len(self.shape) not in (2, 3) or int(np.prod(self.shape)) != d:
            raise ValueError(
                f"image_shape={self.shape!r} has {int(np.prod(self.shape))} pixels, but rows have "
                f"{d} features: give height and width of the images."
            )
        some = units.natural(take_rows(X, evenly_spaced(X.shape[0], _SAMPLE_ROWS)))
        self._low, self._high = float(some.min()), float(some.max())

    def bytes(self, X: Any) -> npt.NDArray[np.uint8]:
        """Return images, shape (n, height * width); colours become grey."""
        values = self._units.natural(X)
        if len(self.shape) == 3:
            values = values.reshape(len(values), -1, self.shape[2]).mean(axis=2)
        span = (self._high - self._low) or 1.0
        return np.clip(np.rint(255 * (values - self._low) / span), 0, 255).astype(np.uint8)
