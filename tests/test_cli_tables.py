"""Commands on tables as people have them: columns of all kinds, holes, folders, images."""

import gzip
import io
import json
import sys

import numpy as np
import pytest
from commands import GROWN, pa_parquet, read, run
from models import grown
from test_table_pipeline import mixed

import dkmeans
from dkmeans.cli import frame_rows
from dkmeans.tables.kinds import kinds_of
from dkmeans.tables.pipeline import build_pipeline, fit_preprocessing
from dkmeans.tables.statistics import TableStatistics

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")
pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")

FIT = f"--label kind {GROWN}"
FEATURES = "2 numbers (height, visits), 1 Boolean (member), 1 date (since), 1 category (colour)"


def table(n=200):
    frame, y = mixed(n)
    return frame.assign(kind=y)


@pytest.fixture
def trees(place):
    """A folder with a table of columns of all kinds, and the table."""
    frame = table()
    frame.to_csv(place / "trees.csv", index=False)
    return frame


def expected_model(frame):
    """The model of a table, by the library alone."""
    columns = frame.drop(columns="kind")
    statistics = TableStatistics(kinds_of(columns))
    statistics.add(columns)
    pipeline = build_pipeline(kinds_of(columns), grown(6))
    X = fit_preprocessing(pipeline, statistics).transform(columns)
    pipeline[-1].fit(X, frame["kind"].to_numpy(dtype=str))
    return pipeline


def assert_same_model(a, b):
    np.testing.assert_array_equal(a[-1].cluster_centers_, b[-1].cluster_centers_)
    assert a[-1].cluster_classes_.tolist() == b[-1].cluster_classes_.tolist()
    assert a[:-1].get_feature_names_out().tolist() == b[:-1].get_feature_names_out().tolist()


def semicolons(frame, path):
    frame.to_csv(path, index=False, sep=";", decimal=",")


def in_parts(frame, path):
    path.mkdir()
    for number, start in enumerate(range(0, len(frame), 70)):
        frame.iloc[start : start + 70].to_csv(path / f"part-{number}.csv", index=False)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("t.csv", lambda frame, path: frame.to_csv(path, index=False)),
        ("t.csv.gz", lambda frame, path: frame.to_csv(path, index=False)),
        ("t.tsv", lambda frame, path: frame.to_csv(path, index=False, sep="\t")),
        ("commas.csv", semicolons),
        ("t.parquet", lambda frame, path: frame.to_parquet(path, index=False)),
        ("t.feather", lambda frame, path: frame.to_feather(path)),
        ("folder", in_parts),
    ],
)
def test_all_formats_give_the_model_of_the_library(trees, place, name, write):
    write(trees, place / name)
    text = run(f"fit {name} {FIT} --test {name}")
    assert f"Features: {FEATURES}." in text
    model = dkmeans.load("model.dkm")
    assert_same_model(model, expected_model(trees))
    run(f"predict model.dkm {name} --out p.parquet")
    assert read("p.parquet")["class"].to_pylist() == model.predict(trees).tolist()
    run(f"predict model.dkm {name} --out p.csv --only")
    assert read("p.csv").column_names == ["class", "probability", "cluster_id", "distance"]


def test_blocks_and_memory_give_the_same_model(trees, place, monkeypatch):
    trees.head(50).to_csv("few.csv", index=False)
    run("fit few.csv --label kind --max-clusters 3")
    monkeypatch.setattr(frame_rows, "total_memory", lambda: 15_000)
    text = run("fit few.csv --label kind --max-clusters 3 --test few.csv --out blocks.dkm")
    assert "it is read in blocks" in text
    assert_same_model(dkmeans.load("blocks.dkm"), dkmeans.load("model.dkm"))


