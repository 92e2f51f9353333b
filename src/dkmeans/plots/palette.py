"""Colours that differ for people with any kind of colour vision."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Okabe and Ito's palette.
FIRST = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
SIZE = 40
LEVELS = 12  # of red, green and blue, among which further colours are chosen
MIN_LIGHTNESS, MAX_LIGHTNESS = 0.35, 0.88  # of further colours: seen on white, and told from black
# Dichromatic vision, as matrices of linear RGB: Machado, Oliveira and Fernandes, "A
# physiologically-based model for simulation of color vision deficiency", 2009.
VISIONS = np.array(
    [
        [1, 0, 0, 0, 1, 0, 0, 0, 1],
        [
            0.152286,
            1.052583,
            -0.204868,
            0.114503,
            0.786281,
            0.099216,
            -0.003882,
            -0.048116,
            1.051998,
        ],
        [
            0.367322,
            0.860646,
            -0.227968,
            0.280085,
            0.672501,
            0.047413,
            -0.011820,
            0.042940,
            0.968881,
        ],
        [
            1.255528,
            -0.076749,
            -0.178779,
            -0.078411,
            0.930809,
            0.147602,
            0.004733,
            0.691367,
            0.303900,
        ],
    ]
).reshape(4, 3, 3)
# From linear RGB to the perceptual colour space Oklab, with a cube root between the two.
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def seen(rgb: npt.ArrayLike) -> Floats:
    """Map sRGB colours to Oklab, as people with each kind of colour vision see them.

    Parameters
    ----------
    rgb : array-like of shape (n, 3)
        Colours, from 0 to 1.

    Returns
    -------
    oklab : ndarray of shape (4, n, 3)
        For full colour vision, protanopia, deuteranopia and tritanopia.
    """
    values = np.asarray(rgb, dtype=np.float64)
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    by_vision = np.clip(np.einsum("vij,nj->vni", VISIONS, linear), 0, 1)
    return np.asarray(np.cbrt(by_vision @ TO_CONES.T) @ TO_OKLAB.T)


@lru_cache(maxsize=1)
def palette() -> tuple[str, ...]:
    """Return colours, each as far as possible from those before it for every kind of vision.

    Examples
    --------
    >>> palette()[:2], len(set(palette()))
    (('#0072B2', '#D55E00'), 40)
    """
    steps = np.linspace(0, 1, LEVELS)
    candidates = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
    lightness = seen(candidates)[0, :, 0]
    candidates = candidates[(lightness > MIN_LIGHTNESS) & (lightness < MAX_LIGHTNESS)]
    first = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in FIRST]) / 255
    places = seen(candidates)
    distances = np.full(len(candidates), np.inf)
    for place in np.moveaxis(seen(first), 1, 0):
        distances = np.minimum(distances, _apart(places, place))
    chosen = list(FIRST)
    while len(chosen) < SIZE:
        best = int(np.argmax(distances))
        red, green, blue = np.rint(255 * candidates[best]).astype(int)
        chosen.append(f"#{red:02X}{green:02X}{blue:02X}")
        distances = np.minimum(distances, _apart(places, places[:, best]))
    return tuple(chosen)


def _apart(places: Floats, place: Floats) -> Floats:
    """Return the distances to a colour, for the kind of vision that tells them apart worst."""
    return np.asarray(np.linalg.norm(places - place[:, None], axis=2).min(axis=0))
