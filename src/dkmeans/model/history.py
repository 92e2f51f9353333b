"""The record of a fit: one row per round."""

from typing import Any, Self

from dkmeans.model.table import Table


class History(Table):
    """One row per round of a fit, each telling the state that the round ended in.

    Attributes
    ----------
    round : int
        Number of the round, from 1.
    phase : str
        "grow" for the paper's rounds; "freeze", "fill" and "settle" belong to the guaranteed
        ending (see the guide), "restore" brings back classes that have lost their last
        prototype, "prune" belongs to pruning, "refine" to margin refinement.
    clusters : int
        Prototypes that own at least one row.
    mixed : int
        Cells that hold more than one class.
    impurity : float
        Share of the weight that is not of its cell's heaviest class.
    moved : int
        Rows that changed their prototype.
    inertia : float
        Weighted sum of squared distances to the assigned centres.
    cost : float
        Mean margin cost of the rows, in refinement and with growth="best"; nan elsewhere.
    seconds : float
        Time that the round took.
    """

    @classmethod
    def from_records(cls, records: list[dict[str, Any]]) -> Self:
        """Turn records with the same keys into a table."""
        return cls(**{name: [record[name] for record in records] for name in records[0]})

    def _headline(self) -> str:
        return f"History of {len(self)} rounds"
