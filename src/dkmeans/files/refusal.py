"""Errors about files that are not accepted."""


class RefusedError(ValueError):
    """A file is not accepted; the message follows the file's name in a sentence."""

    def __init__(self, what: str, advice: str = "copy it again, or save the model again") -> None:
        super().__init__(f"{what}: {advice}.")


def require(ok: bool, otherwise: str, *advice: str) -> None:
    """Raise RefusedError unless a condition holds."""
    if not ok:
        raise RefusedError(otherwise, *advice)
