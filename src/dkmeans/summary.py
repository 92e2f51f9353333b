"""HTML summary of a fitted model, for notebooks; it follows scikit-learn's diagram."""

from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.fitted import Fitted
from dkmeans.geometry import Learned, name_of
from dkmeans.text import visible

_MAX_CLASSES = 20  # in the table
_MAX_LABEL = 60  # characters of a class label
_BAR_WIDTH = 160  # pixels


def to_html(model: Any) -> str:
    """Summarise a model: its clusters, why the fit ended, and a table of its classes.

    Parameters
    ----------
    model : DiscriminativeKMeans
        For a pipeline, pass its last step.

    Returns
    -------
    html : str
        Text without scripts or style sheets; empty if the model is not fitted.

    Examples
    --------
    >>> from dkmeans import DiscriminativeKMeans
    >>> model = DiscriminativeKMeans().fit([[0.0], [1.0], [5.0]], ["a", "a", "b"])
    >>> to_html(DiscriminativeKMeans())
    ''
    >>> "<b>2 clusters</b> of 2 classes" in to_html(model)
    True
    """
    fitted: Fitted | None = getattr(model, "_fitted", None)
    if fitted is None:
        return ""
    facts = [
        f"<b>{_count(fitted.n_clusters, 'cluster')}</b> of {_count(len(fitted.classes), 'class')}",
        _count(fitted.n_features, "feature"),
        _count(fitted.n_iter, "round"),
        escape(ending(model)),
    ]
    rank = ""
    if isinstance(fitted.geometry, Learned):
        rank = f" of {_count(len(fitted.geometry.components.T), 'component')}"
    facts.append(f"{name_of(fitted.geometry)} metric{rank}")
    if fitted.inertia is not None:
        facts.append(f"inertia {fitted.inertia:.4g}")
    if fitted.conflicts:
        facts.append(f"{_count(len(fitted.conflicts), 'group')} of equal rows in conflict")
    seconds = getattr(fitted.history, "seconds", ())  # files of other versions may have none
    if len(seconds):
        facts.append(f"fitted in {float(np.sum(seconds)):.1f} s")
    return (
        '<div class="dkmeans-summary" style="margin-top: 0.5em">'
        f"<div>{'; '.join(facts)}</div>{_table(fitted)}</div>"
    )


def ending(model: Any) -> str:
    """Describe in a few words why a fit ended.

    Parameters
    ----------
    model : DiscriminativeKMeans
        Fitted.

    Returns
    -------
    text : str
        A phrase.
    """
    fitted: Fitted = model._fitted
    budget = model.max_clusters
    if fitted.converged:
        return "converged"
    if fitted.labels is None:
        return "edited by hand, or taken from the way of a fit"
    if budget == "auto":
        return 'stopped at the number chosen by max_clusters="auto"'
    if budget is not None and fitted.n_clusters >= budget:
        return f"stopped at max_clusters={budget}"
    if fitted.n_iter >= model.max_iter:
        return f"stopped at max_iter={model.max_iter}, not converged"
    return "not converged"


def _table(fitted: Fitted) -> str:
    labels = fitted.classes
    sizes = [fitted.sizes[fitted.prototypes.classes == c] for c in range(len(labels))]
    totals = np.array([mine.sum() for mine in sizes])
    shown = np.sort(np.argsort(-totals, kind="stable")[:_MAX_CLASSES])
    head = _cell("class", "left", "th") + _cell("clusters", "right", "th")
    head += _cell("weight of rows", "right", "th") + _cell("sizes of clusters", "left", "th")
    lines = [f"<tr>{head}</tr>"]
    for c in shown:
        cells = _cell(_label(labels[c]), "left")
        cells += _cell(f"{len(sizes[c])}", "right") + _cell(f"{totals[c]:.6g}", "right")
        bar = _bar(sizes[c], float(totals.max()))
        lines.append(f"<tr>{cells}{_cell(bar, 'left')}</tr>")
    left_out = len(labels) - len(shown)
    more = f"<div>and {_count(left_out, 'more class')}</div>" if left_out else ""
    return f"<table>{''.join(lines)}</table>{more}"


def _cell(text: str, side: str, kind: str = "td") -> str:
    return f'<{kind} style="text-align: {side}; padding-right: 0.8em">{text}</{kind}>'


def _bar(sizes: npt.NDArray[np.floating], heaviest: float) -> str:
    """Draw a bar of the cluster sizes of a class, the largest first."""
    if not len(sizes) or heaviest <= 0:
        return ""
    widths = np.sort(sizes)[::-1] * (_BAR_WIDTH / heaviest)
    starts = np.cumsum(widths) - widths
    pieces = "".join(
        f'<rect x="{x:.1f}" y="1" width="{max(w - 1, 0.4):.1f}" height="10"/>'
        for x, w in zip(starts, widths, strict=True)
        if w >= 0.5
    )
    told = f"largest {sizes.max():.6g}, smallest {sizes.min():.6g}"
    return (
        f'<svg width="{_BAR_WIDTH}" height="12" fill="#0072B2" role="img" aria-label="{told}">'
        f"<title>{told}</title>{pieces}</svg>"
    )


def _label(label: Any) -> str:
    text = visible(str(label))
    return escape(text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…")


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('s') else 's'}"
