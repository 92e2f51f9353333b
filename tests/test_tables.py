"""Tables on disk, by `fit(path)` and by the command line: what is odd in them, and what is said."""

import re
import subprocess
import sys

import numpy as np
import pytest
from commands import fit, iris_table, pa, pa_feather, read, run, write
from models import grown

import dkmeans
from dkmeans.data import text_files
from dkmeans.data.blocks import SourceError
from dkmeans.data.tables import TableBlocks

SPECIES = "species"


@pytest.fixture
def refused(place):
    """A function that makes sure that both readers refuse a file, and say so alike."""

    def check(path, label, *phrases):
        with pytest.raises(SourceError) as caught:
            grown(6).fit(path, label)
        for said in (str(caught.value), run("fit", path, "--raw", "--label", label, code=1)):
            for phrase in (path, *phrases):
                assert phrase in said
            assert len(re.findall(r"[.!?](?=\s|$)", said)) <= 2, said

    return check


def some_rows(**more):
    y = np.arange(30) % 3
    return {"x": y * 5 + np.arange(30) / 30, "kind": np.array(["ash", "elm", "oak"])[y], **more}


def text(columns):
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def damaged(table, before, after):
    """The bytes of a Feather file in which some are others."""
    stream = pa.BufferOutputStream()
    pa_feather.write_feather(table, stream, compression="uncompressed")
    data = stream.getvalue().to_pybytes()
    assert data.count(before) == 1
    return data.replace(before, after)


def test_wrong_offsets_do_not_end_the_process(place, refused):
    offsets = np.arange(0, 91, 3, dtype="<i4")
    wrong = offsets.copy()
    wrong[10] += 0x7F000000
    data = damaged(pa.table(some_rows()), offsets.tobytes(), wrong.tobytes())
    (place / "bad.feather").write_bytes(data)
    refused("bad.feather", "kind", "is damaged", "offset for slot 10", "write the file again")


def test_wrong_codes_do_not_end_the_process(place, refused):
    table = pa.table(some_rows())
    codes = (np.arange(30, dtype="<i4") % 3).tobytes()
    table = table.set_column(1, "kind", table["kind"].combine_chunks().dictionary_encode())
    (place / "bad.feather").write_bytes(damaged(table, codes, codes[:-1] + b"\x7f"))
    refused("bad.feather", "kind", "is damaged", "write the file again")


def test_damaged_rows_are_not_predicted(place):
    fit("--quiet")
    offsets = (10 * np.arange(151, dtype="<i4")).tobytes()
    table = iris_table().append_column("note", pa.array([f"number {i:03}" for i in range(150)]))
    (place / "bad.feather").write_bytes(damaged(table, offsets, offsets[:-1] + b"\x7f"))
    said = run("predict", "model.dkm", "bad.feather", "--out", "p.csv", code=1)
    assert "bad.feather is damaged" in said


def with_index(path, name, columns, index):
    """Write a table with its index as pandas does."""
    pandas = pytest.importorskip("pandas")
    index = pandas.Index(index, name=name)
    table = pa.Table.from_pandas(pandas.DataFrame(columns, index=index))
    assert len(table.column_names) == len(columns) + 1
    write(table, path)
    return table.column_names[-1]


@pytest.mark.parametrize("path", ["t.parquet", "t.feather"])
@pytest.mark.parametrize("name", [None, "id"])
def test_the_index_of_pandas_is_no_feature(place, path, name):
    columns = some_rows(z=np.arange(30) % 7)
    index = with_index(path, name, columns, np.arange(30)[::-1] * 100)
    write(pa.table(columns), "plain.parquet")
    expected = grown(3).fit("plain.parquet", "kind")
    with pytest.warns(UserWarning, match=f"{path}: left out, the index .*'{index}'"):
        model = grown(3).fit(path, "kind")
    assert model.feature_names_in_.tolist() == ["x", "z"]
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert f"index that pandas stored: {index}." in run("fit", path, "--raw", "--label", "kind")
    assert dkmeans.load("model.dkm").feature_names_in_.tolist() == ["x", "z"]
    run("predict", "model.dkm", path, "--out", "p.parquet")
    assert read("p.parquet")["class"].to_pylist() == columns["kind"].tolist()
    assert read("p.parquet")[index].to_pylist()[0] == 2900, "it is passed on"
    # By place, where a model has no names of columns:
    grown(3).fit(np.c_[columns["x"], columns["z"]], columns["kind"]).save("n.dkm")
    said = run("predict", "n.dkm", path, "--out", "q.parquet")
    assert f"index that pandas stored: {index}." in said
    assert read("q.parquet")["class"].to_pylist() == columns["kind"].tolist()


