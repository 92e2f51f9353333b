"""What the tests of the commands share."""

from pathlib import Path

import pytest
from sklearn.datasets import load_iris

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pa_feather = pytest.importorskip("pyarrow.feather")
pa_parquet = pytest.importorskip("pyarrow.parquet")
Console = pytest.importorskip("rich.console").Console
CliRunner = pytest.importorskip("typer.testing").CliRunner

# Options of six prototypes that are grown, and not refined.
GROWN = "--max-clusters 6 --refine none --metric euclidean"
NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


def iris_table():
    X, y = load_iris(return_X_y=True)
    names = load_iris().target_names[y]
    return pa.table({**dict(zip(NAMES, X.T, strict=True)), "species": names.tolist()})


def write(table, path):
    path = Path(path)
    if path.suffix == ".parquet":
        pa_parquet.write_table(table, path)
    elif path.suffix == ".feather":
        pa_feather.write_feather(table, path)
    else:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        pa_csv.write_csv(table, path, pa_csv.WriteOptions(delimiter=delimiter))


def read(path):
    path = Path(path)
    if path.suffix == ".parquet":
        return pa_parquet.read_table(path)
    if path.suffix == ".feather":
        return pa_feather.read_table(path)
    delimiter = "\t" if path.suffix == ".tsv" else ","
    return pa_csv.read_csv(path, parse_options=pa_csv.ParseOptions(delimiter=delimiter))


def invoke(words, *more):
    from dkmeans.cli.app import app

    return CliRunner().invoke(app, [*words.split(), *map(str, more)])


def run(words, *more, code=0):
    """Run a command, and give what it printed, on one line."""
    result = invoke(words, *more)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


def fit(*more, code=0):
    """Fit the numbers of iris as they are."""
    return run(f"fit iris.csv --label species {GROWN} --raw", *more, code=code)
