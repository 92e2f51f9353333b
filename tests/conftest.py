"""Settings that all tests share."""

import pytest
from hypothesis import HealthCheck, settings

# `make test` always tries the same examples, whatever the machine; `make fuzz` looks for new ones.
# How long an example takes is no failure on a machine that is busy.
settings.register_profile(
    "repeatable",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz", parent=settings.get_profile("repeatable"), derandomize=False, max_examples=50
)
settings.load_profile("repeatable")


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