@pytest.mark.parametrize("memory_mb", [None, 0.01])
def test_the_library_fits_tables_on_disk(trees, memory_mb):
    trees.assign(id=np.arange(200)).to_csv("more.csv", index=False)
    with pytest.warns(UserWarning, match=r"Left out: id \(counts the rows\)"):
        model = dkmeans.fit_table("more.csv", "kind", grown(6), memory_mb=memory_mb)
    assert_same_model(model, expected_model(trees))
    named = dkmeans.fit_table("more.csv", "kind", grown(3), columns=["height", "id"])
    assert named.feature_names_in_.tolist() == ["height", "id"]


@pytest.mark.parametrize("content", ["text", "parquet", "gzip"])
def test_standard_input(trees, place, monkeypatch, content):
    trees.to_parquet(place / "t.parquet")
    data = {
        "text": (place / "trees.csv").read_bytes(),
        "parquet": (place / "t.parquet").read_bytes(),
        "gzip": gzip.compress((place / "trees.csv").read_bytes()),
    }[content]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    from dkmeans.cli.inputs import resolve_input
    from dkmeans.cli.labelled_rows import Wanted
    from dkmeans.cli.rows import open_rows, whole

    rows = open_rows(resolve_input(dkmeans.cli.inputs.STDIN), Wanted("kind"))
    assert whole(rows).y.tolist() == trees["kind"].tolist()


def test_columns_that_are_no_features_are_told(trees, place):
    more = trees.assign(number=np.arange(200) + 5, name=[f"n{i}" for i in range(200)], site="A")
    more.to_csv("more.csv")  # with an index
    text = run(f"fit more.csv {FIT}")
    assert (
        "Left out: '', number (counts the rows); name (a different text in every row); site (the "
        "same value in all rows)." in text
    )
    assert_same_model(dkmeans.load("model.dkm"), expected_model(trees))
    assert "kept" not in run(f"fit more.csv {FIT} --columns height,visits,number --force")
    assert dkmeans.load("model.dkm").feature_names_in_.tolist() == ["height", "visits", "number"]
    run(f"fit more.csv {FIT} --drop colour,member --drop since --force")
    assert dkmeans.load("model.dkm").feature_names_in_.tolist() == ["height", "visits"]
    told = run("columns more.csv --label kind")
    assert "number number 5 to 204 left out: counts the rows" in told
    assert "colour category 4: " in told
    about = json.loads(run("columns more.csv --label kind --json"))
    assert {c["name"]: c["use"] for c in about["columns"]}["site"].startswith("left out")


def test_codes_are_categories_on_request(trees):
    trees.assign(store_id=np.arange(200) % 4).to_csv("codes.csv", index=False)
    message = run(f"fit codes.csv {FIT}", code=1)
    assert "'store_id' is named like an identifier" in message
    assert "--drop store_id" in message
    run(f"fit codes.csv {FIT} --category store_id")
    features = dkmeans.load("model.dkm")[:-1].get_feature_names_out()
    assert {"store_id_0", "store_id_3"} <= set(features)


def test_index_that_pandas_stored(trees, place):
    trees.set_index(pd.Index(np.arange(200)[::-1] ** 2, name="key")).to_parquet("t.parquet")
    assert "Left out, the index that pandas stored: key." in run(f"fit t.parquet {FIT}")
    assert_same_model(dkmeans.load("model.dkm"), expected_model(trees))


def test_missing_values_of_new_rows_and_new_levels(trees):
    run(f"fit trees.csv {FIT} --impute mean")
    model = dkmeans.load("model.dkm")
    imputer = model[0].named_transformers_["numbers"]["imputer"]
    assert imputer.strategy == "mean"
    np.testing.assert_allclose(imputer.statistics_[0], trees["height"].mean())
    new = trees.assign(colour="pink", height=np.nan).head(3)
    new.to_csv("new.csv", index=False)
    run("predict model.dkm new.csv --out p.csv")
    assert read("p.csv")["class"].to_pylist() == model.predict(new).tolist()
    run("predict model.dkm new.csv --out p.csv --skip-missing --force")
    assert pd.read_csv("p.csv")["class"].isna().all()
    assert "of 200 rows have missing values" in run(f"fit trees.csv {FIT} --skip-missing --force")


