"""Labels of the rows of frames."""

from typing import Any

import numpy as np
import numpy.typing as npt


def row_index(*tables: Any) -> npt.NDArray[Any] | None:
    """Return the row labels of the first pandas frame or series, or None.

    Several levels make tuples.
    """
    for table in tables:
        if hasattr(table, "iloc") and hasattr(table, "index") and not hasattr(table, "dask"):
            labels = table.index
            found = np.empty(len(labels), dtype=object)
            found[:] = labels.tolist()
            return np.asarray(labels) if getattr(labels, "nlevels", 1) == 1 else found
    return None
