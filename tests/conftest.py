"""Settings that all tests share."""

import os

import pytest
from hypothesis import settings

# People look for new counterexamples every time; continuous integration always tries the same.
settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("explore"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "explore")


_STUDIES = {
    "test_checkpoint",
    "test_cli_fit",
    "test_cli_models",
    "test_cli_predict",
    "test_continue",
    "test_cosine",
    "test_dask",
    "test_explain",
    "test_gram",
    "test_guide",
    "test_imbalance",
    "test_kernels",
    "test_lost_workers",
    "test_oracle",
    "test_path",
    "test_plots",
    "test_plots_errors",
    "test_promises",
    "test_refine",
    "test_reject",
    "test_regressions",
    "test_rendered",
    "test_reproduce",
    "test_shelf",
    "test_site",
    "test_summary",
    "test_suspects",
    "test_synthetic",
    "test_termination",
}


# Workers that die, processes that are killed: minutes of waiting, by `make faults`.
_FAULTS = {"test_dask", "test_lost_workers"}


def pytest_collection_modifyitems(items):
    """Mark what is about results, not about versions of dependencies, and what takes long."""
    for item in items:
        if item.path.stem in _STUDIES:
            item.add_marker(pytest.mark.study)
        if item.path.stem in _FAULTS:
            item.add_marker(pytest.mark.faults)


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