def test_labels_that_are_missing(trees):
    trees.assign(kind=trees["kind"].where(trees.index != 3)).to_csv("holes.csv", index=False)
    message = run(f"fit holes.csv {FIT}", code=1)
    assert "1 of 200 rows has missing values, in kind (1 row)" in message
    assert "leave these rows out with --skip-unlabelled" in message
    assert "kind label 3: ash, elm, oak label 0.5" in run("columns holes.csv --label kind")
    rows = trees.drop(index=3)
    assert rows.drop(columns="kind").isna().any(axis=None)
    run(f"fit holes.csv {FIT} --skip-unlabelled")  # holes in features are filled
    assert_same_model(dkmeans.load("model.dkm"), expected_model(rows))
    run(f"fit holes.csv {FIT} --skip-missing --force")
    assert_same_model(dkmeans.load("model.dkm"), expected_model(rows.dropna()))


@pytest.mark.parametrize(
    "command",
    [
        "evaluate holes.csv --cv 2",
        "compare holes.csv --cv 2",
        "suspects holes.csv",
        "condense holes.csv --out small.csv",
        "plot holes.csv --kind tree",
        "evaluate model.dkm holes.csv",
        "suspects model.dkm holes.csv",
    ],
)
def test_every_command_skips_rows_without_a_label(trees, command):
    run(f"fit trees.csv {FIT}")
    trees.assign(kind=trees["kind"].where(trees.index > 3)).to_csv("holes.csv", index=False)
    limits = "" if "model.dkm" in command or "condense" in command else "--max-clusters 6"
    words = f"{command} --label kind {limits}"
    assert "leave these rows out with --skip-unlabelled" in run(words, code=1)
    told = run(f"{words} --skip-unlabelled")
    assert "Left out: 4 of 200 rows have missing values, in kind (4 rows)." in told


def test_rows_are_counted_as_in_the_table_where_some_are_left_out(trees):
    trees = trees.drop(columns=["colour", "since"])  # without holes in text
    trees.assign(kind=trees["kind"].where(trees.index > 3)).to_csv("holes.csv", index=False)
    trees.drop(index=range(4)).to_csv("whole.csv", index=False)
    for name, more in (("holes.csv", "--skip-unlabelled"), ("whole.csv", "")):
        run(f"suspects {name} --label kind --max-clusters 6 --n 9 --out s-{name} {more}")
        run(f"condense {name} --label kind --n 12 --out c-{name} {more}")
    found, other = pd.read_csv("s-holes.csv"), pd.read_csv("s-whole.csv")
    assert found["row"].tolist() == (other["row"] + 4).tolist()
    pd.testing.assert_frame_equal(pd.read_csv("c-holes.csv"), pd.read_csv("c-whole.csv"))


def test_holes_count_in_features_only(trees, monkeypatch):
    note = np.where(np.arange(200) % 3, np.nan, 1.0)  # a single value: no feature
    name = [None, *(f"n{i}" for i in range(199))]
    trees.assign(note=note, name=name).to_csv("more.csv", index=False)
    run(f"fit more.csv {FIT} --skip-missing --quiet")
    expected = expected_model(trees.dropna())
    assert_same_model(dkmeans.load("model.dkm"), expected)
    monkeypatch.setattr(frame_rows, "total_memory", lambda: 15_000)
    told = run(f"fit more.csv {FIT} --skip-missing --force --test more.csv")
    n = len(trees.dropna())
    assert f"Left out: {200 - n} of 200 rows with missing values." in told
    assert_same_model(dkmeans.load("model.dkm"), expected)


