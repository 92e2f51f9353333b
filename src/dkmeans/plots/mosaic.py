"""Images with captions in a grid on one axes: much faster than one axes per image."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.plots.display import inches
from dkmeans.plots.style import MIN_FONT_PT, SMALL_PT

CHARACTER_EM, LINE_EM = 0.56, 1.25  # width of a character and height of a line, in font sizes
GAP_IN = 0.09  # between columns


@dataclass(frozen=True)
class Mosaic:
    """A grid of images of the same shape, each with a caption above it.

    Coordinates are inches at full size; on smaller axes everything shrinks, the text too.

    Parameters
    ----------
    columns, lines : int
        Size of the grid.
    image_width : float
        In inches.
    aspect : float
        Height of an image divided by its width.
    n_characters, n_caption_lines : int
        Size of the longest caption.
    """

    columns: int
    lines: int
    image_width: float
    aspect: float
    n_characters: int
    n_caption_lines: int

    @property
    def cell_width(self) -> float:
        """Width of a column: that of an image or of its caption."""
        caption = CHARACTER_EM * SMALL_PT / 72 * self.n_characters
        return max(self.image_width, caption) + GAP_IN

    @property
    def caption_height(self) -> float:
        """Height of a caption, and of the gap to the image above it."""
        return (LINE_EM * self.n_caption_lines + 0.7) * SMALL_PT / 72

    @property
    def cell_height(self) -> float:
        """Height of a line."""
        return self.image_width * self.aspect + self.caption_height

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return self.columns * self.cell_width, self.lines * self.cell_height

    def place(self, line: int, column: int, left: float = 0.0) -> tuple[float, float]:
        """Return the middle of the top of an image; y grows downwards."""
        x = left + (column + 0.5) * self.cell_width
        return x, line * self.cell_height + self.caption_height

    def draw(
        self, ax: Any, where: tuple[float, float], image: npt.NDArray[Any], **style: Any
    ) -> None:
        """Draw an image below a place."""
        x, y = where
        half, tall = self.image_width / 2, self.image_width * self.aspect
        extent = (x - half, x + half, y + tall, y)
        ax.imshow(image, extent=extent, interpolation="nearest", aspect="equal", **style)
        frame = {"color": "0.75", "lw": 0.5, "zorder": 3}
        ax.plot(
            [x - half, x + half, x + half, x - half, x - half],
            [y, y, y + tall, y + tall, y],
            **frame,
        )

    def write(self, ax: Any, where: tuple[float, float], caption: str, font: float) -> None:
        """Write a caption above a place."""
        if font >= MIN_FONT_PT:
            x, y = where
            ax.text(x, y - 0.02, caption, fontsize=font, ha="center", va="bottom", linespacing=1.1)


def font_size(ax: Any, size: tuple[float, float]) -> float:
    """Return the font size of captions, if contents of a size in inches are fitted into axes."""
    wide, tall = inches(ax)
    return SMALL_PT * min(1.0, wide / 0.775 / size[0], tall / 0.77 / size[1])


def set_limits(ax: Any, size: tuple[float, float]) -> None:
    """Show contents of a size in inches, and nothing else of the axes."""
    edge = 0.02  # for the frame of the images there
    ax.set(xlim=(-edge, size[0] + edge), ylim=(size[1] + edge, -edge), aspect="equal")
    ax.set_axis_off()


def aspect_of(images: npt.NDArray[Any]) -> float:
    """Return the height of images divided by their width."""
    return float(np.divide(*images.shape[1:3]))


def longest_line(captions: list[str]) -> int:
    """Return the number of characters of the longest line."""
    return max((len(line) for text in captions for line in text.split("\n")), default=0)