def test_the_index_of_pandas_is_used_where_it_is_named(place):
    columns = some_rows()
    labels = columns.pop("kind")
    with_index("t.parquet", "id", {"x": columns["x"], "kind": labels}, np.arange(30))
    blocks = TableBlocks("t.parquet", "kind", columns=["id", "x"])
    assert grown(3).fit(blocks).feature_names_in_.tolist() == ["id", "x"]
    with_index("u.parquet", "number", columns, np.arange(30) % 3)
    model = grown(3).fit("u.parquet", "number")
    assert model.feature_names_in_.tolist() == ["x"]
    run("fit u.parquet --raw --label number --quiet")
    assert dkmeans.load("model.dkm").feature_names_in_.tolist() == ["x"]


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "Unnamed: 0.1"])
def test_columns_without_a_name_are_refused(place, refused, name):
    columns = {name: np.arange(30), **some_rows()}
    (place / "t.csv").write_text(text(columns))
    refused("t.csv", "kind", f"column 1 has no name ('{name}')", "index")
    with pytest.raises(SourceError, match=r"index=False.*name the features with `columns`"):
        TableBlocks("t.csv", "kind")
    blocks = TableBlocks("t.csv", "kind", columns=["x"])
    assert grown(3).fit(blocks).feature_names_in_.tolist() == ["x"]
    assert f"--drop '{name}'" in run("fit", "t.csv", "--raw", "--label", "kind", code=1)
    run("fit", "t.csv", "--raw", "--label", "kind", "--drop", name)
    run("predict", "model.dkm", "t.csv", "--out", "p.csv")
    assert read("p.csv")["class"].to_pylist() == columns["kind"].tolist()
    grown(3).fit(columns["x"][:, None], columns["kind"]).save("n.dkm")
    said = run("predict", "n.dkm", "t.csv", "--out", "q.csv", "--drop", "kind", code=1)
    assert f"--drop '{name}'" in said
    run("predict", "n.dkm", "t.csv", "--out", "q.csv", "--drop", name)


@pytest.mark.parametrize("nothing", ["", "  "])
def test_labels_that_are_missing_in_text_are_no_class(place, nothing):
    columns = some_rows()
    columns["kind"] = np.r_[[nothing] * 10, columns["kind"][10:]]
    (place / "t.csv").write_text(text(columns))
    with pytest.raises(
        SourceError, match=r"column 'kind' has missing labels in rows 1, 2, 3, 4, 5 and 5 more"
    ):
        grown(6).fit("t.csv", "kind")
    assert "kind (10 rows)" in run("fit t.csv --raw --label kind", code=1)


def test_hidden_files_of_a_folder_are_not_read(place):
    folder = place / ".cache" / "_tables"  # above the folder, names do not matter
    for inside in (".ipynb_checkpoints", "_delta_log", "year=2024", "_temporary/0"):
        (folder / inside).mkdir(parents=True)
    content = text(some_rows())
    for name in ("t.csv", "year=2024/u.csv"):
        (folder / name).write_text(content)
    for name in (".ipynb_checkpoints/t.csv", ".t.csv", "._t.csv", "_t.csv", "_temporary/0/t.csv"):
        (folder / name).write_text(content)
    (folder / "_delta_log" / "0.parquet").write_bytes(b"of another kind")
    assert len(grown(6).fit(folder, "kind").labels_) == 60
    assert len(grown(6).fit(folder / "_t.csv", "kind").labels_) == 30
    with pytest.raises(SourceError, match="has no files"):
        grown(6).fit(place / ".cache", "kind")


@pytest.mark.parametrize(
    "numbers",
    [
        (7, 12345678901234567890, 12345678901234567999),
        ("7", "9007199254740993.0", "9007199254740992.0"),
    ],
)
def test_numbers_beyond_integers_and_floats_are_different_classes(place, numbers):
    columns = some_rows()
    columns["kind"] = [numbers[i % 3] for i in range(30)]
    (place / "t.csv").write_text(text(columns))
    classes = sorted(map(str, numbers))
    assert grown(6).fit("t.csv", "kind").classes_.tolist() == classes
    run("fit t.csv --raw --label kind --test t.csv --quiet")
    assert dkmeans.load("model.dkm").classes_.tolist() == classes
    # In a folder, those of all files count.
    (place / "f").mkdir()
    (place / "f" / "a.csv").write_text(text(some_rows(kind=np.arange(30) % 2 + 7)))
    (place / "f" / "b.csv").write_text(text(columns))
    found = grown(9).fit("f", "kind").classes_.tolist()
    assert found == sorted([*classes, "8"])