@pytest.mark.parametrize("memory_mb", [None, 0.01])
def test_the_library_skips_rows_without_a_label(trees, memory_mb):
    trees.assign(kind=trees["kind"].where(trees.index != 3)).to_csv("holes.csv", index=False)
    with pytest.raises(ValueError, match=r"in row 4: fill it in.*`skip_unlabelled=True`"):
        dkmeans.fit_table("holes.csv", "kind", grown(6), memory_mb=memory_mb)
    options = {"memory_mb": memory_mb, "skip_unlabelled": True}
    model = dkmeans.fit_table("holes.csv", "kind", grown(6), **options)
    assert_same_model(model, expected_model(trees.drop(index=3)))
    trees.assign(kind=None).to_csv("none.csv", index=False)
    with pytest.raises(ValueError, match=r"No row of none\.csv has a label"):
        dkmeans.fit_table("none.csv", "kind", **options)


def test_skipping_in_arrays_and_raw_tables(trees):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, 1.0, 2.0)
    y[:3], X[10, 0] = np.nan, np.nan
    np.savez("a.npz", X=X, y=y)
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv("a.csv", index=False)
    for source in ("a.npz", "a.csv --raw"):
        words = f"fit {source} --label y --max-clusters 3 --force"
        assert "4 of 60 rows have missing values" in run(words, code=1)
        assert "with --skip-missing" in run(f"{words} --skip-unlabelled", code=1)
        run(f"{words} --skip-missing")
        assert dkmeans.load("model.dkm").cluster_sizes_.sum() == 56


def test_skipping_all_rows_says_how_to_go_on(trees):
    rows = trees.assign(height=trees["height"].where(trees.index % 2 > 0))
    rows = rows.assign(visits=rows["visits"].where(trees.index % 2 == 0))
    rows.to_csv("empty.csv", index=False)
    message = run(f"fit empty.csv {FIT} --skip-missing", code=1)
    assert "200 of 200 rows have missing values" in message
    assert "No row is left: leave out columns with many of them with --drop." in message


def test_index_of_chosen_rows(trees):
    trees[trees.index % 3 > 0].to_csv("chosen.csv")  # with an index that has gaps
    assert "Left out: '' (a different number in every row)." in run(f"fit chosen.csv {FIT}")


def test_decimal_commas_become_points_in_text(trees, place):
    semicolons(trees.drop(columns="since"), place / "t.csv")
    run(f"fit t.csv {FIT}")
    run("predict model.dkm t.csv --out p.csv")
    run("condense t.csv --label kind --n 20 --out small.csv")
    for name in ("p.csv", "small.csv"):
        found = pd.read_csv(name, dtype=str)["height"].dropna()
        assert found.map(float).isin(trees["height"]).all()  # old versions of pandas round floats
    run("fit small.csv --label kind --weight weight --max-clusters 3 --out small.dkm")


def test_wrong_choices_are_a_plain_sentence(trees):
    message = run("plot trees.csv --kind cellz", code=2)
    assert "Invalid value for '--kind': 'cellz' is not one of 'cells', 'tree'" in message


@pytest.mark.parametrize("raw", ["", "--raw --columns height,visits,member"])
def test_stored_predictions_keep_the_types_of_columns(trees, place, raw):
    trees = trees.dropna().convert_dtypes().assign(big=lambda rows: 2**60 + np.arange(len(rows)))
    trees.to_csv("t.csv", index=False)
    in_parts(trees, place / "parts")
    run(f"fit t.csv {FIT} {raw or '--drop big'}")
    for name in ("t.csv", "parts"):
        run(f"predict model.dkm {name} --out p.parquet --force")
        stored = read("p.parquet")
        types = {field.name: str(field.type) for field in stored.schema}
        expected = {"height": "double", "visits": "int64", "member": "bool", "big": "int64"}
        assert {column: types[column] for column in expected} == expected
        for column in ("visits", "member", "big"):
            assert stored[column].to_pylist() == trees[column].tolist()
    if not raw:
        holes = trees.assign(visits=trees["visits"].where(np.arange(len(trees)) > 0))
        holes.to_csv("holes.csv", index=False)
        run("predict model.dkm holes.csv --out p.parquet --force")
        assert read("p.parquet")["visits"].to_pylist()[:2] == [None, trees["visits"].iloc[1]]


