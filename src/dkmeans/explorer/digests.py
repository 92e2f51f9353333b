"""Digests of models and rows: they tell whether a journal belongs to them."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


def digest_model(core: Any) -> str:
    """Return a digest of what a model predicts by."""
    fitted = core._fitted
    space = fitted.geometry
    arrays = [fitted.prototypes.centers, fitted.prototypes.classes, fitted.prototypes.ids]
    arrays += [space.input_components] if space.input_components is not None else []
    return _digest([repr(fitted.classes.tolist()), type(space).__name__], arrays)


def digest_rows(X: Any, codes: Any, labels: Sequence[Any]) -> str:
    """Return a digest of rows and their labels."""
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    return _digest([repr(list(labels)), repr(X.shape)], [*arrays, codes])


def _digest(texts: Sequence[str], arrays: Sequence[Any]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for text in texts:
        found.update(text.encode() + b"\0")
    for array in arrays:
        values = np.ascontiguousarray(array)
        found.update(f"{values.dtype.str}{values.shape}".encode())
        found.update(values.data.cast("B") if values.size else b"")
    return found.hexdigest()
