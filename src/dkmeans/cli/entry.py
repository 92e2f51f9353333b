"""Where the `dkmeans` command starts; works without the extra that the command needs."""

import signal
import sys
from types import FrameType

_EXTRAS = ("typer", "rich", "matplotlib", "PIL", "pyarrow", "onnx", "starlette", "uvicorn")


def main() -> None:
    """Run the command line, or say what to install."""
    signal.signal(signal.SIGTERM, _end)  # so that unfinished files are cleared away
    try:
        from dkmeans.cli.app import app

        app(prog_name="dkmeans")
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in _EXTRAS:
            raise
        sys.exit(f"The dkmeans command needs {missing}: pip install 'dkmeans[all]'")


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
