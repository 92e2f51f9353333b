"""Settings that all tests share."""

import os

import pytest
from hypothesis import settings

# People look for new counterexamples every time; continuous integration always tries the same.
settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("explore"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "explore")


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