def test_parts_need_rows_of_each_class(place):
    def told(counts, words="--cv 5"):
        y = np.repeat(list(counts), list(counts.values()))
        frame = pd.DataFrame({"x": np.arange(len(y)) % 7, "y": y})
        frame.to_csv(place / "few.csv", index=False)
        return run(f"evaluate few.csv --label y --raw {words}", code=1)

    assert "b has 3: leave this class out, or add --cv 3." in told({"a": 9, "b": 3, "c": 9})
    assert "c has 2: leave out the classes that have fewer, or add --cv 2." in told(
        {"a": 9, "b": 3, "c": 2, "d": 9}
    )
    assert "has 1, and no class has enough: add more rows, or check that --label" in told(
        dict.fromkeys("abcd", 1)
    )
    assert "and only one class has enough: add --cv 3." in told({"a": 9, "b": 3, "c": 3})
    assert "b has 1: add more rows" in told({"a": 9, "b": 1}, "--test-size 0.5")


def test_evaluate(trees):
    text = run(f"evaluate trees.csv {FIT} --cv 3")
    assert "200 rows in 3-fold cross-validation: error " in text
    assert "true \\ predicted ash elm oak" in text
    about = json.loads(run(f"evaluate trees.csv {FIT} --test-size 0.25 --json"))
    assert about["rows"] == 50
    confusion = np.array(about["confusion"])
    assert about["error"] == pytest.approx(1 - np.trace(confusion) / 50)
    errors = 1 - np.diag(confusion) / confusion.sum(axis=1)
    assert about["balanced_error"] == pytest.approx(errors.mean())
    run(f"fit trees.csv {FIT}")
    model = dkmeans.load("model.dkm")
    about = json.loads(run("evaluate model.dkm trees.csv --label kind --json"))
    assert about["error"] == pytest.approx(1 - model.score(trees, trees["kind"]))


def test_compare(trees, place):
    text = run(f"compare trees.csv {FIT} --test-size 0.3 --rows 150 --out c.png")
    for method in ("dkmeans", "class-wise k-means", "5-NN", "SVM", "boosting"):
        assert method in text
    assert "150 of 200 rows are used" in text
    assert (place / "c.png").stat().st_size > 5000
    about = run(f"benchmark trees.csv {FIT} --test-size 0.3 --json --quiet")
    assert len(json.loads(about)["methods"]) == 6


def test_explain(trees):
    run(f"fit trees.csv {FIT}")
    model = dkmeans.load("model.dkm")
    shown = run("explain model.dkm trees.csv")
    assert "decided by" in shown
    assert "The first 20 rows" in shown
    run("explain model.dkm trees.csv --out why.parquet")
    found = read("why.parquet").to_pandas()
    assert found["row"].tolist() == list(range(1, 201))
    assert found["class"].tolist() == model.predict(trees).tolist()
    why = model[-1].explain(model[:-1].transform(trees))
    np.testing.assert_array_equal(found["radius"], why.radius)
    shares = [sum(int(p.split()[-2]) for p in text.split(", ")) for text in found["decided_by"]]
    assert 33 <= min(shares) <= max(shares) <= 102


@pytest.mark.parametrize("metric", ["cosine", "learned"])
def test_explain_splits_the_margin_of_any_metric(trees, metric):
    run(f"fit trees.csv {FIT} --metric {metric}")
    model = dkmeans.load("model.dkm")
    run("explain model.dkm trees.csv --out why.parquet")
    why = model[-1].explain(model[:-1].transform(trees), features=True)
    of_columns = {
        "height": [0],
        "visits": [1],
        "member": [2],
        "since": [3],
        "colour": [4, 5, 6, 7, 8],
    }
    parts = {name: why.parts[:, which].sum(axis=1) for name, which in of_columns.items()}
    first = read("why.parquet")["decided_by"].to_pylist()
    for row in range(0, 200, 20):
        assert first[row].split()[0] == max(parts, key=lambda name: parts[name][row])


