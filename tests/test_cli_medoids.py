"""`dkmeans fit --precomputed` and `--medoids`, and what other commands make of such models."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from commands import CliRunner
from sklearn.datasets import load_iris

from dkmeans import DiscriminativeKMedoids, load
from dkmeans.cli.app import app

X, y = load_iris(return_X_y=True)
NAMES = load_iris().target_names[y]
D = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("distances.npy", D)
    np.savetxt("y.csv", y, fmt="%d")
    return tmp_path


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="dkmeans")


@pytest.mark.usefixtures("folder")
def test_fit_inspect_predict():
    done = run("fit", "distances.npy", "--precomputed", "--label-file", "y.csv")
    assert done.exit_code == 0, done.output
    assert "medoids of 3 classes" in done.output
    model = load("model.dkm")
    assert model.metric == "precomputed"
    assert model.score(D, y) > 0.95
    seen = run("inspect", "model.dkm", "--clusters").output
    assert "discriminative k-medoids, of distances" in seen
    assert str(model.medoid_indices_[0]) in seen
    about = json.loads(run("inspect", "model.dkm", "--json").output)
    assert [one["id"] for one in about["clusters"]] == model.medoid_indices_.tolist()
    assert about["training"]["error"] == pytest.approx(1 - model.score(D, y))
    for name, columns in (("all.npy", D), ("few.npy", D[:, model.medoid_indices_])):
        np.save(name, columns[:7])
        done = run("predict", "model.dkm", name, "--out", "out.csv", "--force")
        assert done.exit_code == 0, done.output
        with open("out.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        assert [int(line["class"]) for line in lines] == model.predict(D[:7]).tolist()
        near = model.medoid_indices_[model.predict_medoid(D[:7])]
        assert [int(line["medoid"]) for line in lines] == near.tolist()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", ["header", "columns", "npy"])
def test_label_files(kind):
    options = []
    if kind == "header":
        path = "names.csv"
        text = "species\n" + "\n".join(NAMES)
    elif kind == "columns":
        path, options = "names.tsv", ["--label", "species"]
        text = "id\tspecies\n" + "\n".join(f"{i}\t{name}" for i, name in enumerate(NAMES))
    else:
        path = "names.npy"
        np.save(path, NAMES)
    if kind != "npy":
        with open(path, "w") as file:
            file.write(text)
    given = ["--precomputed", "--label-file", path, "--max-clusters", "5", *options]
    done = run("fit", "distances.npy", *given)
    assert done.exit_code == 0, done.output
    assert set(load("model.dkm").medoid_classes_) == set(NAMES)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["distances.npy", "--precomputed"], "name their file as --label-file"),
        (["distances.npy", "--label-file", "y.csv"], "--label-file is for --precomputed"),
        (["distances.npy", "--precomputed", "--label-file", "short.csv"], "has 3 labels, but"),
        (["flat.npy", "--precomputed", "--label-file", "y.csv"], "has the shape (10, 150)"),
        (["distances.npy", "--precomputed", "--label-file", "y.csv", "--refine", "margin"], "drop"),
        (["y.txt", "--precomputed", "--label-file", "y.csv"], "are read from .npy, .csv and .tsv"),
        (["odd.csv", "--precomputed", "--label-file", "y.csv"], "row 2 has 1 distances, but the"),
        (["text.csv", "--precomputed", "--label-file", "y.csv"], "row 2 has 'x', where a number"),
        (["names.csv", "--precomputed", "--label-file", "y.csv"], "names.csv has no distances"),
        (
            ["distances.npy", "--precomputed", "--label-file", "y.csv", "--medoids", "l1"],
            "drop one",
        ),
        (["rows.csv", "--label", "kind", "--medoids", "manhatan"], "did you mean 'manhattan'?"),
        (["rows.csv", "--label", "kind", "--medoids", "precomputed"], "there is no such metric"),
        (["rows.csv", "--label", "kind", "--medoids", "mahalanobis"], "there is no such metric"),
        (["rows.csv", "--label", "kind", "--medoids", "dice"], "add --raw"),
        (["rows.csv", "--label", "kind", "--medoids", "l1", "--growth", "best"], "--growth is for"),
    ],
)
def test_errors_in_a_sentence(args, message):
    np.save("flat.npy", D[:10])
    texts = {
        "short.csv": "a\nb\nc\n",
        "y.txt": "1\n",
        "odd.csv": "0,1\n1\n",
        "text.csv": "0,1\n1,x\n",
        "names.csv": "a,b\n",
        "rows.csv": "u,v,kind\n1,2,a\n2,1,b\n3,1,a\n",
    }
    for name, text in texts.items():
        with open(name, "w") as file:
            file.write(text)
    done = run("fit", *args)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())


@pytest.mark.usefixtures("folder")
def test_matrices_are_symmetrised_on_request():
    askew = D * np.random.default_rng(0).uniform(0.9, 1.1, D.shape)
    np.save("askew.npy", askew)
    fit = ("fit", "askew.npy", "--precomputed", "--label-file", "y.csv")
    refused = run(*fit)
    assert refused.exit_code == 1
    assert "add --symmetrize mean, min or max" in " ".join(refused.output.split())
    assert run(*fit, "--symmetrize", "max", "--max-clusters", 5).exit_code == 0
    same = DiscriminativeKMedoids(5, metric="precomputed", symmetrize="max").fit(askew, y)
    found = load("model.dkm")
    assert found.get_params()["symmetrize"] == "max"
    np.testing.assert_array_equal(found.medoid_indices_, same.medoid_indices_)
    rows = run("fit", "rows.csv", "--label", "kind", "--symmetrize", "max")
    assert "--symmetrize is for --precomputed" in rows.output


@pytest.fixture
def table(folder):
    """Rows with a text column, for training and for tests."""
    for name, rows in (("train.csv", slice(0, None, 2)), ("test.csv", slice(1, None, 2))):
        with open(name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b", "c", "d", "colour", "species"])
            for values, species in zip(X[rows].tolist(), NAMES[rows], strict=True):
                writer.writerow([*values, "red" if values[1] > 3 else "blue", species])
    return folder


@pytest.mark.usefixtures("table")
def test_medoids_of_a_table():
    done = run(
        *("fit", "train.csv", "--label", "species", "--medoids", "manhattan"),
        *("--max-clusters", 4, "--test", "test.csv", "--reject", 0.1),
    )
    assert done.exit_code == 0, done.output
    assert "4 medoids of 3 classes" in done.output
    model = load("model.dkm")
    assert model[-1].metric == "manhattan"
    assert model[-1].rejection_.rate.max() <= 0.1
    assert "metric='manhattan'" in run("inspect", "model.dkm").output
    done = run("evaluate", "model.dkm", "test.csv", "--label", "species", "--json")
    assert done.exit_code == 0, done.output
    about = json.loads(done.output)
    assert about["clusters"] == [4]
    assert about["error"] < 0.15
    for command in ("predict", "explain"):
        done = run(command, "model.dkm", "test.csv", "--out", "out.csv", "--force")
        assert done.exit_code == 0, done.output
        with open("out.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        wrong = np.mean([line["class"] for line in lines] != NAMES[1::2])
        assert wrong == pytest.approx(about["error"])
        assert {int(line["medoid"]) for line in lines} <= set(model[-1].medoid_indices_.tolist())
    shown = run("explain", "model.dkm", "test.csv")
    assert shown.exit_code == 0, shown.output
    assert "medoid" in shown.output
    assert run("suspects", "model.dkm", "train.csv", "--label", "species").exit_code == 0
    done = run("export", "model.dkm", "--format", "json")
    assert done.exit_code == 1
    assert "is a model of medoids" in done.output


@pytest.mark.usefixtures("table")
def test_medoids_of_raw_weighted_and_standardised_rows():
    weights = np.tile([1.0, 0.0, 2.0], 50)
    np.savez("rows.npz", X=X, y=NAMES, w=weights)
    for options in ([], ["--standardise"], ["--weight", "w"], ["--weight", "w", "--standardise"]):
        done = run("fit", "rows.npz", "--medoids", "l1", "--max-clusters", 4, "--force", *options)
        assert done.exit_code == 0, done.output
        model = load("model.dkm")
        medoids = (model[-1] if "--standardise" in options else model).medoid_indices_
        assert "--weight" not in options or weights[medoids].all()
        assert model.score(X, NAMES) > 0.9
    done = run("evaluate", "train.csv", "--label", "species", "--medoids", "chebyshev", "--cv", 2)
    assert done.exit_code == 0, done.output
    assert "medoids" in done.output


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("kind", ["path", "margins", "certified", "confusion", "tree"])
def test_pictures_of_medoids(kind):
    fit = ("fit", "train.csv", "--label", "species", "--medoids", "manhattan")
    assert run(*fit, "--max-clusters", 4, "-q").exit_code == 0
    drawn = run(
        *("plot", "model.dkm", "--kind", kind, "--data", "test.csv", "--label", "species"),
        *("--out", "picture.svg"),
    )
    if kind == "tree":
        assert drawn.exit_code == 1
        assert "choose one of path, confusion" in " ".join(drawn.output.split())
    else:
        assert drawn.exit_code == 0, drawn.output


@pytest.mark.usefixtures("folder")
def test_the_first_picture_of_medoids_is_the_path():
    assert run("fit", "distances.npy", "--precomputed", "--label-file", "y.csv").exit_code == 0
    drawn = run("plot", "model.dkm")
    assert drawn.exit_code == 0, drawn.output
    assert Path("model-path.png").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", ["plain", "header", "named", "tsv"])
def test_matrices_in_text_files(kind):
    names = [f"row {i}" for i in range(len(D))]
    lines = [[*map(str, row)] for row in D.tolist()]
    if kind in ("header", "named"):
        lines.insert(0, list(names))
    if kind == "named":
        lines = [[name, *line] for name, line in zip(["", *names], lines, strict=True)]
    path = "d.tsv" if kind == "tsv" else "d.csv"
    with open(path, "w") as file:
        file.writelines(("\t" if kind == "tsv" else ",").join(line) + "\n" for line in lines)
    given = ["--precomputed", "--label-file", "y.csv", "--max-clusters", "5"]
    assert run("fit", "distances.npy", *given, "--out", "a.dkm").exit_code == 0
    done = run("fit", path, *given, "--out", "b.dkm")
    assert done.exit_code == 0, done.output
    assert load("a.dkm").medoid_indices_.tolist() == load("b.dkm").medoid_indices_.tolist()
    done = run("predict", "b.dkm", path, "--out", "-")
    assert done.exit_code == 0, done.output
