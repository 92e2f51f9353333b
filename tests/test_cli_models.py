"""`dkmeans inspect`, `plot`, `export` and `benchmark`."""

import json
import warnings

import numpy as np
import pytest
from commands import NAMES, fit, read, run, write
from sklearn.datasets import load_digits

import dkmeans

pytest.importorskip("matplotlib")

from dkmeans.cli.app import PictureKind
from dkmeans.plots import SuspectImagesDisplay


def test_inspect(place, iris):
    fit("--refine", "margin", "--quiet")
    text = run("inspect", "model.dkm", "--clusters")
    for words in (
        "4 features: sepal_length",
        "3: setosa, versicolor, virginica",
        "metric='euclidean'",
        " metric euclidean parameters ",
    ):
        assert words in text
    model = dkmeans.load("model.dkm")
    error = np.mean(model.predict(iris.select(NAMES)) != iris["species"].to_pylist())
    assert f"150 rows, error {100 * error:.2f} %" in text
    for number in model.cluster_ids_:
        assert f" {number} " in text
    assert "stopped at its number of clusters" in text
    run("fit iris.csv --label species --max-clusters auto --refine none --force --quiet")
    assert "stopped at the number chosen on held-out rows" in run("inspect", "model.dkm")


ELSEWHERE = (PictureKind.cells, PictureKind.tree, PictureKind.path)  # drawn by `test_plot`


@pytest.mark.parametrize(
    "words",
    [
        "model.dkm",
        "model.dkm --kind tree --out tree.svg",
        "model.dkm --kind path --out path.pdf",
        "model.dkm --kind cells --data iris.csv --label species --out cells.png",
        "model.dkm --kind confusion --data iris.csv --label species",
        "model.dkm --kind margins --data iris.csv --label species",
        "iris.csv --label species --max-clusters 6 --standardise",
        "iris.csv --label species --drop sepal_length --drop sepal_width --kind growth",
        "digits.npz --max-clusters 10 --refine none --kind prototypes --shape 8x8",
    ],
)
def test_plot(place, words):
    fit("--quiet")
    X, y = load_digits(return_X_y=True)
    np.savez("digits.npz", X=X[:400], y=y[:400])
    before = set(place.iterdir())
    text = run("plot " + words)
    (new,) = set(place.iterdir()) - before
    assert str(new) in text
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[new.suffix]
    assert new.read_bytes().startswith(start)
    assert "add --force" in run("plot " + words, code=1)


def test_plot_says_once_which_signs_are_missing(place, iris):
    species = np.array(["\U0001f33a", "\U0001f33b", "lily"])[np.arange(150) // 50]
    write(iris.set_column(4, "species", [species.tolist()]), "signs.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = run("plot signs.csv --label species --max-clusters 3 --kind tree")
    assert text.count("Note: ") == 1
    assert "the font of pictures lacks \U0001f33a, \U0001f33b: boxes stand for them." in text


def test_a_picture_of_suspects_has_those_of_the_list(place, monkeypatch):
    X, y = load_digits(return_X_y=True)
    y[20:320:30] = (y[20:320:30] + 1) % 10
    np.savez("digits.npz", X=X[:400], y=y[:400])
    run("suspects digits.npz --out list.csv")
    captions = []
    caption = SuspectImagesDisplay._caption

    def kept(*arguments):
        captions.append(caption(*arguments))
        return captions[-1]

    monkeypatch.setattr(SuspectImagesDisplay, "_caption", kept)
    run("plot digits.npz --kind suspects --shape 8x8")
    rows = read("list.csv")["row"].to_pylist()
    assert len(rows) > 5
    assert [text.split(":")[0] for text in captions] == [f"row {row}" for row in rows[:24]]


def test_every_kind_of_plot_is_drawn(place):
    fit("--quiet", "--metric", "learned", "--test", "iris.csv", "--reject", "0.1")
    rows = "--data iris.csv --label species --shape 2x2"
    for kind in PictureKind:
        if kind not in (PictureKind.growth, *ELSEWHERE):
            run(f"plot model.dkm --kind {kind.value} {rows} --out {kind.value}.png")
            assert (place / f"{kind.value}.png").stat().st_size > 3000
    for kind in (PictureKind.profiles, PictureKind.parallel):
        run(f"plot model.dkm --kind {kind.value} --out {kind.value}.svg")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--kind confusion", "add --data FILE --label COLUMN"),
        ("--kind prototypes", "such as --shape 28x28"),
        ("--kind importances", "--metric learned"),
        ("--kind rejection --data iris.csv --label species", "fit it with --reject and --test"),
        ("--kind prototypes --shape 3x3", "4 features"),
        ("--out picture.bmp", "pictures are written as .png"),
    ],
)
def test_plot_says_what_it_needs(place, words, message):
    fit("--quiet")
    assert message in run("plot model.dkm " + words, code=1)
    assert not list(place.glob("*-*.png"))


