"""Arrays whose columns have names."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


class NamedArray(np.ndarray):
    """Rows in memory whose features have names, which a fit keeps.

    Unlike a dataframe without an own dtype, float32 stays float32.
    """

    names: list[str]

    @classmethod
    def of(cls, X: npt.NDArray[Any], names: Sequence[str]) -> "NamedArray":
        """Give names to the columns of an array."""
        named = X.view(cls)
        named.names = list(names)
        return named
