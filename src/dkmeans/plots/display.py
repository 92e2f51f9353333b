"""Base classes of displays: draw into a new figure or into given axes."""

from io import BytesIO
from typing import Any, Self


class Display:
    """A plot, drawn by `plot` or on first access to its figure.

    Figures are not registered with pyplot, so they need not be closed. A notebook shows a display
    that is the last value of a cell; elsewhere use `figure_.savefig`, or pass axes to `plot`.

    Attributes
    ----------
    figure_ : matplotlib figure
        Where it is drawn.
    ax_ : matplotlib axes
        The axes. Displays with many panels also have `axes_`, an array; their `ax_` is the axes
        that the panels replaced, or None.
    """

    _figure: Any = None
    _ax: Any = None
    _axes: Any = None
    _owns_figure = False

    def plot(self, ax: Any = None) -> Self:
        """Draw the plot."""
        raise NotImplementedError

    @property
    def figure_(self) -> Any:
        """Figure; drawn on first access."""
        return self._drawn()._figure

    @property
    def ax_(self) -> Any:
        """Axes; drawn on first access."""
        return self._drawn()._ax

    def _drawn(self) -> Self:
        return self if self._figure is not None else self.plot()

    def _begin(self, ax: Any, size: tuple[float, float]) -> Any:
        """Use the given axes, or create a figure of a size in inches."""
        self._owns_figure = ax is None
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=size, layout="constrained").subplots()
        self._figure, self._ax = ax.figure, ax
        return ax

    def _repr_png_(self) -> bytes | None:
        """Show the figure in notebooks, unless the user created it."""
        self._drawn()
        if not self._owns_figure:
            return None
        buffer = BytesIO()
        self._figure.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def inches(ax: Any) -> tuple[float, float]:
    """Return width and height of axes before the layout is computed."""
    place, figure = ax.get_position(), ax.figure  # may be a SubFigure
    wide, tall = figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi
    return float(place.width * wide), float(place.height * tall)


class PanelsDisplay(Display):
    """A display with many panels."""

    @property
    def axes_(self) -> Any:
        """Array of axes, one per panel; drawn on first access."""
        return self._drawn()._axes

    def _begin_panels(
        self, ax: Any, lines: int, columns: int, size: tuple[float, float], **sharing: Any
    ) -> Any:
        """Divide the given axes, or a new figure, into panels."""
        self._owns_figure = ax is None
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