def test_suspects(trees):
    wrong = [7, 60, 120]
    frame, y = mixed()
    clean = frame.assign(height=1.5 + 0.5 * np.unique(y, return_inverse=True)[1], kind=y)[
        ["height", "visits", "kind"]
    ]
    clean.loc[wrong, "kind"] = clean["kind"].map({"ash": "elm", "elm": "oak", "oak": "ash"})[wrong]
    clean.to_csv("clean.csv", index=False)
    run("suspects clean.csv --label kind --n 3 --out s.csv")
    assert sorted(read("s.csv")["row"].to_pylist()) == [row + 1 for row in wrong]
    run("fit clean.csv --label kind --max-clusters 3")
    shown = run("suspects model.dkm clean.csv --label kind --n 3")
    assert "3 of 200 labels may be wrong" in shown


def test_condense(trees):
    run("condense trees.csv --label kind --n 9 --out small.csv")
    small = pd.read_csv("small.csv")
    assert len(small) == 9
    assert small["weight"].sum() == 200
    rows = pd.read_csv("trees.csv").astype(str).apply(tuple, axis=1)
    kept = small.drop(columns="weight").astype(str).apply(tuple, axis=1)
    assert set(kept) <= set(rows)
    run("condense trees.csv --label kind --n 6 --keep prototypes --out p.parquet")
    found = read("p.parquet")
    assert "colour=red" in found.column_names
    assert 1 < np.mean(found["height"].to_numpy()) < 3


def test_inspect(trees):
    run(f"fit trees.csv {FIT}")
    text = run("inspect model.dkm --features")
    assert f"9 features of {FEATURES}" in text
    assert "colour category 5: blue, green, mauve, red, missing; rare, pooled: 1" in text
    about = json.loads(run("inspect model.dkm --json"))
    assert about["classes"] == ["ash", "elm", "oak"]
    assert about["n_clusters"] == len(about["clusters"]) == 6
    assert [c["kind"] for c in about["columns"]] == [
        "number",
        "number",
        "category",
        "boolean",
        "date",
    ]
    assert run("export model.dkm --format csv").startswith("Prototypes saved")
    assert pd.read_csv("model.csv")["since"].str.match(r"\d{4}-\d\d-\d\d").all()


@pytest.mark.parametrize("kind", ["cells", "confusion", "margins", "tree"])
def test_plots(trees, place, kind):
    run(f"plot trees.csv {FIT} --kind {kind} --out p.png")
    assert (place / "p.png").stat().st_size > 5000


