"""Labelled rows of tables with columns of all kinds, in memory or block by block."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dkmeans.cli.console import file_size, plural
from dkmeans.cli.errors import InputError, listing
from dkmeans.cli.labelled_rows import (
    MEMORY_SHARE,
    NO_ROW_LEFT,
    Labelled,
    Template,
    Wanted,
    check_label_kind,
    checked_names,
    chosen_columns,
    describe_missing,
    labels_and_weights,
    remedy,
    unlabelled,
)
from dkmeans.cli.table_input import check_model_columns, describe_index, in_options
from dkmeans.data.system_memory import total_memory
from dkmeans.data.table_formats import TableFile
from dkmeans.data.tables import LabelKind, TablePart
from dkmeans.tables.kinds import Kind
from dkmeans.tables.pipeline import MIN_FREQUENCY, build_pipeline, fit_preprocessing
from dkmeans.tables.reading import MixedTable
from dkmeans.tables.roles import describe_left_out, find_left_out
from dkmeans.tables.shapes import hints
from dkmeans.tables.statistics import TableStatistics

_SHOWN = 8  # columns of a kind that are named in a line


@dataclass
class FrameRows:
    """Labelled rows as dataframes.

    Parameters
    ----------
    path : Path
    table : MixedTable
    wanted : Wanted
    notes : list of str
        What was left out.
    """

    path: Path
    table: MixedTable
    wanted: Wanted
    notes: list[str] = field(default_factory=list)
    memory_mb: float | None = None  # of tables that are read in blocks
    is_given: bool = False  # whether the features are those of a model
    kinds: dict[str, Kind] = field(default_factory=dict)  # of the features
    statistics: TableStatistics | None = None
    _kept: list[Labelled] | None = None
    _no_features: dict[str, str] = field(default_factory=dict)  # of them, holes do not count

    @property
    def has_text_labels(self) -> bool:
        """Whether labels are text."""
        return self.table.has_text_labels

    def blocks(self) -> Iterable[Labelled]:
        """Give the rows in blocks."""
        return self._read() if self._kept is None else self._kept

    def whole(self) -> Labelled:
        """Give all rows at once."""
        import pandas as pd

        blocks = list(self.blocks())
        weights = [block.weight for block in blocks if block.weight is not None]
        places = [block.places for block in blocks if block.places is not None]
        return Labelled(
            pd.concat([block.X for block in blocks], ignore_index=True),
            np.concatenate([block.y for block in blocks]),
            np.concatenate(weights) if weights else None,
            self.notes,
            np.concatenate(places),
        )

    def keep(self) -> None:
        """Read all rows into memory, and count what is missing in all of them."""
        parts = list(self.table.parts())
        self._find_features(parts)
        lost = [self._lost(part) for part in parts]
        counts = {name: sum(count[name] for count, _ in lost) for name in lost[0][0]}
        any_row = np.concatenate([mask for _, mask in lost])
        if any_row.any():
            what = describe_missing(counts, any_row)
            if self.wanted.needs_labels:
                raise InputError(f"{self.path.name}: {what}. {remedy(features=False)}")
            if any_row.all():
                raise InputError(f"{self.path.name}: {what}. {NO_ROW_LEFT}")
            self.notes.append(f"Left out: {what}.")
        self._kept, first = [], 0
        for part, (_, mask) in zip(parts, lost, strict=True):
            if not mask.all():
                self._kept.append(self._labelled(part, mask, first))
            first += len(mask)

    def prepare(self) -> None:
        """Prepare to read the rows in blocks."""
        self._find_features(self.table.parts())

    def _find_features(self, parts: Iterable[TablePart]) -> None:
        """Find the columns whose holes count: those that are features, by all rows with labels."""
        if not self.wanted.skip_missing or self.wanted.columns is not None or self.is_given:
            return
        statistics = TableStatistics(self.table.kinds)
        for part in parts:
            missing = np.logical_or.reduce(list(unlabelled(part, self.wanted).values()))
            statistics.add(part.take(~missing).X)
        self._no_features = self._reasons(self.table.kinds, statistics)

    def _read(self) -> Iterator[Labelled]:
        first = 0
        for part in self.table.parts():
            counts, lost = self._lost(part)
            if lost.any() and self.wanted.needs_labels:
                rows = part.first_row + 1, part.first_row + len(lost)
                raise InputError(
                    f"{self.path.name}, rows {rows[0]:,} to {rows[1]:,}: "
                    f"{describe_missing(counts, lost)}. {remedy(features=False)}"
                )
            if not lost.all():
                yield self._labelled(part, lost, first)
            first += len(lost)

    def _labelled(self, part: TablePart, lost: npt.NDArray[np.bool_], first: int) -> Labelled:
        """Make rows of a part, whose first one is at that place in the table."""
        assert self.wanted.label is not None
        part = part.take(~lost) if lost.any() else part
        weight = None if part.weight is None else part.weight.astype(np.float64)
        frame: Any = part.X
        places = first + np.flatnonzero(~lost)
        y = part.labels(self.wanted.label)
        return Labelled(frame.reset_index(drop=True), y, weight, places=places)

    def _lost(self, part: TablePart) -> tuple[dict[str, int], npt.NDArray[np.bool_]]:
        """Find rows without label or weight, and on request those that lack a feature."""
        masks = unlabelled(part, self.wanted)
        if self.wanted.skip_missing:
            frame: Any = part.X
            names = [name for name in frame.columns if name not in self._no_features]
            masks |= {name: frame[name].isna().to_numpy() for name in names}
        counts = {name: int(mask.sum()) for name, mask in masks.items()}
        return counts, np.logical_or.reduce(list(masks.values()))

    def study(self) -> None:
        """Compute the statistics of all columns, and choose the features."""
        statistics = TableStatistics(self.table.kinds)
        for block in self.blocks():
            statistics.add(block.X)
        self.statistics = statistics
        self.kinds = dict(self.table.kinds)
        n_lost = self.table.count_rows() - statistics.n_rows
        if n_lost and self._kept is None:
            total = plural(self.table.count_rows(), "row")
            self.notes.append(f"Left out: {n_lost:,} of {total} with missing values.")
        if self.wanted.columns is None:
            left = {n: k for n, k in self.kinds.items() if n not in self._no_features}
            reasons = self._no_features | self._reasons(left, statistics)
            if reasons:
                self.notes.append(f"Left out: {describe_left_out(reasons)}.")
            self.kinds = {n: k for n, k in self.kinds.items() if n not in reasons}
        found = hints(self.kinds, statistics, self.wanted.categories)
        self.notes += [f"Column {name} has {hint}." for name, hint in found.items()]
        if not self.kinds:
            raise InputError(f"{self.path.name} has no column that can be a feature.")

    def _reasons(self, kinds: Mapping[str, Kind], statistics: TableStatistics) -> dict[str, str]:
        """Say why columns are no features."""
        with in_options():
            reasons = find_left_out(kinds, statistics, MIN_FREQUENCY, self.wanted.categories)
        if self.wanted.numeric_only:
            others = (Kind.CATEGORY, Kind.DATE)
            reasons |= {n: "not numbers" for n, k in kinds.items() if k in others}
        return reasons

    def pipeline(self, estimator: Any) -> Any:
        """Make a pipeline that ends in an estimator; all but the estimator is fitted."""
        if self.statistics is None:
            self.study()
        assert self.statistics is not None
        impute: Any = self.wanted.impute
        pipeline = build_pipeline(self.kinds, estimator, impute=impute)
        fit_preprocessing(pipeline, self.statistics)
        return pipeline

    def describe_features(self) -> str:
        """Say in a line what the features are."""
        return describe_kinds(self.kinds)


def open_frames(
    path: Path, files: list[TableFile], wanted: Wanted, like: Template | None
) -> FrameRows:
    """Prepare to read a table; one that is small enough is read into memory."""
    notes: list[str] = []
    table, wanted = _select(path, files, wanted, like, notes)
    kinds, is_given = dict(table.kinds), like is not None
    rows = FrameRows(path, table, wanted, notes, kinds=kinds, is_given=is_given)
    n_bytes = table.count_rows() * len(table.names) * 8
    room = total_memory() // MEMORY_SHARE
    if n_bytes <= room:
        rows.keep()
    else:
        rows.memory_mb = room / 2**20
        rows.table, rows.wanted = _select(path, files, wanted, like, [], rows.memory_mb)
        notes.append(
            f"{path.name} takes {file_size(n_bytes)}, more than {file_size(room)}, which is 1/"
            f"{MEMORY_SHARE} of the memory: it is read in blocks, again in every pass."
        )
        rows.prepare()
    if like is not None and rows.has_text_labels != like.has_text_labels:
        check_label_kind(path, next(iter(rows.blocks())).y, like)
    return rows


def open_columns(path: Path, files: list[TableFile], wanted: Wanted) -> FrameRows:
    """Prepare to look at the columns of a table, whose labels may be missing."""
    memory_mb = total_memory() / MEMORY_SHARE / 2**20
    table, wanted = _select(path, files, wanted, None, [], memory_mb)
    return FrameRows(path, table, wanted)


def describe_kinds(kinds: Mapping[str, Kind]) -> str:
    """Count and name columns by kind."""
    nouns = {
        Kind.NUMBER: "number",
        Kind.BOOLEAN: "Boolean",
        Kind.DATE: "date",
        Kind.CATEGORY: "category",
    }
    parts = []
    for kind, noun in nouns.items():
        names = [name for name, found in kinds.items() if found is kind]
        if names:
            count = plural(len(names), noun).replace("categorys", "categories")
            parts.append(f"{count} ({listing(names, _SHOWN)})")
    return ", ".join(parts)


def _select(
    path: Path,
    files: Sequence[TableFile],
    wanted: Wanted,
    like: Template | None,
    notes: list[str],
    memory_mb: float | None = None,
) -> tuple[MixedTable, Wanted]:
    """Choose columns as the options say, or as a model needs them."""
    file = files[0]
    selection = labels_and_weights(file, wanted, path)
    if like is None:
        selection = chosen_columns(selection, file, wanted)
        codes = checked_names(file, wanted.categories, "--category")
        kinds = dict.fromkeys(codes, Kind.CATEGORY)
        wanted = replace(wanted, drop=selection.drop, columns=selection.columns, categories=codes)
    else:
        assert like.names is not None
        kind = LabelKind.TEXT if like.has_text_labels else LabelKind.AS_STORED
        selection = replace(
            selection, columns=check_model_columns(file, like.names), label_kind=kind
        )
        kinds = dict(like.kinds or {})
    with in_options():
        table = MixedTable(files, selection, memory_mb, kinds)
    if table.index:
        notes.append(describe_index(table.index))
    return table, wanted
