"""Settings that all tests share."""

import pytest
from hypothesis import HealthCheck, settings

# `make test` always tries the same examples, whatever the machine; `make fuzz` looks for new ones.
# How long an example takes is no failure on a machine that is busy.
settings.register_profile(
    "repeatable",
    derandomize=True,
    max_examples=25,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    parent=settings.get_profile("repeatable"),
    derandomize=False,
    max_examples=50,
    # Every round of `make fuzz` has its own instances of test classes.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
settings.load_profile("repeatable")


@pytest.fixture
def small_samples(monkeypatch):
    """Let growth, the search for its budget and short fits draw samples even of few rows."""
    from dkmeans.growth import auto, best, first_metric, metric_choice

    monkeypatch.setattr(auto, "SAMPLE_ROWS", 20)
    monkeypatch.setattr(auto, "GROWN_SAMPLE_ROWS", 30)
    monkeypatch.setattr(auto, "MIN_CLASS_ROWS", 3)
    monkeypatch.setattr(best, "ROWS_PER_PROTOTYPE", 3)
    monkeypatch.setattr(best, "SAMPLE_ROWS", 3)
    monkeypatch.setattr(best, "MIN_SAMPLE_ROWS", 3)
    monkeypatch.setattr(best, "SAMPLE_ROWS_PER_CLASS", 1)
    for module in (first_metric, metric_choice):
        monkeypatch.setattr(module, "MIN_ROWS", 30)
    monkeypatch.setattr(first_metric, "SAMPLE_ROWS", 25)
    monkeypatch.setattr(first_metric, "MIN_CLASS_ROWS", 5)
    monkeypatch.setattr(first_metric, "MIN_CHECKED_ROWS", 30)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to be in, with iris.csv."""
    from commands import iris_table, write

    monkeypatch.chdir(tmp_path)
    write(iris_table(), "iris.csv")
    return tmp_path


@pytest.fixture
def iris(place):
    """The table that is in the file."""
    from commands import iris_table

    return iris_table()