@pytest.fixture
def images(place):
    """Folders of dark and bright images of two sizes."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name, low in (("bright", 150), ("dark", 0)):
        (place / "images" / name).mkdir(parents=True)
        for number in range(12):
            size = (8, 8) if number % 2 else (10, 12)
            values = rng.integers(low, low + 100, size).astype(np.uint8)
            image.fromarray(values).save(place / "images" / name / f"{number}.png")
    return place / "images"


def test_image_folders(images, place):
    message = run("fit images", code=1)
    assert "differ in size, such as 8x8 and 10x12: give --size" in message
    run("fit images --size 8x8 --max-clusters 2")
    model = dkmeans.load("model.dkm")
    assert model.n_features_in_ == 64
    assert model.cluster_centers_.dtype == np.float32
    run("predict model.dkm images --out p.csv")
    found = read("p.csv")
    assert [f.split("/")[0] for f in found["file"].to_pylist()] == found["class"].to_pylist()
    run("plot model.dkm --kind prototypes --out p.png")  # --shape is known
    run("plot images --size 6 --max-clusters 2 --kind exemplars --out e.png")
    assert "error 0.00 %" in run("evaluate images --size 6 --max-clusters 2 --cv 2")
    (images / "dark" / "broken.png").write_text("no image")
    assert "broken.png cannot be read as an image" in run("fit images --size 8x8 --force", code=1)


BAD_TABLES = {
    "one column": ("kind\na\nb\n", "has no column beside 'kind'"),
    "only constants": ("x,kind\n1,a\n1,b\n1,b\n", "has no column that can be a feature"),
    "all missing": ("x,kind\n,a\n,b\n", "has no column that can be a feature"),
    "ragged": ("x,kind\n1,a\n2\n", "cannot be read as CSV"),
    "twice": ("x,x,kind\n1,2,a\n", "several columns of one name: x"),
    "no rows": ("x,kind\n", "has column names, but no rows"),
    "empty": ("", "is empty"),
    "encoding": (
        b"x,kind\n1,caf\xe9\n2,b\n",
        "is not encoded in UTF-8, as line 2 has the byte 0xE9",
    ),
    "one label": ("x,kind\n1,a\n2,a\n3,a\n", "have the label a; two classes are needed"),
    "infinite": ("x,kind\n1,a\ninf,b\n2,b\n", "Column 'x' has the value inf"),
    "decimal commas": (
        'x,y,kind\n"1,5",0.5,a\n"2,5",1.5,b\n"1,5",2.5,a\n',
        "Column 'x' has texts such as '1,5', which may be numbers with a decimal comma: add "
        "--decimal ','",
    ),
    "unnamed": (",kind\n3,a\n9,b\n5,b\n", "Column '' has no name, so it may be an index"),
}


def test_other_extensions_are_refused(place):
    (place / "table.sav").write_bytes(b"$FL2")
    message = run("fit table.sav --label kind", code=1)
    assert "'.sav' does not tell the format; it must be one of .csv, .tsv, .parquet" in message


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_get_one_sentence(place, name):
    content, message = BAD_TABLES[name]
    data = content if isinstance(content, bytes) else content.encode()
    (place / "bad.csv").write_bytes(data)
    text = run("fit bad.csv --label kind", code=1)
    assert text.startswith("Error: ")
    assert message in text
    assert text.count("Error") == 1
    assert not (place / "model.dkm").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "fit trees.csv --label kind --columns height,nothing",
            "--columns: trees.csv has no column",
        ),
        ("fit trees.csv --label kind --sep ab", "--sep ab: it must be a single character"),
        ("fit trees.csv --label kind --decimal x", "--decimal x: it must be . or ,"),
        ("evaluate trees.csv --label kind --test-size 2", "--test-size 2: it must be between"),
        ("evaluate trees.csv --label kind --cv 100", "--cv 100 needs at least 100 rows of each"),
        (
            "evaluate few.csv --label kind",
            "--cv 5 needs at least 5 rows of each class, but oak has 3: add --cv 3.",
        ),
        ("evaluate trees.csv trees.csv --label kind", "goes with a model"),
        ("compare trees.csv --label kind --out c.txt", "c.txt: pictures are written as"),
        ("condense trees.csv --label kind --n few --out s.csv", "--n few: it must be a number"),
        ("suspects trees.csv", "Name the column of labels with --label"),
        ("fit trees.csv --label kind --size 8by8", "--size 8by8: it must be height and width"),
    ],
)
def test_wrong_options_get_one_sentence(trees, words, message):
    trees.assign(kind=["oak"] * 3 + ["fir"] * (len(trees) - 3)).to_csv("few.csv", index=False)
    assert message in run(words, code=1)


def test_weights(trees):
    trees.assign(w=np.arange(200) % 2).to_csv("weighted.csv", index=False)
    run(f"fit weighted.csv {FIT} --weight w")
    assert dkmeans.load("model.dkm")[-1].cluster_sizes_.sum() == 100


def test_pipelines_of_others(trees, place):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    known = trees.dropna()
    columns = make_column_transformer(
        (MinMaxScaler(), ["height", "visits"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour"]),
    )
    model = make_pipeline(columns, grown(6)).fit(known, known["kind"])
    dkmeans.save(model, "mine.dkm")
    known.to_parquet("known.parquet", index=False)
    run("predict mine.dkm known.parquet --out p.parquet")
    predicted = pa_parquet.read_table("p.parquet")["class"].to_pylist()
    assert predicted == model.predict(known).tolist()
    assert "after ColumnTransformer" in run("inspect mine.dkm")
