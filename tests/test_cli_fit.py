"""`dkmeans fit`: from tables of all kinds to a model, and what it says if it cannot."""

import io

import numpy as np
import pytest
from commands import GROWN, NAMES, Console, fit, invoke, pa, pa_csv, read, run, write
from models import grown
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

import dkmeans
from dkmeans.cli.fit_command import in_column_names


def test_fit_saves_a_model_and_tells_how_good_it_is(place, iris):
    text = fit("--test", "iris.csv", "--out", "my.dkm")
    model = dkmeans.load(place / "my.dkm")
    assert model.n_clusters_ == 6
    assert model.feature_names_in_.tolist() == NAMES
    assert text.startswith("Features: 4 numbers (sepal_length, sepal_width,")
    assert "6 clusters of 3 classes" in text
    error = 100 * (1 - model.score(iris.select(NAMES), iris["species"].to_pylist()))
    assert f"all 150 6 {error:.2f} {error:.2f}" in text
    assert "most confused" in text
    assert f"Model saved: {place / 'my.dkm'}" in text


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".parquet", ".feather", ".csv.gz"])
def test_formats_give_the_same_model(place, iris, kind):
    path = place / f"same{kind}"
    if kind == ".csv.gz":
        with pa.output_stream(path, compression="gzip") as stream:
            pa_csv.write_csv(iris, stream)
    else:
        write(iris, path)
    run("fit", path, "--raw", "--label", "species", *GROWN.split(), "--quiet")
    X, y = np.column_stack([iris[n] for n in NAMES]), np.array(iris["species"].to_pylist())
    expected = grown(6).fit(X, y)
    model = dkmeans.load("model.dkm")
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert model.cluster_classes_.tolist() == expected.cluster_classes_.tolist()


def test_arrays(place):
    X, y = load_digits(return_X_y=True)
    np.savez(place / "digits.npz", X=X.reshape(-1, 8, 8), y=y, digit=y, pixels=X)
    run("fit", "digits.npz", "--max-clusters", 20, "--metric", "euclidean", "--refine", "none")
    run(
        "fit digits.npz --array pixels --label digit --max-clusters 20 --metric euclidean "
        "--refine none --out b.dkm"
    )
    a, b = dkmeans.load("model.dkm"), dkmeans.load("b.dkm")
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
    assert "did you mean 'digit'?" in run(
        "fit", "digits.npz", "--raw", "--label", "digits", "--force", code=1
    )
    run("predict", "model.dkm", "digits.npz", "--out", "p.csv")
    assert read(place / "p.csv")["class"].to_pylist() == a.predict(X).tolist()


def test_standardisation_is_stored(place, iris):
    fit("--standardise")
    model = dkmeans.load("model.dkm")
    X, y = np.column_stack([iris[n] for n in NAMES]), np.array(iris["species"].to_pylist())
    scaled = StandardScaler().fit_transform(X)
    expected = grown(6).fit(scaled, y)
    np.testing.assert_array_equal(model[-1].cluster_centers_, expected.cluster_centers_)
    run("predict", "model.dkm", "iris.csv", "--out", "p.parquet")
    found = read(place / "p.parquet")
    assert found["class"].to_pylist() == expected.predict(scaled).tolist()
    np.testing.assert_allclose(found["distance"], expected.transform(scaled).min(axis=1))
    assert "standardised" in run("inspect", "model.dkm")


def test_sums_of_weights_have_few_digits(place, iris):
    write(iris.append_column("w", pa.array(np.full(150, 1 / 3))), place / "weighted.csv")
    assert "setosa 16.67 " in run(f"fit weighted.csv --label species --weight w {GROWN}")


def test_weights(place, iris):
    weights = np.where(np.arange(150) % 3, 1.0, 0.0)
    write(iris.append_column("w", pa.array(weights)), place / "weighted.csv")
    run(f"fit weighted.csv --raw --label species --weight w {GROWN}")
    model = dkmeans.load("model.dkm")
    assert model.feature_names_in_.tolist() == NAMES
    assert model.cluster_sizes_.sum() == 100


def test_columns_that_are_not_numbers_are_named(place, iris):
    extra = iris.append_column("site", pa.array(["A"] * 150))
    extra = extra.append_column("nothing", pa.nulls(150))
    write(extra, place / "extra.csv")
    words = ["fit", "extra.csv", "--raw", "--label", "species", *GROWN.split()]
    text = run(*words, code=1)
    assert "site (text, such as 'A')" in text
    assert "nothing (empty)" in text
    assert "--drop site --drop nothing" in text
    assert not (place / "model.dkm").exists()
    run(*words, "--drop", "site", "--drop", "nothing")
    assert "Left out, not numbers: site, nothing." in run(*words, "--numeric-only", "--force")
    assert dkmeans.load("model.dkm").feature_names_in_.tolist() == NAMES
    assert "did you mean 'site'" in run(*words, "--drop", "sites", "--force", code=1)


