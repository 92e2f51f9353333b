"""Base classes of displays: draw into a new figure or into given axes."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Self

# Here, and not for the whole package: the explorer uses its planes without matplotlib.
if find_spec("matplotlib") is None:
    needs = "Plots need matplotlib: pip install 'dkmeans[plots]'."
    raise ModuleNotFoundError(needs, name="matplotlib")

_off_screen: ContextVar[bool] = ContextVar("_off_screen", default=False)


class Display:
    """A plot, as in scikit-learn: `from_estimator` draws it, `plot` draws it again.

    A new figure belongs to pyplot, so that `plt.gcf()`, `plt.savefig` and `plt.show` work.

    Attributes
    ----------
    figure_ : matplotlib figure
        Where it is drawn.
    ax_ : matplotlib axes
        The axes. Displays with many panels also have `axes_`, an array; their `ax_` is the axes
        that the panels replaced, or None.
    """

    figure_: Any
    ax_: Any
    _owns_figure = False

    def plot(self, ax: Any = None) -> Self:
        """Draw the plot."""
        raise NotImplementedError

    def _summary(self) -> str:
        """Describe the contents in a few words."""
        return ""

    def __repr__(self) -> str:
        """Return one short line: the data themselves may be large."""
        return f"{type(self).__name__}({self._summary()})"

    def _begin(self, ax: Any, size: tuple[float, float]) -> Any:
        """Use the given axes, or create a figure of a size in inches."""
        self._owns_figure = ax is None
        if ax is None:
            ax = new_figure(size).subplots()
        self.figure_, self.ax_ = ax.figure, ax
        return ax


def new_figure(size: tuple[float, float]) -> Any:
    """Create a figure of a size in inches, which belongs to pyplot unless within `off_screen`."""
    style: dict[str, Any] = {"figsize": size, "layout": "constrained"}
    if _off_screen.get():
        from matplotlib.figure import Figure

        return Figure(**style)
    from matplotlib import pyplot as plt

    return plt.figure(**style)


@contextmanager
def off_screen() -> Iterator[None]:
    """Create figures for files: without a window, and without the need to close them."""
    token = _off_screen.set(True)
    try:
        yield
    finally:
        _off_screen.reset(token)


def inches(ax: Any) -> tuple[float, float]:
    """Return width and height of axes before the layout is computed."""
    place, figure = ax.get_position(), ax.figure  # may be a SubFigure
    wide, tall = figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi
    return float(place.width * wide), float(place.height * tall)


class PanelsDisplay(Display):
    """A display with many panels.

    Attributes
    ----------
    axes_ : ndarray of matplotlib axes
        One per panel.
    """

    axes_: Any

    def _begin_panels(
        self, ax: Any, lines: int, columns: int, size: tuple[float, float], **sharing: Any
    ) -> Any:
        """Divide the given axes, or a new figure, into panels."""
        self._owns_figure = ax is None
        if ax is None:
            self.figure_, self.ax_ = new_figure(size), None
            grid = self.figure_.add_gridspec(lines, columns)
        else:
            self.figure_, self.ax_ = ax.figure, ax
            place = ax.get_subplotspec()
            if place is None:
                raise ValueError(
                    "ax is not part of a grid, so it cannot be divided into panels: pass axes "
                    "made by Figure.subplots, or none."
                )
            ax.set_axis_off()
            grid = place.subgridspec(lines, columns)
        self.axes_ = grid.subplots(squeeze=False, **sharing)
        return self.axes_
