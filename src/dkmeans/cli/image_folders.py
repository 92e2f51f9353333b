"""Folders of images, one folder for each class."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.cli.console import plural
from dkmeans.cli.errors import InputError

_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
_PIXEL = re.compile(r"y(\d+)x(\d+)(red|green|blue)?")
_CHANNELS = ("red", "green", "blue")
_MAX_FEATURES = 1 << 20


@dataclass(frozen=True)
class ImageShape:
    """Size of images, and whether they have colours."""

    height: int
    width: int
    colours: bool

    @property
    def names(self) -> list[str]:
        """Names of the features, line by line."""
        places = [f"y{y}x{x}" for y in range(self.height) for x in range(self.width)]
        if not self.colours:
            return places
        return [place + channel for place in places for channel in _CHANNELS]

    @classmethod
    def of_names(cls, names: Sequence[str] | None) -> "ImageShape | None":
        """Tell the shape of the images that a model was fitted on, by its features' names."""
        last = _PIXEL.fullmatch(names[-1]) if names else None
        if last is None or names is None:
            return None
        shape = cls(int(last[1]) + 1, int(last[2]) + 1, last[3] is not None)
        return shape if shape.names == list(names) else None


def is_image_folder(folder: Path) -> bool:
    """Tell whether a folder has images, or folders of images."""
    return next(_images(folder), None) is not None


def list_images(folder: Path) -> list[Path]:
    """List the images of a folder, in the order of their names."""
    return sorted(_images(folder))


def class_of(folder: Path, image: Path) -> str | None:
    """Tell the class of an image: the name of the folder inside of the outermost one."""
    parts = image.relative_to(folder).parts
    return parts[0] if len(parts) > 1 else None


def labelled_images(folder: Path) -> tuple[list[Path], npt.NDArray[Any]]:
    """List images and their classes."""
    files = list_images(folder)
    classes = [class_of(folder, file) for file in files]
    lost = [file for file, label in zip(files, classes, strict=True) if label is None]
    if lost:
        raise InputError(
            f"{lost[0]} is in no folder of a class: put the images of each class in a folder of "
            "its own."
        )
    return files, np.array(classes, dtype=str)


def shape_for(files: Sequence[Path], size: tuple[int, int] | None) -> ImageShape:
    """Choose the shape of images: as asked for, or as all of them have it."""
    found = set()
    colours = False
    for file in files:
        with _opened(file) as image:
            found.add((image.height, image.width))
            colours = colours or image.mode not in ("L", "1", "I;16")
    if size is None and len(found) > 1:
        sizes = [f"{height}x{width}" for height, width in sorted(found)[:2]]
        raise InputError(
            f"The images differ in size, such as {sizes[0]} and {sizes[1]}: give --size, such as "
            "--size 32x32."
        )
    height, width = size or found.pop()
    shape = ImageShape(height, width, colours)
    if len(shape.names) > _MAX_FEATURES:
        raise InputError(
            f"Images of {shape.height}x{shape.width} have {plural(len(shape.names), 'feature')}: "
            "give a smaller --size, such as --size 32x32."
        )
    return shape


def image_frame(files: Sequence[Path], shape: ImageShape) -> Any:
    """Read images as rows of a dataframe: values from 0 to 1, resized to one shape."""
    import pandas as pd

    return pd.DataFrame(_pixels(files, shape), columns=shape.names, copy=False)


def _pixels(files: Sequence[Path], shape: ImageShape) -> npt.NDArray[np.float32]:
    rows = np.empty((len(files), len(shape.names)), dtype=np.float32)
    for at, file in enumerate(files):
        with _opened(file) as image:
            plain = image.convert("RGB" if shape.colours else "L")
            if plain.size != (shape.width, shape.height):
                plain = plain.resize((shape.width, shape.height))
            rows[at] = np.asarray(plain, dtype=np.float32).ravel() / np.float32(255)
    return rows


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Read the size of images: height and width, or one number for both."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(p.isascii() and p.isdigit() and int(p) for p in parts):
        raise InputError(f"--size {text}: it must be height and width, such as 32x32.")
    return int(parts[0]), int(parts[-1])


def _images(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
        if file.suffix.lower() in _ENDINGS and not hidden and file.is_file():
            yield file


def _opened(file: Path) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(file)
    except (UnidentifiedImageError, OSError) as error:
        raise InputError(f"{file} cannot be read as an image.") from error