def test_missing_values_are_counted(place, iris):
    holes = iris["sepal_width"].to_pylist()
    holes[3:8] = [None] * 5
    labels = iris["species"].to_pylist()
    labels[7:9] = ["", ""]
    table = iris.set_column(1, "sepal_width", pa.array(holes))
    table = table.set_column(4, "species", pa.array(labels))
    write(table, place / "holes.csv")
    words = ["fit", "holes.csv", "--raw", "--label", "species", *GROWN.split()]
    counts = "6 of 150 rows have missing values, in sepal_width (5 rows), species (2 rows)"
    assert counts in run(*words, code=1)
    assert counts in run(*words, "--skip-missing")
    assert dkmeans.load("model.dkm").cluster_sizes_.sum() == 144
    text = run("predict", "model.dkm", "holes.csv", "--out", "p.csv", code=1)
    assert "sepal_width (5 rows)" in text
    assert not list(place.glob("*p.csv*"))
    run("predict", "model.dkm", "holes.csv", "--out", "p.csv", "--skip-missing")
    classes = read(place / "p.csv")["class"].to_pylist()
    assert [at for at, c in enumerate(classes) if not c] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fit irs.csv --raw --label species", "There is no file irs.csv. Did you mean iris.csv?"),
        ("fit iris.csv", "Name the column of labels with --label"),
        ("fit iris.csv --raw --label Specis", "did you mean 'species'?"),
        ("fit iris.csv --raw --label zzz", "there is sepal_length, "),
        (
            "fit iris.csv --raw --label species --max-clusters many",
            "a whole number >= 1, auto or none",
        ),
        (
            "fit iris.csv --raw --label species --max-clusters 2",
            "Error: --max-clusters 2 is less than",
        ),
        ("fit iris.csv --raw --label species --weight weights", "--weight: iris.csv has no column"),
        ("fit iris.csv --raw --label species --out no/model.dkm", "There is no folder no"),
        ("fit iris.csv --raw --label species --out iris.csv --force", "name another --out"),
        (
            "fit iris.csv --raw --label sepal_length --drop species",
            "labels must be text or integers",
        ),
        ("fit empty.csv --raw --label a", "empty.csv is empty"),
        ("fit header.csv --raw --label a", "has column names, but no rows"),
        ("fit twice.csv --raw --label b", "several columns of one name: a."),
        ("fit broken.parquet --raw --label a", "broken.parquet cannot be read as Parquet"),
        ("fit ragged.csv --raw --label a", "ragged.csv cannot be read as CSV"),
        ("fit table.xlsx --raw --label a", "spreadsheets are not read: save it as CSV in UTF-8"),
        ("fit . --raw --label a", "one kind is needed"),
        ("fit one.csv --raw --label b", "two classes are needed"),
        (
            "fit plain.csv --raw --label a",
            "there is 1.5, 2, x. Its first line must name the columns.",
        ),
        ("fit unnamed.csv --label c", "unnamed.csv has no column 'c'; there is '', a, b."),
        ("fit objects.npz", "it has Python objects; save arrays of numbers, and of text"),
        ("inspect iris.csv", "iris.csv is a table, where a model (.dkm) is needed"),
        ("inspect broken.dkm", "is not a dkmeans model"),
        ("predict broken.dkm iris.csv --out p.csv", "is not a dkmeans model"),
        ("plot broken.dkm", "is not a dkmeans model"),
        ("export broken.dkm --format json", "is not a dkmeans model"),
        ("benchmark digit", "did you mean 'digits'?"),
    ],
)
def test_errors_are_a_sentence(place, words, message):
    for name, text in {
        "empty.csv": "",
        "header.csv": "a,b\n",
        "twice.csv": "a,a,b\n1,2,3\n",
        "ragged.csv": "a,b\n1,2\n3\n",
        "one.csv": "a,b\n1,x\n2,x\n",
        "plain.csv": "1.5,2,x\n3,4,y\n",
        "unnamed.csv": ",a,b\n0,1,x\n1,2,y\n",
        "broken.parquet": "this is text, no table at all",
        "table.xlsx": "?",
        "broken.dkm": "this is no model at all " * 10,
    }.items():
        (place / name).write_text(text)
    np.savez("objects.npz", X=np.array([[1, "a"]], dtype=object), y=[0])
    before = sorted(p.name for p in place.iterdir())
    text = run(words, code=1)
    assert text.startswith("Error: ")
    assert message in text
    assert sorted(p.name for p in place.iterdir()) == before


