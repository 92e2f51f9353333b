"""`dkmeans columns`: what each column of a table is taken for."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dkmeans.cli.array_files import is_array_file
from dkmeans.cli.console import grid, plural, print_json, say, show, stdout
from dkmeans.cli.errors import InputError, listing
from dkmeans.cli.frame_rows import open_columns
from dkmeans.cli.inputs import check_input, holds_images, resolve_input
from dkmeans.cli.labelled_rows import Wanted, checked_names, chosen_columns
from dkmeans.cli.table_input import open_inputs
from dkmeans.data.table_formats import TableFile
from dkmeans.data.tables import Selection
from dkmeans.tables.kinds import Kind
from dkmeans.tables.pipeline import MIN_FREQUENCY
from dkmeans.tables.reading import read_frames
from dkmeans.tables.roles import AmbiguousColumnError, find_left_out
from dkmeans.tables.shapes import hints
from dkmeans.tables.statistics import TableStatistics


def run_columns(path: Path, wanted: Wanted, *, as_json: bool = False) -> None:
    """Tell the kind, the values and the use of every column."""
    path = resolve_input(path)
    check_input(path)
    if is_array_file(path) or holds_images(path):
        raise InputError(f"{path.name} is no table, so it has no columns.")
    files = open_inputs(path, wanted.text)
    label = None
    if wanted.label is None:
        wanted, statistics, kinds, index = _study(files, wanted)
    else:
        wanted, statistics, kinds, index, label = _study_labelled(path, files, wanted)
    found = [_describe(wanted, statistics, name, kind) for name, kind in kinds.items()]
    found += [] if label is None else [label]
    found += [
        {"name": name, "kind": "index", "missing": 0, "values": "", "use": "left out: index"}
        for name in index
    ]
    console = stdout()
    if as_json:
        document = {"rows": statistics.n_rows, "columns": found}
        print_json(console, document)
        return
    say(console, f"{plural(statistics.n_rows, 'row')}, {plural(len(found), 'column')}.")
    console.print()
    table = grid("column", "kind", "values", "use", "missing\n%", left=4)
    for column in found:
        share = 100 * column["missing"] / max(1, statistics.n_rows)
        cells = (column[key] for key in ("name", "kind", "values", "use"))
        table.add_row(*cells, f"{share:.3g}")
    show(console, table)


def _study(
    files: Sequence[TableFile], wanted: Wanted
) -> tuple[Wanted, TableStatistics, dict[str, Kind], list[str]]:
    """Read all columns; none of them is the label."""
    chosen = chosen_columns(Selection(""), files[0], wanted)
    codes = checked_names(files[0], wanted.categories, "--category")
    index = (
        [] if chosen.columns is not None else [n for n in files[0].index if n not in chosen.drop]
    )
    left_out = {*chosen.drop, *index}
    names = chosen.columns or files[0].names
    names = [name for name in names if name not in left_out]
    if not names:
        raise InputError(f"{files[0].path.name} has no column that is not left out.")
    kinds, frames = read_frames(files, names, dict.fromkeys(codes, Kind.CATEGORY))
    statistics = TableStatistics(kinds)
    for frame in frames:
        statistics.add(frame)
    return replace(wanted, columns=chosen.columns, categories=codes), statistics, kinds, index


def _study_labelled(
    path: Path, files: list[TableFile], wanted: Wanted
) -> tuple[Wanted, TableStatistics, dict[str, Kind], list[str], dict[str, Any]]:
    """Read all columns, and describe that of the labels."""
    rows = open_columns(path, files, wanted)
    statistics = TableStatistics(rows.table.kinds)
    labels: set[str] = set()
    unlabelled = 0
    assert wanted.label is not None
    for part in rows.table.parts():
        statistics.add(part.X)
        lost = part.missing_labels()
        unlabelled += int(lost.sum())
        labels.update(map(str, part.take(~lost).labels(wanted.label).tolist()))
    about: dict[str, Any] = {"name": wanted.label, "kind": "label", "missing": unlabelled}
    about |= {"values": f"{len(labels)}: {listing(sorted(labels), 5)}", "use": "label"}
    kinds = {name: rows.table.kinds[name] for name in rows.table.names}
    return rows.wanted, statistics, kinds, rows.table.index, about


def _describe(wanted: Wanted, statistics: TableStatistics, name: str, kind: Kind) -> dict[str, Any]:
    if name in statistics.levels:
        level = statistics.levels[name]
        missing = level.n_missing
        most = [str(value) for value, _ in level.counts.most_common(3)]
        values = "many" if level.has_too_many else f"{len(level.counts)}: {listing(most, 3)}"
    elif name in statistics.numbers:
        column = statistics.numbers[name]
        missing = column.n_missing
        values = "none" if column.low > column.high else _range(column, kind)
    else:
        missing, values = 0, ""
    return {
        "name": name,
        "kind": str(kind),
        "missing": missing,
        "values": values,
        "use": _use(wanted, statistics, name, kind),
    }


def _range(column: Any, kind: Kind) -> str:
    if kind is Kind.DATE:
        import numpy as np

        low, high = (np.datetime64(int(day // 1), "D") for day in (column.low, column.high))
        return f"{low} to {high}"
    return f"{column.low:.6g} to {column.high:.6g}"


def _use(wanted: Wanted, statistics: TableStatistics, name: str, kind: Kind) -> str:
    sure = wanted.categories
    feature = "feature"
    if kind is not Kind.UNKNOWN:
        feature = "; ".join(["feature", *hints({name: kind}, statistics, sure).values()])
    if wanted.columns is not None:
        return feature
    try:
        reasons = find_left_out({name: kind}, statistics, MIN_FREQUENCY, sure)
    except AmbiguousColumnError as error:
        return f"refused: {error.short}"
    return f"left out: {reasons[name]}" if name in reasons else feature