def test_plot_takes_rows_of_other_classes_for_unknown_ones(place, iris, monkeypatch):
    from dkmeans.plots import RejectionDisplay

    seen, plot = [], RejectionDisplay.plot

    def noted(display, *args, **options):
        seen.append(display)
        return plot(display, *args, **options)

    monkeypatch.setattr(RejectionDisplay, "plot", noted)
    write(iris.take(np.arange(50, 150)), "train.csv")
    write(iris.take(np.arange(50)), "others.csv")
    options = "--label species --raw --metric euclidean --max-clusters 6 --quiet"
    run(f"fit train.csv {options} --test train.csv --reject 0.1")
    run("plot model.dkm --kind rejection --data iris.csv --label species")
    run("plot model.dkm --kind rejection --data train.csv --label species --out known.png")
    first, second = seen
    assert (len(first.known), len(first.unknown), first.wrong) == (100, 50, None)
    assert (len(second.wrong), second.unknown) == (100, None)
    words = "plot model.dkm --kind rejection --data others.csv --label species --out no.png"
    assert "rows of classes that the model knows" in run(words, code=1)


def test_every_display_has_a_kind():
    from dkmeans import plots
    from dkmeans.cli.plot_command import PICTURES

    assert [kind.value for kind in PictureKind] == list(PICTURES)
    drawn = {name for picture in PICTURES.values() for name in _displays(picture.draw)}
    assert drawn == set(plots.__all__)


def _displays(draw):
    """Name the displays that a function uses."""
    return [name for name in draw.__code__.co_names if name.endswith("Display")]


@pytest.mark.parametrize(("scale", "chosen"), [(1.0, "euclidean"), (1e4, "learned")])
def test_inspect_names_the_metric_that_was_chosen(place, iris, scale, chosen):
    X = np.stack([iris[name].to_numpy() for name in NAMES], axis=1) * [1, 1, 1, scale]
    X = np.concatenate([X, X + 0.01])
    y = np.tile(iris["species"].to_pylist(), 2)
    model = dkmeans.DiscriminativeKMeans(6).fit(X, y)
    model.save("model.dkm")
    about = json.loads(run("inspect", "model.dkm", "--json"))
    assert (about["parameters"]["metric"], about["metric"]) == ("auto", chosen)
    rank = f", of rank {len(model.components_)}" if chosen == "learned" else ""
    assert f" metric {chosen}{rank} parameters " in run("inspect", "model.dkm")


@pytest.mark.parametrize("shape", ["", " --shape 2x2"])
def test_plot_importances(place, shape):
    fit("--quiet", "--metric", "learned")
    assert "model-importances.png" in run("plot model.dkm --kind importances" + shape)
    assert "metric='learned'" in run("inspect", "model.dkm")


def test_explain_in_a_learned_metric(place, iris):
    fit("--quiet", "--metric", "learned")
    run("explain model.dkm iris.csv --out why.csv")
    model = dkmeans.load("model.dkm")
    parts = model.explain(iris.select(NAMES).to_pandas(), features=True).parts
    assert parts.shape == (150, 4)
    first = [reasons.split(" ")[0] for reasons in read("why.csv")["decided_by"].to_pylist()]
    assert first == [NAMES[j] for j in parts.argmax(axis=1)]


def test_export(place):
    fit("--quiet")
    assert "learned space" not in run("export model.dkm --format csv")
    assert read(place / "model.csv").num_rows == 6
    fit("--metric", "learned", "--out", "learned.dkm", "--quiet")
    assert "Note: they are points of the learned space" in run("export learned.dkm --format csv")
    assert run("export model.dkm", code=1) == "Error: Add --format: one of onnx, json, csv."
    assert "Add --format" in run("export model.dkm --out other.txt", code=1)
    run("export model.dkm --out other.json")
    assert len(json.loads((place / "other.json").read_text())["prototypes"]) == 6
    assert "add --force" in run("export model.dkm --format csv", code=1)
    onnx = pytest.importorskip("onnx")
    run("export model.dkm --format onnx")
    onnx.checker.check_model(onnx.load(place / "model.onnx"))


def test_benchmarks_are_listed_and_run(place, monkeypatch):
    assert "breast-cancer" in run("benchmark")
    text = run("benchmark", "wine")
    result = json.loads(text[text.index("RESULT ") + 7 :])
    assert result["benchmark"] == "wine"
    assert {"dkmeans", "class-wise k-means"} <= {m["method"] for m in result["methods"]}
    checkout = place / "checkout"
    for folder in ("benchmarks", "src/dkmeans", "docs"):
        (checkout / folder).mkdir(parents=True)
    script = '"""Echo what it is given."""\nimport sys\nif __name__ == "__main__":\n'
    script += "    sys.exit(len(sys.argv))\n"
    (checkout / "benchmarks" / "echo.py").write_text(script)
    monkeypatch.chdir(checkout / "docs")
    assert "Echo what it is given." in run("benchmark")
    run("benchmark", "echo", "--quick", "3", code=3)
