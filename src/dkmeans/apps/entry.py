"""Where the `dkmeans` command starts; works without the extra that the command needs."""

import sys

_EXTRAS = ("typer", "rich", "matplotlib", "PIL")


def main() -> None:
    """Run the command line, or say what to install."""
    try:
        from dkmeans.apps.cli import app

        app()
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in _EXTRAS:
            raise
        sys.exit(f"The dkmeans command needs {missing}: pip install 'dkmeans[all]'")
