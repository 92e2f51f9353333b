"""Why a file is refused."""


class RefusedError(ValueError):
    """What is wrong with a file, to follow its name in a sentence, and what to do."""

    def __init__(self, what: str, advice: str = "copy it again, or save the model again") -> None:
        super().__init__(f"{what}: {advice}.")


def require(ok: bool, otherwise: str, *advice: str) -> None:
    """Refuse a file unless something holds."""
    if not ok:
        raise RefusedError(otherwise, *advice)
