"""The explorer and tables: reading, rows that are held out, exports, and the command."""

import gzip
import io
import os
import runpy

import numpy as np
import pytest
from explorers import CODES, IRIS, NAMES, ask, make

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("uvicorn")

import pandas as pd
from commands import run

from dkmeans import load
from dkmeans.cli.errors import InputError
from dkmeans.cli.explore_command import ExploreOptions, open_session
from dkmeans.cli.fit_command import FitOptions
from dkmeans.cli.labelled_rows import Wanted
from dkmeans.explorer.digests import digest_model
from dkmeans.explorer.tables import Source, held_out_rows, read_table


def table():
    """A table with numbers, a category, a column of notes that is no feature, and a date."""
    frame = pd.DataFrame(IRIS, columns=["a", "b", "c", "d"])
    frame["site"] = np.where(np.arange(150) % 4, "north", "south")
    frame["note"] = [f'said "{row}", then; left' for row in range(150)]
    frame["species"] = NAMES
    frame.loc[[1, 70], "species"] = "virginica"
    return frame


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".feather":
        frame.to_feather(path)
    else:
        sep = {".tsv": "\t", ".csv": ",", ".gz": ";"}[path.suffix]
        frame.to_csv(path, index=False, sep=sep)


def read(data, path):
    if path.suffix == ".parquet":
        return pd.read_parquet(io.BytesIO(data))
    if path.suffix == ".feather":
        return pd.read_feather(io.BytesIO(data))
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    sep = {".tsv": "\t", ".csv": ",", ".gz": ";"}[path.suffix]
    return pd.read_csv(io.BytesIO(data), sep=sep)


def opened(path, data=None, label="species", max_clusters="7", wanted=None, **options):
    return open_session(
        path,
        data,
        wanted or Wanted(label),
        FitOptions(
            path,
            max_clusters=max_clusters,
            metric="euclidean",
            refine="none",
            threads=1,
            quiet=True,
        ),
        ExploreOptions(**options),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".parquet", ".feather"])
def test_the_corrected_table_has_the_format_and_all_else_of_the_first(folder, ending):
    path, frame = folder / f"t{ending}", table()
    write(frame, path)
    session = opened(path)
    places = session.layers["training"].places
    make(session, "relabel", rows=[3, 50], **{"class": 0})
    make(session, "drop_rows", rows=[7, 8])
    make(session, "merge_classes", **{"from": 2, "into": 1})
    found = read(ask(session, "export", what="table"), path)
    expected = frame.copy()
    expected.loc[places[[3, 50]], "species"] = "setosa"
    expected.loc[expected["species"] == "virginica", "species"] = "versicolor"
    expected = expected.drop(index=places[[7, 8]]).reset_index(drop=True)
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected, check_dtype=False)
    assert ask(session, "export_name", what="table")["name"] == f"t-corrected{ending}"
    session.close()


def test_text_that_is_not_edited_stays_as_it_is_written(folder):
    path = folder / "odd.csv"
    lines = ["x,y,class,more", *(f"{row}.50,1e{row % 3},{'ab'[row % 2]},007" for row in range(30))]
    path.write_text("\n".join(lines) + "\n")
    session = opened(path, label="class")
    assert ask(session, "export", what="table").decode() == path.read_text()
    session.close()


def test_numbers_stay_numbers_and_categories_may_be_new(folder):
    frame = table()
    frame["species"] = CODES.astype(np.int8)
    path = folder / "codes.parquet"
    frame.to_parquet(path)
    session = opened(path)
    make(session, "add_class", name="9")
    make(session, "relabel", rows=[0], **{"class": 3})
    found = read(ask(session, "export", what="table"), path)
    assert found["species"].dtype == np.int8
    assert (found["species"] == 9).sum() == 1
    make(session, "add_class", name="900")
    make(session, "relabel", rows=[1], **{"class": 4})
    found = read(ask(session, "export", what="table"), path)
    assert sorted(set(found["species"])) == [0, 1, 2, 9, 900]
    session.close()
    frame["species"] = np.array(["2024-01-01", "2024-01-02", "2024-01-03"])[CODES]
    frame["species"] = pd.to_datetime(frame["species"]).dt.date
    path = folder / "dates.parquet"
    frame.to_parquet(path)
    session = opened(path)
    make(session, "relabel", rows=[0], **{"class": 2})
    found = read(ask(session, "export", what="table"), path)
    assert (found["species"].astype(str) == "2024-01-03").sum() == 51
    session.close()
    frame["species"] = pd.Categorical(NAMES)
    path = folder / "categories.parquet"
    frame.to_parquet(path)
    session = opened(path)
    make(session, "add_class", name="new")
    make(session, "relabel", rows=[0], **{"class": 3})
    found = read(ask(session, "export", what="table"), path)
    assert (found["species"] == "new").sum() == 1
    session.close()


