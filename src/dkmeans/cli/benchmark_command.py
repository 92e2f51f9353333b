"""`dkmeans benchmark`: compare on built-in data, on a table, or run a script of a checkout."""

import ast
import json
import subprocess
import sys
from pathlib import Path

from dkmeans.cli.console import grid, percent, say, show, stdout
from dkmeans.cli.errors import InputError, suggestion
from dkmeans.cli.table_input import is_data_file

BUILT_IN = {
    "digits": "1,797 images of 8 x 8 pixels, 10 classes",
    "wine": "178 wines, 13 measurements, 3 classes",
    "breast-cancer": "569 tumours, 30 measurements, 2 classes",
    "moons": "1,000 points of two half-circles with noise",
}


def run_benchmark(name: str | None, arguments: list[str]) -> int:
    """Run a benchmark, or list them; return the exit code."""
    scripts = _scripts(Path.cwd())
    if name is None:
        _list(scripts)
        return 0
    if name in BUILT_IN:
        if arguments:
            raise InputError(f"{name} takes no options; found {' '.join(arguments)}.")
        _compare(name)
        return 0
    if is_data_file(Path(name)) or Path(name).is_dir():
        from dkmeans.cli.app import app

        app(["compare", name, *arguments], prog_name="dkmeans", standalone_mode=False)
        return 0
    name = name.removesuffix(".py")
    if name in scripts:
        command = [sys.executable, scripts[name].name, *arguments]
        return subprocess.run(command, cwd=scripts[name].parent).returncode
    known = suggestion(name, [*BUILT_IN, *scripts])
    raise InputError(f"There is no benchmark {name!r}, nor a table; {known}")


def _list(scripts: dict[str, Path]) -> None:
    console = stdout()
    table = grid("benchmark", "what it is", left=2)
    for name, text in BUILT_IN.items():
        table.add_row(name, text)
    table.add_section()
    for name, path in scripts.items():
        table.add_row(name, _summary(path))
    show(console, table)
    if not scripts:
        say(console, "Inside a checkout, the scripts of its folder benchmarks/ are listed as well.")


def _scripts(folder: Path) -> dict[str, Path]:
    """Find the benchmarks of the checkout that a folder belongs to."""
    for root in (folder, *folder.parents):
        if (root / "src" / "dkmeans").is_dir() and (root / "benchmarks").is_dir():
            paths = sorted((root / "benchmarks").glob("*.py"))
            return {p.stem: p for p in paths if "__main__" in p.read_text("utf-8")}
    return {}


def _summary(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def _compare(name: str) -> None:
    """Measure dkmeans beside class-wise k-means and 1-NN, a fifth of the rows held out."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_moons
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    from dkmeans.cli.demo_command import Split, compare

    if name == "moons":
        X, y = make_moons(1000, noise=0.25, random_state=0)
    else:
        load = {"digits": load_digits, "wine": load_wine, "breast-cancer": load_breast_cancer}
        X, y = load[name](return_X_y=True)
    parts = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    if name in ("wine", "breast-cancer"):
        scaler = StandardScaler().fit(parts[0])
        parts[:2] = [scaler.transform(part) for part in parts[:2]]
    console = stdout()
    with console.status("comparing") as status:
        _, lines = compare(Split(*parts), status.update)
    table = grid("method", "clusters", "training\nerror %", "held-out\nerror %", "seconds\nto fit")
    for line in lines:
        table.add_row(
            line.method,
            line.clusters,
            percent(line.train_error),
            percent(line.test_error),
            f"{line.seconds:.3f}",
        )
    show(console, table)
    result = [
        {
            "method": line.method,
            "clusters": int(line.clusters),
            "error": round(line.test_error, 6),
            "seconds": round(line.seconds, 6),
        }
        for line in lines
    ]
    console.print()
    say(console, f"RESULT {json.dumps({'benchmark': name, 'methods': result})}")
