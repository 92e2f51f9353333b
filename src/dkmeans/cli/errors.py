"""What people can put right themselves, told in a sentence."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

STOPPED = 130  # exit code after Ctrl-C, as shells have it


class InputError(Exception):
    """Something that whoever typed the command can put right."""


@contextmanager
def guard(*, debug: bool = False) -> Iterator[None]:
    """Turn errors into a sentence and an exit code: 1, or 130 after Ctrl-C.

    With `debug` they are raised as they are.
    """
    try:
        yield
    except BrokenPipeError:
        # Whoever read the output has left. Nothing can be told any more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        if debug:
            raise
        _tell("Stopped.", None)
        sys.exit(STOPPED)
    except ModuleNotFoundError:
        raise  # the entry says what to install
    except Exception as error:
        if debug:
            raise
        if isinstance(error, InputError | ValueError):
            _tell("Error:", str(error))
        elif isinstance(error, OSError):
            _tell("Error:", _describe(error))
        elif isinstance(error, MemoryError):
            _tell("Error:", f"There is not enough memory: {error or 'no details'}.")
        elif _is_usage(error):
            raise
        else:
            name = type(error).__name__
            _tell("Unexpected error:", f"{name}: {error} (--debug shows where it comes from)")
        sys.exit(1)


def _is_usage(error: Exception) -> bool:
    """Whether the command line itself reports it, or ends in good order."""
    return hasattr(error, "exit_code")


def _describe(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}".rstrip(".") + "."


def _tell(title: str, message: str | None) -> None:
    from dkmeans.cli.console import say, stderr

    stderr().print(title, style="bold red", end=" " if message else "\n")
    if message:
        say(stderr(), message, soft_wrap=True)


def suggestion(name: str, names: Iterable[str]) -> str:
    """Say what may have been meant, or what there is."""
    from difflib import get_close_matches

    names = list(names)
    lower = {n.lower(): n for n in reversed(names)}
    close = [lower[n] for n in get_close_matches(name.lower(), lower, n=3)]
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"there is {listing(names, 12)}." if names else "there is none."


def listing(names: Iterable[str], most: int = 8) -> str:
    """Name things, but not too many."""
    names = [name or "''" for name in names]  # a column may have no name
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def check_exists(path: Path) -> None:
    """Raise an error if there is no such file."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file.")
    if not path.exists():
        from difflib import get_close_matches

        folder = path.parent
        there = [p.name for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
        close = get_close_matches(path.name, there, n=1, cutoff=0.75)
        hint = f" Did you mean {folder / close[0]}?" if close else ""
        raise InputError(f"There is no file {path}.{hint}")
