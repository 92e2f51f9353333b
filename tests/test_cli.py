"""The command line as people meet it."""

import subprocess
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")


def dkmeans(*arguments, **options):
    code = "from dkmeans.cli.entry import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, **options
    )


def test_demo_prints_a_table_and_draws_figures(tmp_path):
    result = dkmeans("demo", "--out", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    for word in ("two moons", "digits", "class-wise k-means", "1-NN", "clusters", "held-out"):
        assert word in result.stdout
    table = [line for line in result.stdout.splitlines() if not line.startswith("Figure:")]
    assert max(map(len, table)) <= 80
    assert "…" not in result.stdout
    for name in ("model.png", "prototypes.png", "growth.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")


def test_help_lists_the_commands():
    result = dkmeans("--help")
    assert result.returncode == 0
    assert "demo" in result.stdout


def test_version():
    import dkmeans as package

    assert dkmeans("--version").stdout.strip() == f"dkmeans {package.__version__}"


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_imports_neither_scikit_learn_nor_numba(argument):
    code = (
        "import sys\nfrom dkmeans.cli.entry import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'sklearn', 'numba', 'scipy', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code, argument], check=True, capture_output=True)


def test_importing_the_package_is_light():
    code = "import sys, dkmeans; assert not {'sklearn', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("missing", ["typer", "rich", "matplotlib", "pyarrow"])
def test_without_an_extra_the_command_says_what_to_install(missing):
    code = (
        f"import sys\nsys.modules[{missing!r}] = None\nfrom dkmeans.cli.entry import main\nmain()"
    )
    words = ["fit", "table.csv"] if missing == "pyarrow" else ["demo"]
    result = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert result.returncode != 0
    assert f"needs {missing}: pip install 'dkmeans[all]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_options_offer_what_the_library_knows():
    from dkmeans.cli.options import GrowthOption, MetricOption, RefineOption
    from dkmeans.geometry import AUTO, METRICS
    from dkmeans.growth.registry import GROWTH_RULES, REFINEMENTS

    for offered, known in (
        (GrowthOption, GROWTH_RULES),
        (MetricOption, [AUTO, *METRICS]),
        (RefineOption, [*REFINEMENTS, "none"]),
    ):
        assert {option.value for option in offered} == set(known)
