"""Convert images to rows of features."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

Images = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.float64]

BLUR_SIGMA_PX = 4.0  # the blurred image estimates the illumination
BLACK_OFFSET = 1.0  # keeps the quotient finite where the blurred image is black


def raw(images: Images) -> Rows:
    """Return the pixels, scaled to between 0 and 1."""
    return images.reshape(len(images), -1) / 255.0


def unit_length(images: Images) -> Rows:
    """Return the pixels, scaled so that every image has length 1."""
    return _to_unit_length(images.astype(np.float64))


def equalised(images: Images) -> Rows:
    """Equalise histograms: replace each pixel by the share of pixels that are not brighter."""
    rows = np.empty((len(images), images[0].size))
    for row, image in zip(rows, images.reshape(len(images), -1), strict=True):
        row[:] = np.bincount(image, minlength=256).cumsum()[image] / image.size
    return rows


def high_pass(images: Images) -> Rows:
    """Subtract the blurred image, and scale to length 1."""
    pixels = images.astype(np.float64)
    return _to_unit_length(pixels - _blur(pixels))


def self_quotient(images: Images) -> Rows:
    """Divide by the blurred image, subtract 1, and scale to length 1."""
    pixels = images.astype(np.float64) + BLACK_OFFSET
    return _to_unit_length(pixels / _blur(pixels) - 1)


REPRESENTATIONS: dict[str, Callable[[Images], Rows]] = {
    "high-pass": high_pass,
    "self-quotient": self_quotient,
    "equalised": equalised,
    "unit length": unit_length,
    "raw": raw,
}


def _blur(pixels: Rows) -> Rows:
    return gaussian_filter(pixels, (0, BLUR_SIGMA_PX, BLUR_SIGMA_PX))


def _to_unit_length(pixels: Rows) -> Rows:
    rows = pixels.reshape(len(pixels), -1)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)
