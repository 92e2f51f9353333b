"""Read Extended Yale B, from the folder as distributed or from an `.npz` file."""

import re
import zipfile
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dkmeans_paper.faces import DataError, Faces

SHRINK_FACTOR = 4  # 192 x 168 pixels become 48 x 42
CROPPED_SHAPE = (192, 168)
_PERSON = re.compile(r"yaleB\d\d")
_FACE = re.compile(r"(yaleB\d\d)_P\d\dA([+-]\d{3})E([+-]\d{2})\.pgm")
_UNREADABLE = (ValueError, EOFError, OSError, AttributeError, zipfile.BadZipFile, zlib.error)
_EXPECTED = (
    "Expected the CroppedYale folder as distributed (folders yaleB01, yaleB02, ... of .pgm "
    "pictures) or an .npz file with the arrays images, y, azimuth and elevation."
)


def load_yale(path: Path) -> Faces:
    """Read Extended Yale B.

    Parameters
    ----------
    path : Path
        The CroppedYale folder, or an ``.npz`` file with `images`, `y`, `azimuth`, `elevation`.

    Returns
    -------
    faces : Faces
        Pictures of a folder are reduced to 48 x 42 by averaging. Files that are not lit faces
        (marked bad, taken without flash, unrelated) are listed in `skipped`.
    """
    if path.is_dir():
        return _from_folder(path)
    if path.is_file():
        return _from_npz(path)
    raise DataError(f"{path} does not exist. {_EXPECTED}")


def _from_folder(path: Path) -> Faces:
    people = sorted(p for p in path.iterdir() if p.is_dir() and _PERSON.fullmatch(p.name))
    if not people:
        raise DataError(f"{path} has no folder of a person. {_EXPECTED}")
    images: list[npt.NDArray[np.uint8]] = []
    person: list[int] = []
    angles: list[tuple[int, int]] = []
    skipped: list[str] = []
    for number, folder in enumerate(people):
        before = len(images)
        for file in sorted(folder.iterdir()):
            match = _FACE.fullmatch(file.name)
            if match is None or match[1] != folder.name:
                skipped.append(f"{folder.name}/{file.name}: {_reason(file.name)}")
                continue
            images.append(_read_picture(file))
            person.append(number)
            angles.append((int(match[2]), int(match[3])))
        if len(images) == before:
            raise DataError(f"{folder} has no picture of a lit face. {_EXPECTED}")
    azimuth, elevation = np.array(angles).T
    return Faces(
        np.array(images), np.array(person), azimuth, elevation, [p.name for p in people], skipped
    )


def _reason(name: str) -> str:
    if name.endswith(".bad"):
        return "marked bad"
    if "Ambient" in name:
        return "taken without flash"
    return "no picture of a lit face"


def _read_picture(path: Path) -> npt.NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(path) as image:
            pixels = np.asarray(image)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as a picture ({error}). Take the file from the database again."
        ) from error
    if pixels.shape != CROPPED_SHAPE or pixels.dtype != np.uint8:
        raise DataError(
            f"{path} is a picture of {' x '.join(map(str, pixels.shape))} {pixels.dtype}; "
            f"expected {CROPPED_SHAPE[0]} x {CROPPED_SHAPE[1]} uint8, as in the cropped release."
        )
    height, width = CROPPED_SHAPE
    blocks = pixels.reshape(
        height // SHRINK_FACTOR, SHRINK_FACTOR, width // SHRINK_FACTOR, SHRINK_FACTOR
    )
    return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)


def _from_npz(path: Path) -> Faces:
    wanted = ("images", "y", "azimuth", "elevation")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            missing = [name for name in wanted if name not in arrays.files]
            if missing:
                raise DataError(f"{path} has no array {missing[0]!r}. {_EXPECTED}")
            images, y, azimuth, elevation = (arrays[name] for name in wanted)
    except _UNREADABLE as error:
        raise DataError(f"{path} cannot be read as an .npz file ({error}). {_EXPECTED}") from error
    if images.ndim != 3 or images.dtype != np.uint8 or not len(images):
        raise DataError(
            f"{path}: images is {images.dtype} of shape {images.shape}; "
            "expected uint8 of shape (n, height, width)."
        )
    for name, array in (("y", y), ("azimuth", azimuth), ("elevation", elevation)):
        if array.shape != (len(images),) or array.dtype.kind not in "iu":
            raise DataError(
                f"{path}: {name} is {array.dtype} of shape {array.shape}; "
                f"expected integers of shape ({len(images)},)."
            )
    people, person = np.unique(y, return_inverse=True)
    names = [f"person {p}" for p in people]
    return Faces(images, person, azimuth.astype(int), elevation.astype(int), names)
