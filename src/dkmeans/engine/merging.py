"""Putting together what several parts return, where they are, before it travels."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dkmeans.engine.exemplars import nearer
from dkmeans.engine.grids import Facts
from dkmeans.engine.margin_part import WeightFacts
from dkmeans.engine.part import Assigned, better
from dkmeans.engine.sums import add_up
from dkmeans.engine.tally import by_values

Merge = Callable[[list[Any]], Any]


def merge(method: str, results: list[Any]) -> list[Any]:
    """Make one result of several, where it does not matter which part each is from."""
    if len(results) < 2 or method not in _MERGES:
        return results
    return [_MERGES[method](results)]


def _assigned(results: list[Assigned]) -> Assigned:
    return Assigned(
        add_up([part.sums for part in results]),
        sum(part.moved for part in results),
        max(part.largest for part in results),
    )


def by_key(results: Sequence[Any]) -> Any:
    """Add up columns of slices that have the same key."""
    keys = np.unique(np.concatenate([key for key, _ in results]))
    slices = np.zeros((results[0][1].shape[0], len(keys)))
    for key, part in results:
        slices[:, np.searchsorted(keys, key)] += part
    return keys, slices


def _picked(results: list[Any]) -> Any:
    first, *others = results
    for other in others:
        better(first, other)
    return first


def _nearest(results: list[Any]) -> Any:
    first, *others = results
    for other in others:
        nearer(first, other)
    return first


def outermost(results: Sequence[dict[int, Any]]) -> dict[int, Any]:
    """First and last row, by their values, over all parts."""
    found: dict[int, Any] = {}
    for part in results:
        for p, rows in part.items():
            both = np.concatenate([found[p], rows]) if p in found else rows
            found[p] = both[by_values(both)[[0, -1]]]
    return found


def _each_summed(results: list[Any]) -> tuple[Any, ...]:
    return tuple(np.sum(part, axis=0) for part in zip(*results, strict=True))


def _each_joined(results: list[Any]) -> tuple[Any, ...]:
    return tuple(np.concatenate(part) for part in zip(*results, strict=True))


def _summed(results: list[Any]) -> Any:
    return np.sum(results, axis=0)


_MERGES: dict[str, Merge] = {
    "assign": _assigned,
    "assign_as_seen": _assigned,
    "assign_own": add_up,
    "box": lambda r: (np.min([low for low, _ in r], axis=0), np.max([high for _, high in r], 0)),
    "costs": _summed,
    "ends": outermost,
    "error_weights": _summed,
    "exemplars": _nearest,
    "facts": Facts.of_all,
    "gather": max,
    "gradient": _each_summed,
    "inertia": _summed,
    "largest_least": max,
    "losers": _each_summed,
    "margins": _summed,
    "moved_between": sum,
    "on_others": by_key,
    "paid": _summed,
    "pick": _picked,
    "pull_bounds": lambda r: np.max(r, axis=0),
    "spread_bound": max,
    "spread_sum": _summed,
    "square_sums": by_key,
    "strays": lambda r: tuple(np.unique(part) for part in _each_joined(r)),
    "tally": add_up,
    "tally_all": add_up,
    "tally_classes": add_up,
    "tally_shares": add_up,
    "tally_sides": add_up,
    "tally_won": add_up,
    "try_without": all,
    "weight_facts": WeightFacts.of_all,
    "weight_sum": _summed,
    "won_weights": by_key,
    "worst": _each_joined,
}
