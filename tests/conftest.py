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
    from models import draw_small_samples

    draw_small_samples(monkeypatch)


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
