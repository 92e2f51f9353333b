"""Settings that all tests and doctests share."""

import os
import sys
from collections.abc import Iterator

import pytest

os.environ.setdefault("MPLBACKEND", "agg")  # no windows


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """Close the figures that a test has drawn through pyplot."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
