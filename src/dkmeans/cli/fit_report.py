"""What `dkmeans fit` tells in the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from rich.console import Console

from dkmeans.cli.console import file_size, grid, label_text, percent, plural, say, show
from dkmeans.cli.frame_rows import describe_kinds
from dkmeans.cli.inspect_command import show_features
from dkmeans.cli.loaded_model import LoadedModel
from dkmeans.cli.rows import Rows
from dkmeans.tables.kinds import Kind

_CLASSES = 20  # lines of the table at most
_PAIRS = 5
_NARROW = 50  # columns; with fewer, titles are shorter


@dataclass(frozen=True)
class Errors:
    """Where a model is wrong: rows by true and predicted class, weights included."""

    rows: dict[Any, float]  # weight of each true class
    wrong: dict[tuple[Any, Any], float]  # weight of each pair of classes that were confused

    @classmethod
    def of(cls, model: Any, data: Rows) -> Self:
        """Predict and count."""
        rows: dict[Any, float] = {}
        pairs: dict[tuple[Any, Any], float] = {}
        for block in data.blocks():
            weight = np.ones(len(block.y)) if block.weight is None else block.weight
            predicted = model.predict(block.X)
            for at in np.flatnonzero(predicted != block.y):
                pair = _plain(block.y[at]), _plain(predicted[at])
                pairs[pair] = pairs.get(pair, 0.0) + float(weight[at])
            for label, total in _totals(block.y, weight).items():
                rows[label] = rows.get(label, 0.0) + total
        return cls(rows, pairs)

    @property
    def error(self) -> float:
        """Share of all rows that are wrong."""
        whole = sum(self.rows.values())
        return sum(self.wrong.values()) / whole if whole else np.nan

    def of_class(self, label: Any) -> float:
        """Share of a class's rows that are wrong; nan if there are none."""
        whole = self.rows.get(label, 0.0)
        lost = sum(weight for (true, _), weight in self.wrong.items() if true == label)
        return lost / whole if whole else np.nan


def report(
    console: Console,
    model: LoadedModel,
    training: Errors,
    test: Errors | None,
    *,
    seconds: float,
    saved: Path,
    list_features: bool = False,
) -> None:
    """Print the result of a fit."""
    core = model.core
    n_prototypes = len(model.prototype_classes)
    counts = _totals(model.prototype_classes, np.ones(n_prototypes))
    fitted = "; no swap lowers the cost" if model.is_medoids else "; every label is fitted"
    if list_features:
        show_features(console, model)
        console.print()
    elif model.names:
        say(console, f"Features: {describe_kinds(model.kinds or _all_numbers(model.names))}.")
    say(
        console,
        f"{plural(n_prototypes, model.noun)} of {plural(len(counts), 'class')} after "
        f"{plural(core.n_iter_, 'round')}, {seconds:.1f} s"
        f"{fitted if core.converged_ else ''}.",
    )
    judged = [("training", training), *([("test", test)] if test else [])]
    titles = [f"{model.noun}s", *(f"{title}\nerror %" for title, _ in judged)]
    if console.width < _NARROW:
        titles = [
            f"{model.noun[:4]}-\n{model.noun[4:]}s",
            *(f"{title[:5]}\nerr %" for title, _ in judged),
        ]
    table = grid("class", "rows", *titles)
    labels = sorted({*training.rows, *(test.rows if test else ())})
    shown = _worst(labels, judged[-1][1])
    for label in shown:
        table.add_row(
            label_text(label),
            _amount(training.rows.get(label, 0)),
            f"{counts.get(label, 0):,.0f}",
            *(percent(errors.of_class(label)) for _, errors in judged),
        )
    if len(shown) < len(labels):
        table.add_row(f"and {len(labels) - len(shown)} more classes", "", "", *("" for _ in judged))
    table.add_section()
    table.add_row(
        "all",
        _amount(sum(training.rows.values())),
        f"{n_prototypes:,}",
        *(percent(errors.error) for _, errors in judged),
    )
    console.print()
    show(console, table)
    console.print()
    _report_pairs(console, test or training, "test" if test else "training")
    if hasattr(core, "rejection_"):
        most = percent(core.rejection_.rate.max())
        say(console, f"Rejects at most {most} % of rows of known classes; predict marks them.")
    say(console, f"Model saved: {saved} ({file_size(saved.stat().st_size)})")


def _all_numbers(names: Sequence[str]) -> dict[str, Kind]:
    return dict.fromkeys(names, Kind.NUMBER)


def _report_pairs(console: Console, errors: Errors, which: str) -> None:
    pairs = sorted(errors.wrong.items(), key=lambda entry: (-entry[1], entry[0]))[:_PAIRS]
    if not pairs:
        say(console, f"No {which} row is confused.")
        console.print()
        return
    table = grid("most confused", "taken for", f"{which}\nrows", "% of\nclass", left=2)
    for (true, predicted), weight in pairs:
        table.add_row(
            label_text(true),
            label_text(predicted),
            _amount(weight),
            percent(weight / errors.rows[true]),
        )
    show(console, table)
    console.print()


def _worst(labels: list[Any], errors: Errors) -> list[Any]:
    """Take the classes with the most errors if there are too many, in their order."""
    if len(labels) <= _CLASSES:
        return labels
    lost = {label: np.nan_to_num(errors.of_class(label)) for label in labels}
    worst = set(sorted(labels, key=lambda label: -lost[label])[: _CLASSES - 1])
    return [label for label in labels if label in worst]


def _totals(labels: npt.NDArray[Any], weight: npt.NDArray[np.float64]) -> dict[Any, float]:
    values, codes = np.unique(labels, return_inverse=True)
    totals = np.bincount(codes, weight, len(values))
    return dict(zip(map(_plain, values), totals.tolist(), strict=True))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _amount(weight: float) -> str:
    """Write a number of rows in full, and a sum of weights with few digits."""
    if float(weight).is_integer():
        return f"{weight:,.10g}"
    return f"{weight:,.2f}" if weight >= 1 else f"{weight:.3g}"
