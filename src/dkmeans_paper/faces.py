"""Pictures of faces under known lights."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


class DataError(Exception):
    """Data do not meet the requirements of an experiment; the message states them."""


@dataclass(frozen=True)
class Faces:
    """Pictures of people, each under many lights.

    Attributes
    ----------
    images : ndarray of shape (n_images, height, width)
        Grey levels, 0 to 255.
    person : ndarray of shape (n_images,)
        Person in each picture, as an index into `names`.
    azimuth : ndarray of shape (n_images,)
        Angle of the light to the side in degrees; positive lights the left half of the picture.
    elevation : ndarray of shape (n_images,)
        Angle of the light above the camera's axis in degrees.
    names : list of str
        One name per person.
    skipped : list of str
        Files that were left out, if the pictures come from files.
    """

    images: npt.NDArray[np.uint8]
    person: npt.NDArray[np.intp]
    azimuth: npt.NDArray[np.int_]
    elevation: npt.NDArray[np.int_]
    names: list[str]
    skipped: list[str] = field(default_factory=list)
