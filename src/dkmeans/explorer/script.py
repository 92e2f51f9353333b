"""A Python script that does the edits of a session again, with the same result bit for bit."""

import textwrap
from dataclasses import fields
from typing import Any

from dkmeans.explorer.session import Session
from dkmeans.explorer.tables import SHARE, Origin, Source

_WIDTH = 100

_HEAD = '''"""Do edits of the dkmeans explorer again: the result is the same, bit for bit."""

from pathlib import Path  # noqa: F401

from sklearn.pipeline import make_pipeline  # noqa: F401
from sklearn.preprocessing import StandardScaler  # noqa: F401

import dkmeans
from dkmeans import DiscriminativeKMeans, table_pipeline  # noqa: F401
from dkmeans.explorer.layers import Rows
from dkmeans.explorer.session import Session
from dkmeans.explorer.tables import Source, held_out_rows, read_table  # noqa: F401

EDITS = [
'''

_EDITED = '''

def edited(model, training, held_out=None):
    """Return a session with all edits made: `.model` and `.draft` have the result.

    `training` are `Rows(X, y)` that the model was fitted on, `held_out` rows that it was not.
    """
    session = Session(model, training, held_out)
    for edit in EDITS:
        session.edit(edit)
    return session
'''


def write_script(session: Session) -> str:
    """Write the script."""
    parts = [_HEAD]
    for number, change in enumerate(session.done, 1):
        parts.append(f"    # {number}. {_one_line(change.text)}\n")
        parts.append(textwrap.indent(_literal(change.edit), "    ") + ",\n")
    parts += ["]\n", _EDITED, _main(session.origin)]
    return "".join(parts)


def _main(origin: Origin) -> str:
    """Write how to get the model and the rows, if they come from files."""
    if origin.source is None:
        return ""
    lines = ["", "", 'if __name__ == "__main__":']
    lines.append(f"    rows = read_table({_source(origin.source)})")
    held_out = "None"
    if origin.share is not None:
        share = "" if origin.share == SHARE else f", {origin.share!r}"
        lines.append(f"    away = held_out_rows(rows.X, rows.y{share})")
        lines.append("    rows, held_out = rows.take(~away), rows.take(away)")
        held_out = "held_out"
    elif origin.test is not None:
        lines.append(f"    held_out = read_table({_source(origin.test)})")
        held_out = "held_out"
    lines += _model(origin)
    lines.append(f"    session = edited(model, rows, {held_out})")
    lines.append('    dkmeans.save(session.model, "corrected.dkm")')
    return "\n".join(lines) + "\n"


def _model(origin: Origin) -> list[str]:
    if origin.model is not None:
        return [f"    model = dkmeans.load({str(origin.model)!r})"]
    assert origin.source is not None
    impute = "" if origin.impute == "median" else f", impute={origin.impute!r}"
    usual = type(origin.estimator)().get_params()
    given = {n: v for n, v in origin.estimator.get_params().items() if v != usual[n]}
    call = ", ".join(f"{name}={value!r}" for name, value in given.items())
    kinds = {name: str(kind) for name, kind in origin.source.kinds.items()}
    weighted = bool(origin.source.weight)
    if origin.features == "raw":
        weight = ", sample_weight=rows.weight" if weighted else ""
        return [f"    model = DiscriminativeKMeans({call}).fit(rows.X, rows.y{weight})"]
    if origin.features == "standardised":
        step = "discriminativekmeans__sample_weight"
        weight = f", {step}=rows.weight" if weighted else ""
        return [
            f"    model = make_pipeline(StandardScaler(), DiscriminativeKMeans({call}))",
            f"    model.fit(rows.X, rows.y{weight})",
        ]
    weight = ", model__sample_weight=rows.weight" if weighted else ""
    return [
        f"    kinds = {kinds!r}",
        f"    model = table_pipeline(kinds, DiscriminativeKMeans({call}){impute})",
        f"    model.fit(rows.X, rows.y{weight})",
    ]


def _source(source: Source) -> str:
    """Write a source; what is as usual is left out."""
    values = {f.name: (getattr(source, f.name), f.default) for f in fields(source)}
    values["kinds"] = ({n: str(k) for n, k in source.kinds.items()}, None)
    path = f"Path({str(source.path)!r})"
    texts = [
        path,
        *(f"{n}={v!r}" for n, (v, usual) in values.items() if n != "path" and v != usual),
    ]
    return f"Source({', '.join(texts)})"


def _literal(edit: dict[str, Any]) -> str:
    """Write an edit over several lines, if it is long."""
    text = repr(edit)
    if len(text) <= _WIDTH - 8:
        return text
    lines = ["{"]
    for name, value in edit.items():
        if isinstance(value, list):
            items = (
                textwrap.wrap(", ".join(map(repr, value)), _WIDTH - 12)
                if _plain(value)
                else [f"{item!r}," for item in value]
            )
            lines += [f"    {name!r}: [", *(f"        {item}" for item in items), "    ],"]
        else:
            lines.append(f"    {name!r}: {value!r},")
    return "\n".join([*lines, "}"])


def _plain(values: list[Any]) -> bool:
    """Return whether values are numbers, which can be broken at any space."""
    return all(type(value) in (int, float) for value in values)


def _one_line(text: str) -> str:
    """Make a text safe for a comment: names come from data."""
    return "".join(c if c.isprintable() else "?" for c in text)
