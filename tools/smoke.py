"""Smoke test of an installed dkmeans, without the repository: run by `make dist`."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator

import dkmeans
from dkmeans import DiscriminativeKMeans, OverfittingWarning, load


def main() -> None:
    """Fit, save, load, compile, draw, run the command line and the estimator checks."""
    assert Path(dkmeans.__file__).is_relative_to(sys.prefix), "another dkmeans was imported"
    X, y = load_iris(return_X_y=True)
    model = DiscriminativeKMeans(6).fit(X, y)
    model.save("iris model.dkm")
    assert np.array_equal(load("iris model.dkm").predict(X), model.predict(X))

    rng = np.random.default_rng(0)
    large = rng.normal(size=(70_000, 64)).astype(np.float32)  # enough for compiled loops
    compiled = DiscriminativeKMeans.paper(8).fit(large, large[:, 0] > 0)
    assert compiled.score(large, large[:, 0] > 0) > 0.9

    command = [sys.executable, "-m", "dkmeans", "--version"]
    assert dkmeans.__version__ in subprocess.check_output(command, text=True)
    header = ",".join([*"abcd", "kind"])
    np.savetxt("a table.csv", np.c_[X, y], delimiter=",", header=header, comments="", fmt="%g")
    for words in (
        ("fit", "a table.csv", "--label", "kind", "--out", "m.dkm"),
        ("inspect", "m.dkm"),
        ("plot", "m.dkm", "--out", "cells.png"),
    ):
        subprocess.run([sys.executable, "-m", "dkmeans", *words], check=True)
    warnings.simplefilter("ignore", OverfittingWarning)  # the checks have random labels
    checks = check_estimator(DiscriminativeKMeans(), on_skip=None)
    passed = sum(check["status"] == "passed" for check in checks)
    print(f"dkmeans {dkmeans.__version__}: {passed} estimator checks of scikit-learn passed")


if __name__ == "__main__":
    main()