def test_rows_without_a_label_are_kept_in_the_export(folder):
    frame = table()
    frame.loc[[10, 11], "species"] = None
    path = folder / "gaps.csv"
    write(frame, path)
    with pytest.raises(InputError, match="missing values"):
        opened(path)
    session = opened(path, wanted=Wanted("species", skip_unlabelled=True))
    assert sum(len(layer) for layer in session.layers.values()) == 148
    make(session, "drop_rows", rows=[0])
    found = read(ask(session, "export", what="table"), path)
    assert len(found) == 149
    assert found["species"].isna().sum() == 2
    session.close()


def test_script_of_a_table_fits_and_edits_to_the_same_bits(folder, monkeypatch):
    path = folder / "s.csv"
    write(table(), path)
    session = opened(path)
    make(session, "relabel", rows=list(range(20, 45)), **{"class": 1})
    make(session, "add_class", name="x\N{LATIN SMALL LETTER E WITH ACUTE}'\"")
    make(session, "relabel", rows=[60, 61, 62], **{"class": 3})
    make(session, "merge_classes", **{"from": 2, "into": 3})
    make(session, "drop_rows", rows=[1, 2])
    ask(session, "refit", max_clusters=9)
    session.job.join(60)
    make(session, "move", index=1, row=5)
    make(session, "set_rejection", rate=0.2)
    text = ask(session, "export", what="script").decode()
    (folder / "again.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    runpy.run_path("again.py", run_name="__main__")
    again = load(folder / "corrected.dkm")
    assert digest_model(again[-1]) == digest_model(session.draft.core)
    assert (again[-1].rejection_.threshold == session.draft.core.rejection_.threshold).all()
    rows = read_table(session.origin.source)
    assert (again.predict(rows.X) == session.model.predict(rows.X)).all()
    session.close()


def test_names_cannot_leave_their_comment_in_a_script(folder):
    frame = table()
    evil = "a\nraise SystemExit('no')"
    frame.loc[frame["species"] == "setosa", "species"] = evil
    path = folder / "evil.parquet"
    frame.to_parquet(path)
    session = opened(path)
    code = session.draft.labels.index(evil)
    make(session, "relabel", rows=[90], **{"class": code})
    (folder / "evil.py").write_bytes(ask(session, "export", what="script"))
    assert runpy.run_path(str(folder / "evil.py"))["EDITS"][0]["label"] == evil
    session.close()


def test_model_file_that_is_exported_is_the_edited_model(folder):
    path = folder / "m.csv"
    write(table(), path)
    session = opened(path)
    make(session, "drop_prototype", index=2)
    (folder / "out.dkm").write_bytes(ask(session, "export", what="model"))
    again = load(folder / "out.dkm")
    assert digest_model(again[-1]) == digest_model(session.draft.core)
    ask(session, "undo")
    (folder / "out.dkm").write_bytes(ask(session, "export", what="model"))
    assert load(folder / "out.dkm")[-1].at(4).n_clusters_ == 4
    session.close()


def test_a_model_and_its_table(folder):
    path = folder / "both.csv"
    write(table(), path)
    words = f"fit {path} --label species --max-clusters 6 --metric euclidean -q --out"
    run(words, folder / "both.dkm")
    session = opened(folder / "both.dkm", path, test=path)
    assert ask(session, "state")["layers"] == {"training": 150, "held_out": 150}
    assert ask(session, "state")["path"] is None
    assert ask(session, "state")["journal"] == "both.csv.explore.jsonl"
    values = dict(ask(session, "prototype", index=0)["values"])
    assert 4.3 < float(values["a"]) < 7.9  # in the unit of the table
    assert "site=north" in values
    assert "model = dkmeans.load" in ask(session, "export", what="script").decode()
    session.close()


def test_raw_numbers_and_a_model_of_them(folder, monkeypatch):
    path = folder / "raw.csv"
    write(table().drop(columns=["site", "note"]), path)
    session = opened(path, wanted=Wanted("species", raw=True), held_out=0.0)
    assert session.opened.before is None
    assert ask(session, "state")["features"] == ["a", "b", "c", "d"]
    assert ask(session, "state")["layers"]["held_out"] == 0
    make(session, "relabel", rows=[2], **{"class": 1})
    ask(session, "refit")
    session.job.join(60)
    (folder / "raw.py").write_bytes(ask(session, "export", what="script"))
    monkeypatch.chdir(folder)
    runpy.run_path("raw.py", run_name="__main__")
    assert digest_model(load("corrected.dkm")) == digest_model(session.draft.core)
    session.close()


def test_arrays_and_images(folder):
    np.savez(folder / "x.npz", X=IRIS, y=NAMES)
    session = opened(folder / "x.npz", label="y", shape="2x2")
    state = ask(session, "state")
    assert state["image_shape"] == [2, 2]
    assert state["layers"]["held_out"] > 0
    make(session, "drop_rows", rows=[0])
    lines = ask(session, "export", what="table").decode().splitlines()
    assert lines[0] == "row,label,used"
    assert len(lines) == 1 + state["layers"]["training"]
    assert lines[1].endswith(",setosa,0")
    session.close()


def test_held_out_rows_are_chosen_by_their_values():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 3)), rng.integers(0, 3, 3000)
    X[100:200] = X[:100]
    away = held_out_rows(X, y)
    assert 0.17 < away.mean() < 0.23
    assert (away[100:200] == away[:100]).all()
    order = rng.permutation(len(y))
    assert (held_out_rows(X[order], y[order]) == away[order]).all()
    few = np.arange(3000)  # every row is a class of its own
    assert not held_out_rows(X, few).any()
    frame = pd.DataFrame(X).assign(text=np.where(y, "a", "b"))
    assert 0.17 < held_out_rows(frame, y).mean() < 0.23


