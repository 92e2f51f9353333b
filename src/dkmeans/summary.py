"""What a notebook shows of a fitted model, below scikit-learn's own diagram."""

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.utils import estimator_html_repr

from dkmeans.text import visible

_MOST = 20  # classes in the table
_LONGEST = 60  # letters of a class label
_WIDTH = 160  # pixels of a bar


class HTMLSummaryMixin:
    """Add a summary to the HTML that notebooks show of an estimator."""

    @property
    def _repr_html_(self) -> Callable[[], str]:
        if get_config()["display"] != "diagram":
            raise AttributeError("there is no HTML with sklearn.set_config(display='text')")
        return self._to_html

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._to_html()
        return bundle

    def _to_html(self) -> str:
        return str(estimator_html_repr(self)) + to_html(self)


def to_html(model: Any) -> str:
    """Summarise a model: its clusters, how it ended, and a table of its classes.

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
    if not hasattr(model, "cluster_centers_"):
        return ""
    facts = [
        f"<b>{_count(model.n_clusters_, 'cluster')}</b> of {_count(len(model.classes_), 'class')}",
        _count(model.n_features_in_, "feature"),
        _count(model.n_iter_, "round"),
        escape(ending(model)),
    ]
    if hasattr(model, "inertia_"):
        facts.append(f"inertia {model.inertia_:.4g}")
    if getattr(model, "conflicts_", None):
        facts.append(f"{_count(len(model.conflicts_), 'group')} of equal rows in conflict")
    return (
        '<div class="dkmeans-summary" style="margin-top: 0.5em">'
        f"<div>{'; '.join(facts)}</div>{_table(model)}</div>"
    )


def ending(model: Any) -> str:
    """Say in a few words why a fit ended.

    Parameters
    ----------
    model : DiscriminativeKMeans
        Fitted.

    Returns
    -------
    text : str
        A phrase.
    """
    budget = model.max_clusters
    if model.converged_:
        return "converged"
    if not hasattr(model, "labels_"):
        return "edited by hand, or taken from the way of a fit"
    if budget == "auto":
        return 'stopped at the number chosen by max_clusters="auto"'
    if budget is not None and model.n_clusters_ >= budget:
        return f"stopped at max_clusters={budget}"
    if model.n_iter_ >= model.max_iter:
        return f"stopped at max_iter={model.max_iter}, not converged"
    return "not converged"


def _table(model: Any) -> str:
    labels = model.classes_
    sizes = [model.cluster_sizes_[model.cluster_classes_ == label] for label in labels]
    totals = np.array([mine.sum() for mine in sizes])
    shown = np.sort(np.argsort(-totals, kind="stable")[:_MOST])
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
    """Draw the sizes of a class's clusters side by side, the largest first."""
    if not len(sizes) or heaviest <= 0:
        return ""
    widths = np.sort(sizes)[::-1] * (_WIDTH / heaviest)
    starts = np.cumsum(widths) - widths
    pieces = "".join(
        f'<rect x="{x:.1f}" y="1" width="{max(w - 1, 0.4):.1f}" height="10"/>'
        for x, w in zip(starts, widths, strict=True)
        if w >= 0.5
    )
    told = f"largest {sizes.max():.6g}, smallest {sizes.min():.6g}"
    return (
        f'<svg width="{_WIDTH}" height="12" fill="#0072B2" role="img" aria-label="{told}">'
        f"<title>{told}</title>{pieces}</svg>"
    )


def _label(label: Any) -> str:
    text = visible(str(label))
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('s') else 's'}"
