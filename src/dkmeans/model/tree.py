"""Former path of `dkmeans.results.fit_record`."""

from dkmeans.results.fit_record import NONE, TreeLog

__all__ = ["NONE", "TreeLog"]
