"""`dkmeans predict`: columns, batches, pipes and interruptions."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import NAMES, fit, invoke, pa, read, run, write
from models import grown
from sklearn.datasets import load_iris

import dkmeans

# Processes that a shell starts in the background ignore Ctrl-C, and so would their children.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
START = [sys.executable, "-c", HEED + "from dkmeans.cli.entry import main; main()"]


def test_predict_finds_columns_by_name(place, iris):
    fit("--quiet")
    model = dkmeans.load("model.dkm")
    table = iris.select(["petal_width", "species", *NAMES[:3]])
    table = table.append_column("class", pa.array([f'say "{i}", please' for i in range(150)]))
    table = table.append_column("code", pa.array([f"{i:04}" for i in range(150)]))
    X = iris.select(NAMES)
    for kind in (".csv", ".tsv", ".parquet", ".feather"):
        write(table, place / f"table{kind}")
        run("predict", "model.dkm", f"table{kind}", "--out", f"p{kind}", "--probabilities")
        found = read(place / f"p{kind}")
        assert found.column_names == [
            *table.column_names,
            "predicted_class",
            "probability",
            "cluster_id",
            "distance",
            "probability_setosa",
            "probability_versicolor",
            "probability_virginica",
        ]
        assert found["class"].to_pylist() == table["class"].to_pylist()
        assert found["predicted_class"].to_pylist() == model.predict(X).tolist()
        nearest = model.predict_cluster(X)
        assert found["cluster_id"].to_pylist() == model.cluster_ids_[nearest].tolist()
        shares = model.predict_proba(X)
        np.testing.assert_allclose(found["probability"], shares.max(axis=1), rtol=1e-12)
        np.testing.assert_allclose(found["probability_setosa"], shares[:, 0], rtol=1e-12)
        np.testing.assert_allclose(found["distance"], model.transform(X).min(axis=1), rtol=1e-12)
    # What was text stays as it was written.
    assert ",0007," in (place / "p.csv").read_text()


@pytest.mark.parametrize("more", [{}, {"note": pa.array(['say "yes", please', None] * 75)}])
def test_booleans_are_spelled_as_in_reports(place, iris, more):
    large = pa.array([v == "virginica" for v in iris["species"].to_pylist()])
    table = iris.drop(["species"]).append_column("large", large)
    for name, values in more.items():  # with quotes, rows are written in another way
        table = table.append_column(name, values)
    write(table, place / "table.csv")
    assert "False" in run("fit", "table.csv", "--label", "large", "--max-clusters", 2)
    run("predict", "model.dkm", "table.csv", "--out", "p.csv", "--only")
    words = [line.split(",")[0] for line in (place / "p.csv").read_text().splitlines()]
    assert {*words[1:]} == {"True", "False"}
    run("predict", "model.dkm", "table.csv", "--out", "p.parquet")
    assert read(place / "p.parquet")["class"].type == pa.bool_()


@pytest.mark.parametrize("scaling", [[], ["--standardise"]])
def test_predict_tells_what_is_known(place, iris, scaling):
    write(iris.take(np.arange(50, 150, 2)), "train.csv")
    write(iris.take(np.arange(1, 150, 2)), "held-out.csv")  # with a class that is not trained
    train = "fit train.csv --raw --label species --metric euclidean --max-clusters none --force"
    told = run(train, *scaling, "--test", "held-out.csv", "--reject", "0.1")
    rate = re.search(r"Rejects at most ([\d.]+) % of rows of known classes", told)[1]
    assert 5 < float(rate) <= 10
    told = run("predict model.dkm iris.csv --out p.parquet --probabilities")
    assert "distance, known." in told
    model, X = dkmeans.load("model.dkm"), iris.select(NAMES)
    known = model[-1].is_known(model[:-1].transform(X)) if scaling else model.is_known(X)
    assert read("p.parquet")["known"].to_pylist() == known.tolist()
    assert known[50:].mean() > 0.8 > 0.2 > known[:50].mean()
    for options, message in {
        "--reject 0.1": "name a file of them as --test",
        "--reject 2 --test held-out.csv": "--reject 2.0 is not accepted",
        "--reject 0.001 --test held-out.csv": "--reject 0.001 needs at least 999 held-out rows",
    }.items():
        assert message in run(f"{train} {options}", code=1)


def test_predict_in_batches_gives_the_same(place, iris, monkeypatch):
    from dkmeans.cli import predict_command
    from dkmeans.data import table_formats, text_files

    fit("--quiet")
    table = pa.concat_tables([iris] * 4).combine_chunks()
    write(table, place / "many.parquet")
    run("predict", "model.dkm", "many.parquet", "--out", "whole.csv", "--only")
    monkeypatch.setattr(table_formats, "BATCH_ROWS", 7)
    monkeypatch.setattr(predict_command, "_DISTANCES", 18)
    run("predict", "model.dkm", "many.parquet", "--out", "parts.csv", "--only")
    assert (place / "parts.csv").read_text() == (place / "whole.csv").read_text()
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 1000)
    # The first block has whole numbers only; the others do not.
    write(
        table.set_column(0, NAMES[0], pa.array(np.r_[np.full(100, 5.0), np.full(500, 5.5)])),
        place / "many.csv",
    )
    for out in ("a.csv", "a.parquet"):
        run("predict", "model.dkm", "many.csv", "--out", out)
        assert read(place / out).num_rows == 600


def test_predict_says_which_value_is_no_number(place, iris):
    fit("--quiet")
    text = (place / "iris.csv").read_text().splitlines()
    text[5] = "five" + text[5][text[5].index(",") :]
    (place / "bad.csv").write_text("\n".join(text))
    message = run("predict", "model.dkm", "bad.csv", "--out", "p.csv", code=1)
    assert "Column 'sepal_length': 'five' in row 5 is not a number." in message
    write(iris.drop_columns([NAMES[0]]), place / "less.csv")
    message = run("predict", "model.dkm", "less.csv", "--out", "p.csv", code=1)
    assert "less.csv has no column 'sepal_length'" in message
    assert not list(place.glob(".dkmeans-*"))


def test_predict_without_column_names(place, iris):
    X, y = load_iris(return_X_y=True)
    grown(6).fit(X, y).save("plain.dkm")
    run("predict", "plain.dkm", "iris.csv", "--out", "p.csv")
    expected = dkmeans.load("plain.dkm").predict(X).tolist()
    assert read(place / "p.csv")["class"].to_pylist() == expected
    write(iris.add_column(0, "number", pa.array(range(150))), place / "more.csv")
    message = run("predict", "plain.dkm", "more.csv", "--out", "q.csv", code=1)
    assert "5 columns of numbers; the model has 4 features" in message
    run("predict", "plain.dkm", "more.csv", "--out", "q.csv", "--drop", "number")
    assert read(place / "q.csv")["class"].to_pylist() == expected


def test_works_in_a_pipe_and_in_a_narrow_terminal(place, monkeypatch):
    environment = {**os.environ, "COLUMNS": "40", "NO_COLOR": "1"}
    command = [*START, "fit", "iris.csv", "--raw", "--label", "species", "--test", "iris.csv"]
    command += ["--max-clusters", "none"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines()[2:-1])) <= 40
    assert re.search(r"^all +150 +\d+ +0\.00 +0\.00$", result.stdout, re.M), result.stdout
    monkeypatch.setenv("COLUMNS", "40")
    shown = invoke("inspect model.dkm").output
    for words in (result.stdout, shown):
        table = "".join(line[:10].strip() for line in words.splitlines())
        assert "setosa" in table, "names are there, if need be in several lines"
    printed = subprocess.run(
        [*START, "predict", "model.dkm", "iris.csv", "--out", "-"], capture_output=True, text=True
    )
    assert printed.stdout.startswith("sepal_length,")
    assert len(printed.stdout.splitlines()) == 151
    assert "150 rows" in printed.stderr


def test_a_reader_that_leaves_is_no_error(place):
    fit("--quiet")
    X = np.zeros((200_000, 4))
    write(pa.table(dict(zip(NAMES, X.T, strict=True))), place / "long.csv")
    command = [*START, "predict", "model.dkm", "long.csv", "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_predictions_leave_no_file(place, number, code):
    fit("--quiet")
    X = np.random.default_rng(0).normal(size=(400_000, 4)).round(3)
    write(pa.table(dict(zip(NAMES, X.T, strict=True))), place / "long.csv")
    before = sorted(p.name for p in place.iterdir())
    command = [*START, "predict", "model.dkm", "long.csv", "--out", "p.csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not list(place.glob(".dkmeans-*.tmp")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        error = process.stderr.read()
    assert process.returncode == code, error
    assert b"Traceback" not in error
    assert sorted(p.name for p in place.iterdir()) == before