def test_floats_that_may_be_several_numbers_are_no_labels(place):
    columns = some_rows(number=np.array([1.0, 2.0, 1e19])[np.arange(30) % 3])
    write(pa.table(columns).drop_columns(["kind"]), "t.parquet")
    assert "1e+19" in run("fit t.parquet --raw --label number", code=1)
    np.savez("t.npz", X=columns["x"][:, None], y=columns["number"])
    assert "store labels as integers or text" in run("fit t.npz", code=1)


def test_columns_of_one_name_are_refused(place, refused):
    (place / "t.csv").write_text("a,a,l\n1,2,oak\n3,4,elm\n")
    refused("t.csv", "l", "several columns of one name: a.")
    table = pa.table([[1, 2], [1, 2], ["oak", "elm"]], names=["a", "a", "l"])
    write(table, "t.feather")
    refused("t.feather", "l", "several columns of one name: a.")


@pytest.mark.parametrize("path", ["t.csv", "t.parquet", "t.feather"])
def test_tables_without_rows_are_refused(place, refused, path):
    write(pa.table({"a": pa.array([], pa.float64()), "l": pa.array([], pa.string())}), path)
    refused(path, "l", "has column names, but no rows")


def test_a_column_that_is_empty_is_not_numbers(place, refused):
    (place / "t.csv").write_text("a,b,l\n1,,oak\n2,,elm\n")
    refused("t.csv", "l", "has columns that are not numbers: ", "b")


@pytest.mark.parametrize(
    ("content", "place_of_it", "source"),
    [
        (b"x,kind\n1,a\n2,\xe4\n3,a\n4,\xe4\n", "line 3 has the byte 0xE4", "LATIN1"),
        (b"gr\xf6\xdfe,kind\n1,a\n2,b\n", "line 1 has the byte 0xF6", "LATIN1"),
        ("x,kind\n1,a\n2,b\n".encode("utf-16"), "line 1 has the byte 0xFF", "UTF-16"),
    ],
)
def test_other_encodings_are_recognised(place, refused, content, place_of_it, source):
    (place / "t.csv").write_bytes(content)
    refused("t.csv", "kind", "is not encoded in UTF-8", place_of_it, f"iconv -f {source} -t UTF-8")


def test_other_encodings_are_recognised_after_the_first_block(place, monkeypatch):
    fit("--quiet")
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 1000)
    data = (place / "iris.csv").read_bytes()
    (place / "t.csv").write_bytes(data + b'1,2,3,4,"\xe4"\n')
    with pytest.raises(SourceError, match="not encoded in UTF-8, as line 152 has the byte 0xE4"):
        grown(6).fit("t.csv", SPECIES)
    said = run("predict", "model.dkm", "t.csv", "--out", "p.csv", code=1)
    assert "not encoded in UTF-8, as line 152" in said


def test_a_long_header(place, monkeypatch):
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 1 << 20)
    names = [f"{j}".zfill(28_000) for j in range(40)]
    X = np.arange(160).reshape(4, 40)
    columns = {**dict(zip(names, X.T, strict=True)), "kind": list("abab")}
    assert len(text(columns)) > 1 << 20, "more than is parsed at a time"
    (place / "wide.csv").write_text(text(columns))
    assert grown(4).fit("wide.csv", "kind").feature_names_in_.tolist() == names
    run("fit wide.csv --raw --label kind --quiet")
    run("predict model.dkm wide.csv --out p.csv")
    assert (place / "p.csv").read_text().split(",")[:41] == [*names, "kind"]


def test_long_rows_of_numbers(place, monkeypatch):
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 100)
    X = -np.random.default_rng(0).random((4, 200)) / 1e100
    columns = {**{f"f{j}": X[:, j] for j in range(200)}, "kind": list("abab")}
    (place / "wide.csv").write_text(text(columns))
    assert len(text_files.header(place / "wide.csv", ",")) == 201
    assert grown(4).fit("wide.csv", "kind").n_features_in_ == 200
    run("fit wide.csv --raw --label kind --quiet")
    run("predict model.dkm wide.csv --out p.csv")


def test_names_with_line_breaks(place):
    (place / "t.csv").write_text('"height\n(cm)",kind\n1,a\n2,b\n3,a\n4,b\n')
    run("fit t.csv --raw --label kind --quiet")
    assert dkmeans.load("model.dkm").feature_names_in_.tolist() == ["height\n(cm)"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no sh")
def test_a_closed_output_is_told_in_a_sentence(place):
    fit("--quiet")
    start = [sys.executable, "-c", "from dkmeans.cli.entry import main; main()"]
    command = [*start, "predict", "model.dkm", "iris.csv", "--out", "-"]
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    result = subprocess.run(closed, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert result.stderr == "Error: --out -: the standard output is closed: name a file.\n"
