"""Build sdist and wheel into dist/, and try the wheel as a user would have it: `make dist`.

The wheel is built from the sdist, its metadata are checked, and it is installed into a new
environment away from the repository, in a folder whose name has spaces and letters that are not
ASCII. There `tools/smoke.py` runs: a fit with a home that cannot be written to, a model file, the
command line, and scikit-learn's estimator checks.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
REQUIRED = ("Name", "Version", "Summary", "License-Expression", "Requires-Python", "Classifier")


def main() -> None:
    """Build and check; stop at the first problem."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    check_metadata(wheel)
    check_contents(sdist, wheel)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "a user's größere Ablage"
        folder.mkdir()
        try_wheel(wheel, folder)
    print(f"\n{sdist.name} ({sdist.stat().st_size / 1e3:.0f} kB) and {wheel.name} are ready.")


def run(*command: object, **options: object) -> None:
    """Run a command and stop if it fails."""
    print("$", *(Path(str(c)).name if "/" in str(c) else c for c in command), flush=True)
    subprocess.run([str(c) for c in command], check=True, **options)  # type: ignore[call-overload]


def check_metadata(wheel: Path) -> None:
    """Check that fields that package indexes show are there, and that the readme renders."""
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        fields = HeaderParser().parsestr(archive.read(name).decode())
    missing = [field for field in REQUIRED if field not in fields]
    if missing:
        sys.exit(f"The metadata have no {', '.join(missing)}.")


def check_contents(sdist: Path, wheel: Path) -> None:
    """Check that the sdist can be tested, and that the wheel has the package and nothing else."""
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 2)[1] for name in archive.getnames() if "/" in name}
    missing = {"src", "tests", "docs", "tools", "Makefile", "LICENSE", "pyproject.toml"} - inside
    if missing:
        sys.exit(f"{sdist.name} has no {', '.join(sorted(missing))}.")
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0].split("-")[0] for name in archive.namelist()}
    if tops != {"dkmeans", "dkmeans_paper"}:
        sys.exit(f"{wheel.name} has {', '.join(sorted(tops))} at its top.")


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment and run the smoke test there."""
    run(ROOT / "tools" / "make-venv", sys.executable, folder / "venv")
    run(ROOT / "tools" / "install", folder / "venv", f"{wheel}[plots,cli,tables]", "pytest")
    shutil.copy(ROOT / "tools" / "smoke.py", folder)
    home = folder / "home"
    home.mkdir(mode=0o500)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA"))}
    python = folder / "venv" / "bin" / "python"
    run(python, "-W", "error", "-c", "import dkmeans", cwd=folder, env=clean)
    run(python, "smoke.py", cwd=folder, env=clean | {"HOME": str(home)})


if __name__ == "__main__":
    main()