def test_a_very_large_table_does_not_lose_a_fifth_of_its_rows():
    X = np.arange(400_000.0)[:, None]
    away = held_out_rows(X, np.arange(400_000) % 2)
    assert 48_000 < away.sum() < 52_000


def test_read_table_tells_which_row_lacks_a_label(folder):
    path = folder / "lacks.csv"
    path.write_text("x,c\n1,a\n2,\n3,b\n")
    with pytest.raises(ValueError, match="row 2 has no label"):
        read_table(Source(path, "c", {"x": "number"}))


def test_the_command_serves_and_says_what_it_does(folder, monkeypatch):
    import dkmeans.cli.explore_command as command

    path = folder / "cli.csv"
    write(table(), path)
    seen = []

    def serve(session, *, port, open_browser, announce):
        seen.append((session, port, open_browser))
        announce("http://127.0.0.1:9/?token=t")
        session.close()

    monkeypatch.setattr(command, "serve", serve)
    said = run(
        f"explore {path} --label species --max-clusters 5 --metric euclidean --no-browser --port 9"
    )
    assert "rows are held out, chosen by a hash of their values" in said
    assert "Explorer: http://127.0.0.1:9/?token=t" in said
    assert "cli.csv.explore.jsonl" in said
    _session, port, open_browser = seen[0]
    assert (port, open_browser) == (9, False)
    assert os.listdir(folder).count("cli.csv.explore.jsonl") == 1
    said = run(
        f"explore {path} --label species --max-clusters 6 --metric euclidean --no-browser", code=1
    )
    assert "journal of other model" in said


def test_ctrl_c_does_not_wait_for_an_answer(folder, monkeypatch):
    import dkmeans.cli.explore_command as command

    write(table(), folder / "busy.csv")
    codes = []

    def serve(session, **options):
        session.close()
        session.answering.add(1)

    monkeypatch.setattr(command, "serve", serve)
    monkeypatch.setattr(os, "_exit", codes.append)
    run(f"explore {folder / 'busy.csv'} --label species --max-clusters 4 --metric euclidean -q")
    assert codes == [0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("explore cli.csv", "--label"),
        ("explore cli.csv cli.csv --label species", "goes with a model"),
        ("explore no.csv --label species", "There is no file"),
        ("explore cli.csv --label species --held-out 1", "--held-out 1"),
        ("explore cli.csv --label species --shape 2 --max-clusters 4", "--shape 2"),
    ],
)
def test_wrong_commands_get_a_sentence(folder, words, message, monkeypatch):
    monkeypatch.chdir(folder)
    write(table(), folder / "cli.csv")
    assert message in run(words, code=1)
