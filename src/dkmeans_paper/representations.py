"""How an image becomes a row of numbers."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

Images = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.float64]

_SIGMA = 4.0  # pixels; of the blur that stands for the light on a face
_BLACK = 1.0  # keeps the quotient finite where the blurred image is black


def raw(images: Images) -> Rows:
    """Pixels as they are, between 0 and 1."""
    return images.reshape(len(images), -1) / 255.0


def unit_length(images: Images) -> Rows:
    """Pixels, scaled so that every image has length 1."""
    return _to_unit_length(images.astype(np.float64))


def equalised(images: Images) -> Rows:
    """Each pixel replaced by the share of the image's pixels that are not brighter."""
    rows = np.empty((len(images), images[0].size))
    for row, image in zip(rows, images.reshape(len(images), -1), strict=True):
        row[:] = np.bincount(image, minlength=256).cumsum()[image] / image.size
    return rows


def high_pass(images: Images) -> Rows:
    """Image less its blur, scaled to length 1."""
    pixels = images.astype(np.float64)
    return _to_unit_length(pixels - _blur(pixels))


def self_quotient(images: Images) -> Rows:
    """Image over its blur, less 1, scaled to length 1."""
    pixels = images.astype(np.float64) + _BLACK
    return _to_unit_length(pixels / _blur(pixels) - 1)


REPRESENTATIONS: dict[str, Callable[[Images], Rows]] = {
    "high-pass": high_pass,
    "self-quotient": self_quotient,
    "equalised": equalised,
    "unit length": unit_length,
    "raw": raw,
}


def _blur(pixels: Rows) -> Rows:
    return gaussian_filter(pixels, (0, _SIGMA, _SIGMA))


def _to_unit_length(pixels: Rows) -> Rows:
    rows = pixels.reshape(len(pixels), -1)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)
