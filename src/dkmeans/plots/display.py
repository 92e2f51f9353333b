"""What all displays share: a figure of their own, or a place in somebody else's."""

from io import BytesIO
from typing import Any, Self


class Display:
    """A picture that is drawn by `plot`, or when its figure is first asked for.

    Figures are not registered with pyplot, so they need not be closed. As the last value of a
    notebook's cell a display shows itself; elsewhere use `figure_.savefig`, or pass axes of your
    own to `plot`.

    Attributes
    ----------
    figure_ : matplotlib figure
        Where it is drawn.
    ax_ : matplotlib axes
        The axes. Displays of many panels have `axes_` as well, an array; their `ax_` is the axes
        whose place the panels took, or None.
    """

    _figure: Any = None
    _ax: Any = None
    _axes: Any = None
    _is_ours = False

    def plot(self, ax: Any = None) -> Self:
        """Draw the picture."""
        raise NotImplementedError

    @property
    def figure_(self) -> Any:
        """Figure, drawn now if it has not been yet."""
        return self._drawn()._figure

    @property
    def ax_(self) -> Any:
        """Axes, drawn now if they have not been yet."""
        return self._drawn()._ax

    def _drawn(self) -> Self:
        return self if self._figure is not None else self.plot()

    def _begin(self, ax: Any, size: tuple[float, float]) -> Any:
        """Take the axes given, or make a figure of a size in inches."""
        self._is_ours = ax is None
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=size, layout="constrained").subplots()
        self._figure, self._ax = ax.figure, ax
        return ax

    def _repr_png_(self) -> bytes | None:
        """Show our own figures in notebooks; others are shown by those who made them."""
        self._drawn()
        if not self._is_ours:
            return None
        buffer = BytesIO()
        self._figure.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def inches(ax: Any) -> tuple[float, float]:
    """Width and height that axes have before the layout is made."""
    place, figure = ax.get_position(), ax.figure  # which may be a part of a figure
    wide, tall = figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi
    return float(place.width * wide), float(place.height * tall)


class PanelsDisplay(Display):
    """A display of many panels."""

    @property
    def axes_(self) -> Any:
        """Array of axes, one per panel, drawn now if they have not been yet."""
        return self._drawn()._axes

    def _begin_panels(
        self, ax: Any, lines: int, columns: int, size: tuple[float, float], **sharing: Any
    ) -> Any:
        """Divide the place of the axes given, or a new figure, into panels."""
        self._is_ours = ax is None
        if ax is None:
            from matplotlib.figure import Figure

            self._figure, self._ax = Figure(figsize=size, layout="constrained"), None
            grid = self._figure.add_gridspec(lines, columns)
        else:
            self._figure, self._ax = ax.figure, ax
            place = ax.get_subplotspec()
            if place is None:
                raise ValueError(
                    "ax is not part of a grid, so it cannot be divided into panels: pass axes "
                    "made by Figure.subplots, or none."
                )
            ax.set_axis_off()
            grid = place.subgridspec(lines, columns)
        self._axes = grid.subplots(squeeze=False, **sharing)
        return self._axes
