"""`fit(path)` and `dkmeans fit` make the same model of a table, or refuse it alike."""

import datetime
import decimal
import gzip
import re
import sys

import numpy as np
import pytest
from commands import pa, pa_feather, pa_parquet, run
from models import grown

import dkmeans
from dkmeans.cli import labelled_rows
from dkmeans.data import SourceError, TableBlocks, text_files

GROWN = ("--refine", "none", "--metric", "euclidean")
KINDS = np.array(["ash", "elm", "oak"])
CODES = np.arange(60) % 3
X = 5 * CODES + np.arange(60) / 60
Z = np.arange(60) % 7


def lines(labels=KINDS[CODES], x=X, separator=",", names="x,z,kind", z=Z):
    """The text of a table of 60 rows."""
    body = [separator.join(map(str, row)) for row in zip(x, z, labels, strict=True)]
    return "\n".join([names.replace(",", separator), *body]) + "\n"


def stored(write=pa_parquet.write_table, **columns):
    """A function that writes a table with these columns."""
    columns = {"x": X, "kind": KINDS[CODES]} | columns
    return lambda path: write(pa.table(columns), path)


def with_index(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": X, "kind": KINDS[CODES]}, index=np.arange(60)[::-1] * 9)
    pa_parquet.write_table(pa.Table.from_pandas(frame.rename_axis("id")), path)


def several(*values):
    """Labels of 60 rows, the last ones only in the last rows."""
    return [values[0]] * 20 + [values[1]] * 20 + [values[-1]] * 20


BOOLEANS = X.mean() < X
WHOLE = {"names": ["x", "z"], "classes": ["ash", "elm", "oak"]}
TABLES = {
    "commas": ("t.csv", lines(), WHOLE),
    "semicolons": ("t.csv", lines(separator=";"), WHOLE),
    "tabs in .csv": ("t.csv", lines(separator="\t"), WHOLE),
    "tabs": ("t.TSV", lines(separator="\t"), WHOLE),
    "byte order mark": ("t.csv", "\ufeff" + lines(), WHOLE),
    "upper case": ("T.CSV", lines(), WHOLE),
    "compressed": ("t.csv.gz", gzip.compress(lines().encode()), WHOLE),
    "compressed, upper case": ("T.CSV.GZ", gzip.compress(lines(separator=";").encode()), WHOLE),
    "numbers in quotes": ("t.csv", lines(x=[f'"{x}"' for x in X]), WHOLE),
    "spaces around numbers": ("t.csv", lines(x=[f" {x} " for x in X]), WHOLE),
    "integers, then floats": ("t.csv", lines(x=[5] * 40 + [0.5] * 20), WHOLE),
    "Boolean feature": ("t.csv", lines(z=BOOLEANS), WHOLE),
    "0 and 1, then Booleans": ("t.csv", lines(z=[0, 1] * 20 + ["True", "false"] * 10), WHOLE),
    "Boolean labels": ("t.csv", lines(BOOLEANS), WHOLE | {"classes": [False, True]}),
    "lower-case Boolean labels": (
        "t.csv",
        lines([str(b).lower() for b in BOOLEANS]),
        WHOLE | {"classes": [False, True]},
    ),
    "integer labels": ("t.csv", lines(CODES), WHOLE | {"classes": [0, 1, 2]}),
    "labels with a point": ("t.csv", lines(CODES / 1), WHOLE | {"classes": [0.0, 1.0, 2.0]}),
    "integers, then text": (
        "t.csv",
        lines(several("1", "2", "elm")),
        WHOLE | {"classes": ["1", "2", "elm"]},
    ),
    "integers, then with a point": (
        "t.csv",
        lines(several("1", "2", "3.0")),
        WHOLE | {"classes": [1.0, 2.0, 3.0]},
    ),
    "Booleans, then text": (
        "t.csv",
        lines(several("True", "False", "maybe")),
        WHOLE | {"classes": ["False", "True", "maybe"]},
    ),
    "20 digits": (
        "t.csv",
        lines(several("7", "12345678901234567890", "12345678901234567999")),
        WHOLE | {"classes": ["12345678901234567890", "12345678901234567999", "7"]},
    ),
    "names of missing values": (
        "t.csv",
        lines(several("None", "?", "NA")),
        WHOLE | {"classes": ["?", "NA", "None"]},
    ),
    "dates": (
        "t.csv",
        lines(several("2024-01-01", "2024-02-01", "2024-03-01")),
        WHOLE | {"classes": ["2024-01-01", "2024-02-01", "2024-03-01"]},
    ),
    "line breaks in labels": (
        "t.csv",
        lines(several('"a\nb"', '"c\nd"', "e")),
        WHOLE | {"classes": ["a\nb", "c\nd", "e"]},
    ),
    "index of pandas": ("t.parquet", with_index, WHOLE | {"names": ["x"]}),
    "decimals": (
        "t.parquet",
        stored(z=[decimal.Decimal(i) / 4 for i in range(60)]),
        WHOLE,
    ),
    "narrow columns": (
        "t.feather",
        stored(pa_feather.write_feather, x=X.astype("f4"), z=CODES.astype("i1")),
        WHOLE,
    ),
    "stored Boolean labels": ("t.parquet", stored(kind=BOOLEANS), {"classes": [False, True]}),
    "stored dates": (
        "t.parquet",
        stored(kind=[datetime.date(2024, 1, 1 + code) for code in CODES]),
        {"classes": ["2024-01-01", "2024-01-02", "2024-01-03"]},
    ),
    "dictionary": (
        "t.parquet",
        stored(kind=pa.array(KINDS[CODES].tolist()).dictionary_encode()),
        {"classes": KINDS.tolist()},
    ),
    "question marks": ("t.csv", lines(x=["?", *X[1:]]), "(NaN|missing values)"),
    "question marks as labels": ("t.csv", lines(["?", *CODES[1:]]), "missing"),
    "spaces as labels": ("t.csv", lines([" ", *KINDS[CODES][1:]]), "missing"),
    "text in the last row": ("t.csv", lines(x=[*X[1:], "five"]), "not numbers"),
    "an empty column": ("t.csv", lines(z=[""] * 60), "not numbers"),
    "decimal commas": (
        "t.csv",
        lines(x=[str(x).replace(".", ",") for x in X], separator=";"),
        WHOLE,
    ),
    "fractions as labels": ("t.csv", lines(X), "labels must be text or integers"),
    "floats beyond integers": ("t.parquet", stored(kind=CODES * 1e19), "as integers or text"),
    "dates as features": ("t.csv", lines(x=["2024-01-01"] * 60), "not numbers"),
    "an empty file": ("t.csv", "", "is empty"),
}


@pytest.mark.filterwarnings("ignore:.*the index that pandas stored")
@pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
@pytest.mark.parametrize("block_bytes", [500, 1 << 22])
@pytest.mark.parametrize("case", TABLES)
def test_the_same_model_or_the_same_refusal(place, monkeypatch, case, block_bytes):
    path, content, expected = TABLES[case]
    monkeypatch.setattr(text_files, "BLOCK_BYTES", block_bytes)
    if callable(content):
        content(path)
    else:
        (place / path).write_bytes(content.encode() if isinstance(content, str) else content)
    library = grown(6)
    if isinstance(expected, str):
        with pytest.raises(SourceError, match=expected):
            library.fit(path, "kind")
        assert re.search(expected, run("fit", path, "--raw", "--label", "kind", code=1))
        return
    library.fit(path, "kind")
    run("fit", path, "--raw", "--label", "kind", "--max-clusters", 6, *GROWN, "--quiet")
    command = dkmeans.load("model.dkm")
    for name in ("classes_", "cluster_centers_", "cluster_classes_", "feature_names_in_"):
        one, other = getattr(library, name), getattr(command, name)
        assert one.dtype.kind == other.dtype.kind
        np.testing.assert_array_equal(one, other)
    assert library.cluster_centers_.dtype == command.cluster_centers_.dtype
    assert command.classes_.tolist() == expected["classes"]
    if "names" in expected:
        assert command.feature_names_in_.tolist() == expected["names"]
    run("predict", "model.dkm", path, "--out", "p.parquet")
    table = TableBlocks(path, "kind")
    read = np.concatenate([batch.X for batch in table])
    named = pa.table(list(read.T), names=table.names)
    predicted = pa_parquet.read_table("p.parquet")["class"].to_pylist()
    assert predicted == library.predict(named).tolist()


def test_named_columns_may_be_numbers_stored_as_text(place):
    pa_parquet.write_table(pa.table({"x": X.astype(str), "kind": KINDS[CODES]}), "t.parquet")
    with pytest.raises(SourceError, match="not numbers"):
        grown(6).fit("t.parquet", "kind")
    model = grown(6).fit(TableBlocks("t.parquet", "kind", columns=["x"]))
    expected = grown(6).fit(X[:, None], KINDS[CODES])
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    with pytest.raises(SourceError, match="'ash' in row 1 is not a number"):
        grown(6).fit(TableBlocks("t.parquet", "x", columns=["kind"]))


@pytest.fixture
def little_memory(monkeypatch):
    """A machine so small that tables of 60 rows are large."""
    monkeypatch.setattr(labelled_rows, "total_memory", lambda: 3000)


@pytest.mark.parametrize("path", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("options", ["", "--refine margin --balanced", "--weight w"])
def test_large_tables_are_read_in_blocks(place, monkeypatch, path, options):
    text = lines(names="x,w,kind", z=1 + CODES)
    (place / path).write_bytes(gzip.compress(text.encode()) if path[-1] == "z" else text.encode())
    words = f"fit {path} --raw --label kind --max-clusters 6 --test {path} {options}"
    told = run(words, "--out", "a.dkm")
    assert "blocks" not in told
    monkeypatch.setattr(labelled_rows, "total_memory", lambda: 3000)
    told_of_blocks = run(words, "--out", "b.dkm")
    assert f"{path} takes" in told_of_blocks
    assert "1/8 of the memory: it is read in blocks" in told_of_blocks
    one, other = dkmeans.load("a.dkm"), dkmeans.load("b.dkm")
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    assert one.feature_names_in_.tolist() == other.feature_names_in_.tolist()
    assert other.memory_mb == 375 / 2**20
    table = re.compile(r"class rows.*(?= Model saved)")
    assert table.search(told)[0] == table.search(told_of_blocks)[0]


@pytest.mark.usefixtures("little_memory")
def test_large_tables_are_standardised(place):
    (place / "t.csv").write_text(lines())
    run(
        "fit t.csv --raw --label kind --max-clusters 6 --standardise --test t.csv --reject 0.1",
        *GROWN,
    )
    model = dkmeans.load("model.dkm")
    np.testing.assert_allclose(model[0].mean_, [X.mean(), Z.mean()])
    assert model.feature_names_in_.tolist() == ["x", "z"]
    scaled = model[0].transform(pa.table({"x": X, "z": Z}))
    expected = grown(6).fit(scaled, KINDS[CODES])
    np.testing.assert_allclose(model[-1].cluster_centers_, expected.cluster_centers_)


@pytest.mark.usefixtures("little_memory")
def test_missing_values_in_large_tables(place):
    (place / "t.csv").write_text(lines(x=["?", *X[1:]]))
    told = run("fit t.csv --raw --label kind --max-clusters 6", code=1)
    assert "t.csv, rows 1 to 16: 1 of 16 rows has missing values, in x (1 row)." in told
    run("fit t.csv --raw --label kind --max-clusters 6 --skip-missing")
    assert dkmeans.load("model.dkm").cluster_sizes_.sum() == 59
    (place / "t.csv").write_text(lines(["oak"] * 60))
    assert "have the label oak; two classes" in run("fit t.csv --raw --label kind --force", code=1)


def test_empty_batches_are_no_harm(place):
    table = pa.table({"x": X, "kind": KINDS[CODES]})
    with pa.OSFile("t.feather", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        for part in (table.slice(0, 0), table):
            for batch in part.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]:
                writer.write_batch(batch)
    grown(6).fit("t.feather", "kind").save("model.dkm")
    run("predict model.dkm t.feather --out p.csv")
    assert (place / "p.csv").read_text().count("\n") == 61


def test_without_pyarrow_it_is_said_what_to_install(place, monkeypatch):
    (place / "t.csv").write_text(lines())
    monkeypatch.delitem(sys.modules, "dkmeans.data.tables")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'dkmeans\[tables\]'"):
        grown(6).fit("t.csv", "kind")
