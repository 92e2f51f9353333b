"""`dkmeans suspects`: rows whose label may be wrong."""

from pathlib import Path

import pyarrow as pa

from dkmeans.cli.console import grid, label_text, plural, say, show, stdout
from dkmeans.cli.fit_command import FitOptions
from dkmeans.cli.fitted_rows import model_and_rows
from dkmeans.cli.labelled_rows import Wanted
from dkmeans.cli.output_files import STDOUT, check_free, output_format, table_writer

_SHOWN = 20


def run_suspects(
    source: Path,
    data: Path | None,
    wanted: Wanted,
    options: FitOptions,
    *,
    n: int | None,
    out: Path | None,
    force: bool = False,
) -> None:
    """List rows whose label may be wrong, the most suspicious first."""
    if out is not None:
        output_format(out)
        check_free(out, force=force)
    model, rows = model_and_rows(source, data, wanted, options)
    found = model.core.suspects(model.scaled(rows.X), rows.y, sample_weight=rows.weight, n=n)
    places = rows.in_table(found.row) + 1
    console = stdout()
    count = f"{len(found):,} of {plural(len(rows.y), 'label')} may be wrong"
    if out is not None:
        names = ("row", "label", "suggested", "score", "reason")
        values = [places, *(getattr(found, name) for name in names[1:])]
        arrays = [pa.array(v.tolist() if v.dtype.kind in "UO" else v) for v in values]
        with table_writer(out) as writer:
            writer.write(pa.RecordBatch.from_arrays(arrays, names=list(names)))
        if out != STDOUT and not options.quiet:
            say(console, f"{count}: see {out}.")
        return
    say(console, f"{count}{', the most suspicious first' if len(found) else ''}.")
    if not len(found):
        return
    console.print()
    table = grid("row", "label", "suggested", "reason", "score", left=4)
    for at in range(min(_SHOWN, len(found))):
        row = found[at]
        table.add_row(
            f"{places[at]:,}",
            label_text(row["label"]),
            label_text(row["suggested"]),
            str(row["reason"]),
            f"{row['score']:.3f}",
        )
    show(console, table)
    if len(found) > _SHOWN:
        console.print()
        say(console, f"and {len(found) - _SHOWN:,} more; --out FILE lists all.")
