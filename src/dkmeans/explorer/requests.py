"""Parameters of requests, checked: every mistake is one sentence."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_TEXT = 200  # letters of a name that a person types
MAX_PIXELS = 1 << 21  # of a picture that is computed


class RequestError(Exception):
    """A request that cannot be answered; the message is shown on the page."""


def integer(params: Mapping[str, Any], name: str, below: int, default: int | None = None) -> int:
    """Read a whole number from 0 up to, but not including, a limit."""
    value = params.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
        most = f"from 0 to {below - 1}" if below else "and there is none to choose"
        raise RequestError(f"{name} must be a whole number {most}, not {_shown(value)}.")
    return value


def number(params: Mapping[str, Any], name: str) -> float:
    """Read a finite number."""
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise RequestError(f"{name} must be a number, not {_shown(value)}.")
    return float(value)


def rate(params: Mapping[str, Any], name: str) -> float:
    """Read a number between 0 and 1."""
    value = number(params, name)
    if not 0 < value < 1:
        raise RequestError(f"{name} must be between 0 and 1, not {_shown(value)}.")
    return value


def choice(
    params: Mapping[str, Any], name: str, known: Sequence[str], default: str | None = None
) -> str:
    """Read one of some words."""
    value = params.get(name, default)
    if not isinstance(value, str) or value not in known:
        raise RequestError(f"{name} must be one of {', '.join(known)}, not {_shown(value)}.")
    return value


def text(params: Mapping[str, Any], name: str) -> str:
    """Read a short text that is not empty."""
    value = params.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT:
        raise RequestError(f"{name} must be a text of 1 to {MAX_TEXT} letters.")
    if not value.isprintable():
        raise RequestError(f"{name} has letters that cannot be printed: remove them.")
    return value.strip()


def integers(
    params: Mapping[str, Any], name: str, below: int, *, most: int | None = None
) -> npt.NDArray[np.int64]:
    """Read a list of different whole numbers from 0 up to a limit; it must not be empty."""
    values = params.get(name)
    if not isinstance(values, list) or not values:
        raise RequestError(f"{name} must be a list of whole numbers that is not empty.")
    if most is not None and len(values) > most:
        raise RequestError(f"{name} has {len(values)} entries, but at most {most} are accepted.")
    # A set of types is faster than a look at each value; bool is a type of its own there.
    if set(map(type, values)) != {int} or min(values) < 0 or max(values) >= below:
        raise RequestError(f"{name} must be whole numbers from 0 to {below - 1}.")
    return np.unique(np.array(values, dtype=np.int64))


def floats(params: Mapping[str, Any], name: str, length: int) -> npt.NDArray[np.float64]:
    """Read a list of finite numbers of some length."""
    values = params.get(name)
    if not isinstance(values, list) or len(values) != length:
        raise RequestError(f"{name} must be a list of {length} numbers.")
    if not all(
        isinstance(v, int | float) and not isinstance(v, bool) and _is_finite(v) for v in values
    ):
        raise RequestError(f"{name} must be {length} finite numbers.")
    return np.array(values, dtype=np.float64)


def grid(params: Mapping[str, Any]) -> tuple[npt.NDArray[np.float64], int, int]:
    """Read the part of a plane that a picture shows, and the size of the picture."""
    extent = floats(params, "extent", 4)
    if not (extent[0] < extent[1] and extent[2] < extent[3]):
        raise RequestError("extent must be x0 < x1, y0 < y1.")
    width, height = (integer(params, n, MAX_PIXELS + 1) for n in ("width", "height"))
    if width < 1 or height < 1 or width * height > MAX_PIXELS:
        raise RequestError(f"width x height must be from 1 to {MAX_PIXELS} pixels.")
    return extent, width, height


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond float64
        return False


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:39] + "\N{HORIZONTAL ELLIPSIS}"
