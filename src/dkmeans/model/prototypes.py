"""Former path of `dkmeans.prototypes`."""

from dkmeans.prototypes import Prototypes

__all__ = ["Prototypes"]