def test_debug_shows_where_an_error_comes_from(place):
    for words in ("--debug fit no.csv", "fit no.csv --debug"):
        assert type(invoke(words).exception).__name__ == "InputError"


def test_an_unknown_option_has_its_own_exit_code(place):
    run("fit", "iris.csv", "--nonsense", code=2)


def test_files_are_replaced_only_by_force(place):
    fit()
    before = (place / "model.dkm").read_bytes()
    assert "add --force" in fit("--refine", "margin", code=1)
    assert (place / "model.dkm").read_bytes() == before
    fit("--refine", "margin", "--force")
    assert dkmeans.load("model.dkm").refine == "margin"
    (place / "p.csv").write_text("precious")
    assert "add --force" in run("predict", "model.dkm", "iris.csv", "--out", "p.csv", code=1)
    assert (place / "p.csv").read_text() == "precious"
    run("predict", "model.dkm", "iris.csv", "--out", "p.csv", "--force")
    assert read(place / "p.csv").num_rows == 150


def test_kinds_of_labels(place):
    x = np.linspace(-1, 1, 40)
    for name, labels, expected in [
        ("bool", x > 0, [False, True]),
        ("float", (x > 0).astype(float), [0, 1]),
        ("category", pa.array(np.where(x > 0, "b", "a").tolist()).dictionary_encode(), ["a", "b"]),
        ("brackets", np.where(x > 0, "[red]b[/red]", "[a]").tolist(), ["[a]", "[red]b[/red]"]),
    ]:
        write(pa.table({"x": x, "flag": x > 0.5, "label": labels}), "kinds.parquet")
        text = run(f"fit kinds.parquet --raw --label label --max-clusters 2 --out {name}.dkm")
        assert dkmeans.load(f"{name}.dkm").classes_.tolist() == expected
        assert f" {expected[0]} 20 " in text


def test_labels_of_a_test_file_are_of_the_same_kind(place):
    lines = [f"{i},{'1' if i < 20 else 'z'}" for i in range(40)]
    (place / "train.csv").write_text("\n".join(["x,label", *lines]))
    (place / "test.csv").write_text("\n".join(["label,x", *(f"1,{i}" for i in range(9))]))
    text = run("fit train.csv --raw --label label --test test.csv")
    assert "1 20 1 0.00 0.00 z 20 1 0.00 -" in text
    message = run("fit test.csv --raw --label label --test train.csv --out b.dkm", code=1)
    assert "two classes are needed" in message
    (place / "numbers.csv").write_text("\n".join(["label,x", *(f"{i % 2},{i}" for i in range(9))]))
    message = run("fit numbers.csv --raw --label label --test train.csv --out b.dkm", code=1)
    assert "train.csv: the labels are text, such as 1, those of the model are numbers" in message


def test_semicolons_and_a_byte_order_mark(place):
    lines = [f"{i};{i % 7};{'a' if i < 20 else 'b'}" for i in range(40)]
    (place / "semicolons.csv").write_text("\n".join(["alpha;beta;kind", *lines]), "utf-8-sig")
    run("fit semicolons.csv --raw --label kind")
    assert dkmeans.load("model.dkm").feature_names_in_.tolist() == ["alpha", "beta"]
    run("predict model.dkm semicolons.csv --out p.csv")
    assert read("p.csv").column_names[:3] == ["alpha", "beta", "kind"]


@pytest.mark.parametrize("width", [100, 50])
def test_bar_in_a_terminal(place, iris, width):
    from dkmeans.cli.fit_command import FitOptions, fit_rows, make_estimator
    from dkmeans.cli.labelled_rows import Wanted, read_numbers

    rows = read_numbers(place / "iris.csv", Wanted("species"))
    for budget, refine in (("6", "margin"), ("auto", "none"), ("none", "none")):
        options = FitOptions(place, max_clusters=budget, refine=refine, metric="euclidean")
        screen = Console(file=io.StringIO(), force_terminal=True, width=width)
        fit_rows(make_estimator(options), rows, options, screen)
        shown = screen.file.getvalue()
        assert "6 clusters" in shown if budget == "6" else "clusters" in shown
        assert ("impurity" in shown) == (width == 100)
        assert ("refining" in shown) == (refine == "margin")
        assert ("choosing the number of clusters" in shown) == (budget == "auto")
        assert "…" not in shown
        assert shown.count("\n") < 4, "the bar stays in its line"


