"""Where the `dkmeans` command starts; works without the extra that the command needs."""

import sys


def main() -> None:
    """Run the command line, or say what to install."""
    try:
        from dkmeans.apps.cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The dkmeans command needs its extra: pip install 'dkmeans[all]'")
    app()
