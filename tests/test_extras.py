"""The library without its optional dependencies, and in places where little is allowed.

What tables, ONNX and the command line say without theirs is tested with them.
"""

import subprocess
import sys

import numba
from models import grown
from sklearn.datasets import load_iris

from dkmeans import load
from dkmeans.kernels import jit


def test_fits_without_any_extra_and_plots_say_what_to_install():
    missing = ("matplotlib", "PIL", "pyarrow", "onnx", "typer", "rich", "dask", "skops")
    code = (
        f"import sys\nfor name in {missing}: sys.modules[name] = None\n"
        "from sklearn.datasets import load_iris\n"
        "from dkmeans import DiscriminativeKMeans\n"
        "model = DiscriminativeKMeans(4).fit(*load_iris(return_X_y=True))\n"
        "print(model.n_clusters_)\n"
        "model.path_.plot()\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert result.stdout == "4\n", result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last == "ModuleNotFoundError: Plots need matplotlib: pip install 'dkmeans[plots]'."


def test_module_runs_the_command_line():
    command = [sys.executable, "-m", "dkmeans", "--version"]
    assert subprocess.check_output(command, text=True).startswith("dkmeans 0.")


def test_files_in_a_folder_with_spaces_and_other_letters(tmp_path):
    X, y = load_iris(return_X_y=True)
    folder = tmp_path / "mein großer Ordner 日本"
    folder.mkdir()
    model = grown(4).fit(X, y)
    model.save(folder / "ein Modell.dkm")
    assert (load(folder / "ein Modell.dkm").predict(X) == model.predict(X)).all()


def test_compiles_where_the_cache_cannot_be_written(monkeypatch):
    plain = numba.njit

    def without_a_cache(*args, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return plain(*args, **options)

    monkeypatch.setattr(numba, "njit", without_a_cache)

    def twice(x):
        return 2 * x

    assert jit.compiled(twice)(3) == 6