@pytest.mark.parametrize("batch_rows", [8192, 20])  # one batch in a pass, and several
def test_the_bar_is_full_in_the_end(monkeypatch, batch_rows):
    from dkmeans import DiscriminativeKMeans
    from dkmeans.cli.fit_progress import FitProgress
    from dkmeans.growth import refine
    from dkmeans.progress import listening

    monkeypatch.setattr(refine, "BATCH_ROWS", batch_rows)
    monkeypatch.setattr(refine, "MIN_FALL", -1.0)  # all passes are made
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    bar = FitProgress(Console(file=io.StringIO()), "margin")
    shares = []
    with listening(lambda step: shares.append(bar._done(step))):
        DiscriminativeKMeans(6, metric="euclidean").fit(X, X[:, 0] > 0)
    assert shares == sorted(shares)
    *_, half, last, end = (share for share in shares if share >= 0.5)
    assert 0.9 < half < last == end == 1


def test_lines_where_there_is_no_terminal(place, monkeypatch):
    from dkmeans.cli import fit_progress

    assert "growing" not in fit("--out", "a.dkm")
    monkeypatch.setattr(fit_progress, "_SILENCE", -1)
    text = fit("--out", "b.dkm", "--refine", "margin")
    assert "growing: round 1, 3 clusters, impurity" in text
    assert "refining: round" in text
    assert fit("--out", "c.dkm", "--quiet") == ""


def test_warnings_speak_of_options(place):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    write(pa.table({"a": X[:, 0], "b": X[:, 1], "noise": labels}), "noise.csv")
    text = run("fit noise.csv --raw --label noise --max-clusters none")
    assert "Note: " in text
    assert "so noise is probably fitted too: set --max-clusters." in text
    assert run("fit noise.csv --raw --label noise --max-clusters none --force --quiet") == ""
    text = run("fit noise.csv --raw --label noise --max-clusters none --metric learned --force")
    assert "as --max-clusters none had grown until every label was fitted" in text
    assert "drop --max-clusters none, or add --refine none and --metric euclidean." in text
    text = run("fit noise.csv --raw --label noise --max-clusters 500 --refine none --force")
    assert "before --max-clusters 500, as" in text
    assert "fitted too: lower --max-clusters, or drop it." in text
    columns = {"a": X[:, 0], "b": 1e4 * X[:, 1], "noise": labels}
    write(pa.table(columns), "units.csv")
    text = run("fit units.csv --raw --label noise --max-clusters 9 --metric euclidean --force")
    assert "so it decides most distances: use --metric learned, or add --standardise." in text
    text = run(
        "fit units.csv --raw --label noise --max-clusters 9 --metric euclidean --n-components 2 "
        "--force"
    )
    assert (
        "--n-components 2 has no effect with --metric euclidean: set --metric learned, or leave it "
        "out." in " ".join(text.split())
    )


def test_warnings_name_columns(place):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    rare = np.where(np.arange(200) % 50 == 0, -9999.0, rng.normal(size=200))
    columns = {"plain": rng.normal(size=200) + y, "holes": rare, "class": y}
    write(pa.table(columns), "codes.csv")
    text = run("fit codes.csv --label class --max-clusters 4 --metric learned")
    assert "Note: Feature 'holes' has a standard deviation of " in text
    text = run("evaluate codes.csv --label class --max-clusters 4 --metric learned")
    assert text.count("Feature 'holes' has a standard deviation of ") == 1, "once for all folds"


def test_columns_instead_of_numbers():
    names = np.array([f"x{i}" for i in range(13)])
    for text, named in (
        ("Feature number 3 has", "Feature 'x3' has"),
        ("Features number 0, 1 and 12 have", "Features 'x0', 'x1' and 'x12' have"),
        ("Features number 0, 1, 5 and 12 more", "Features 'x0', 'x1', 'x5' and 12 more"),
        ("a number of 12 features", "a number of 12 features"),
    ):
        assert in_column_names(text, names) == named


def test_a_class_without_clusters_is_named(place):
    write(pa.table({"a": [0, 0, 0, 1, 1] * 9, "kind": ["x", "x", "y", "z", "z"] * 9}), "same.csv")
    text = run("fit same.csv --label kind")
    note = "Note: Class 'y' has no prototype, so it is never predicted: all its rows are"
    assert note in text
    assert note in run("condense same.csv --label kind --out small.csv")
    assert "error 20.00 %" in run("inspect model.dkm")
    assert "class-wise k-means" in run("compare same.csv --label kind --cv 2")
