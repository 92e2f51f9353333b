"""`dkmeans fit --precomputed`, and what the other commands make of such models."""

import csv
import json

import numpy as np
import pytest
from commands import CliRunner
from sklearn.datasets import load_iris

from dkmeans import load
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
    assert about["training"]["error"] == model.path_.training_error[-1]
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
        (["y.csv", "--precomputed", "--label-file", "y.csv"], "are read from .npy files"),
    ],
)
def test_errors_in_a_sentence(args, message):
    np.save("flat.npy", D[:10])
    with open("short.csv", "w") as file:
        file.write("a\nb\nc\n")
    done = run("fit", *args)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
