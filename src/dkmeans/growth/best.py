"""Growth that makes the most of a budget: `growth="best"`.

It starts from one prototype at the mean of each class. Each stage splits the clusters that cost
most, then lets all prototypes settle: every row goes to the nearest prototype *of its class*, and
prototypes move to the means of their rows, a few times over. So the prototypes of a class describe
it as k-means would, and there are more of them where classes meet. A prototype that wins no row
then is put on the row of its class that is farthest on the wrong side, so no class is lost.

What a cluster costs is the sum of f = sigmoid(slope * mu) over its rows, with mu the margin of
`margins`: rows beyond the border count most, those near it some, those far from it nothing. A
cluster is split across the direction from its mean to its farthest row.

Where labels are wrong, more prototypes of this kind make matters worse: they gather around the
wrong labels. So a stage that does not lower the cost of the whole is tried again the *wary* way,
and the better of the two counts; once it was, so are all stages to come. There rows far beyond the
border, which no prototype could help without harm to their neighbours, hardly count, neither in
what a cluster costs (f (1 - f)) nor in the means (1 - f); clusters are cut by the rows that their
class wins; and prototypes go whose cell belongs to another class.
"""

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import Tally
from dkmeans.growth.cells import comparable, see_cells
from dkmeans.growth.margins import FINAL_SLOPE, Field, Margins
from dkmeans.growth.round import Children
from dkmeans.growth.run import Run, State
from dkmeans.prototypes import Prototypes

_FACTOR = 1.6  # how many times as many prototypes a stage may end with
_SLOPE = 5.0  # of the cost that tells which clusters to split
_SETTLE, _SETTLE_LAST = 3, 30  # moves to the means after a stage, and at the end
_SETTLE_WARILY_LAST = 10  # the same where each move takes a look at all prototypes
_SHARES = 64  # steps between nothing and the whole weight of a row
_LESS = 1 - 1e-9  # what costs less must do so by more than rounding
_PATIENCE = 5  # stages without gain before the guaranteed ending takes over


def best_rounds(run: Run, state: State) -> Generator[State, None, State]:
    """Grow until the budget is spent; without a budget, until no cell is mixed."""
    rules = run.rules
    field = Field(run.rows)
    first = _class_means(run, state)
    if len(first.parents) > 1:
        with field.margins(_as_prototypes(first)) as seen:
            first = _revived(field, first, seen)
    state = run.advance(state, "grow", first)
    state, margins = _measured(field, state)
    yield state
    least, stale, noisy = np.inf, 0, False
    while stale < _PATIENCE and state.round < rules.max_iter:
        if run.is_spent(state) or (rules.max_clusters is None and not state.n_mixed):
            break
        if margins is None:
            break
        with run.rows.kept():
            children = _stage(run, state, field, margins)
            if children is None:
                break
            seen = field.margins(_as_prototypes(children))
            cost = field.cost(seen, FINAL_SLOPE)
            if rules.max_clusters is not None and (noisy or not cost < _LESS * state.margin_cost):
                wary = _stage(run, state, field, margins, wary=True)
                if wary is not None:
                    seen_warily = field.margins(_as_prototypes(wary))
                    if field.cost(seen_warily, FINAL_SLOPE) < _LESS * cost:
                        seen.release()
                        children, seen, noisy = wary, seen_warily, True
                    else:
                        seen_warily.release()
            as_seen, children = children, _revived(field, children, seen)
        margins.release()
        before = len(state.prototypes)
        is_seen = np.array_equal(as_seen.centers, children.centers)
        state = run.advance(state, "grow", children, seen if is_seen else None)
        known = seen if _is_same(state.prototypes, as_seen) else None
        if known is None:
            seen.release()
        state, margins = _measured(field, state, known)
        yield state
        gained = state.cells.excess < least or len(state.prototypes) > before
        stale = 0 if gained else stale + 1
        least = min(least, state.cells.excess)
    if margins is not None:
        margins.release()
    return state


def _measured(
    field: Field, state: State, margins: Margins | None = None
) -> tuple[State, Margins | None]:
    """Find the margins if they are not known, and note what they cost; one class has none."""
    if len(np.unique(state.prototypes.classes)) < 2:
        return state, None
    if margins is None:
        margins = field.margins(state.prototypes)
    return replace(state, margin_cost=field.cost(margins, FINAL_SLOPE)), margins


def _class_means(run: Run, state: State) -> Children:
    """One child per class that is large enough, at its mean."""
    cells = state.cells
    which = np.flatnonzero(cells.large)
    if not len(which):
        which = cells.heaviest[:1]
    groups = cells.groups.take(which)
    centers = _centers(run, groups)
    return Children(np.zeros(len(which), dtype=np.intp), groups.classes, centers)


def _stage(
    run: Run, state: State, field: Field, margins: Margins, *, wary: bool = False
) -> Children | None:
    """Split and settle; None if there is nothing to split."""
    children = _split(run, state, field, margins, wary=wary)
    if children is None:
        return None
    budget = run.rules.max_clusters
    last = budget is not None and len(children.parents) >= budget
    if not wary:
        return _settled(run, children, _SETTLE_LAST if last else _SETTLE)
    times = _SETTLE_WARILY_LAST if last else _SETTLE
    children = _settled_warily(run, field, children, times)
    return _without_harmful(field, children, more_than=len(state.prototypes))


def _split(
    run: Run, state: State, field: Field, margins: Margins, *, wary: bool
) -> Children | None:
    """Split the clusters that cost most, as many as there is room for; None if none can be."""
    prototypes, rows = state.prototypes, run.rows
    k = len(prototypes)
    cost = field.costs(margins, _SLOPE, wary=wary)
    sums = rows.assign_own(prototypes)
    lost, won = field.losers(margins, prototypes.classes)
    if run.rules.max_clusters is None:
        # Only clusters that lose rows to another class need more prototypes.
        cost = np.where(lost > 0, cost, 0.0)
    if wary:
        sums = rows.sum_won(margins.number, prototypes.classes, won > 0)
    own = sums.tally(rows.n_classes)
    want = int(min(run.room(state), max(1, int(k * (_FACTOR - 1)))))

    # One group per prototype, as every row is with one of its class.
    costliest = np.argsort(-comparable(cost[own.cells]), kind="stable")
    costliest = costliest[cost[own.cells[costliest]] > 0][: 2 * want]
    if not len(costliest):
        return None
    halves = _halves(run, own.take(np.sort(costliest)))
    chosen = costliest[np.isin(own.cells[costliest], halves.cells)][:want]
    if not len(chosen):
        return None
    split = own.cells[chosen]
    halves = halves.take(np.flatnonzero(np.isin(halves.cells, split)))
    others = own.take(np.flatnonzero(~np.isin(own.cells, split)))
    both = others.and_also(halves)
    # In the order that they will have as prototypes, where new ones come last in their class.
    is_second = np.append(False, both.cells[1:] == both.cells[:-1])
    both = both.take(np.lexsort((both.cells, is_second, both.classes)))
    centers = _centers(run, both)
    cut_short = run.rules.max_clusters is not None  # all of a budget is to be spent
    return Children(both.cells, both.classes, centers, cut_short)


def _halves(run: Run, groups: Tally) -> Tally:
    """Cut groups in two across the direction to their farthest row, where both parts are large."""
    rows, middles = run.rows, groups.means
    codes = groups.cells * rows.n_classes + groups.classes
    farthest, _ = rows.pick(codes, middles, farthest=True)
    halves = rows.tally_sides(codes, middles, farthest.astype(np.float64) - middles)
    large = see_cells(halves, run.rules).large
    count = np.bincount(halves.cells[large], minlength=int(groups.cells.max(initial=0)) + 1)
    return halves.take(np.flatnonzero(count[halves.cells] == 2))


def _revived(field: Field, children: Children, margins: Margins) -> Children:
    """Put children that would win no row on the worst row of their class, which they then own."""
    lost = np.flatnonzero(~margins.wins)
    which, places = field.worst_rows(margins, children.classes, lost)
    centers = children.centers.copy()
    centers[which] = places
    return replace(children, centers=centers)


def _settled(run: Run, children: Children, times: int) -> Children:
    """Move each child to the mean of the rows of its class that are nearest to it."""
    sums = None
    for _ in range(times):
        sums = run.rows.assign_own(_as_prototypes(children), sums)
        moved = _moved(run, children, sums.tally(run.rows.n_classes))
        if np.array_equal(moved.centers, children.centers):
            break
        children = moved
    return children


def _settled_warily(run: Run, field: Field, children: Children, times: int) -> Children:
    """Do the same, but let rows beyond the border count the less the farther they are from it."""
    for _ in range(times):
        with field.margins(_as_prototypes(children)) as margins:
            sums = field.tally_shares(margins, _SLOPE, _SHARES)
        moved = _moved(run, children, sums.tally(run.rows.n_classes))
        if np.array_equal(moved.centers, children.centers):
            break
        children = moved
    return children


def _without_harmful(field: Field, children: Children, more_than: int) -> Children:
    """Drop children in whose cell another class is heavier, the worst first.

    Half of those that have been added stay in any case, so that the stage is one of growth, and so
    does a class in which all are harmful.
    """
    with field.margins(_as_prototypes(children)) as margins:
        harm = field.harm(margins, children.classes)
    harmful = harm >= 0
    for c in np.unique(children.classes):
        if harmful[children.classes == c].all():
            harmful[children.classes == c] = False
    most = (len(harm) - more_than) // 2
    worst = np.argsort(-comparable(harm), kind="stable")
    gone = worst[harmful[worst]][:most]
    keep = np.setdiff1d(np.arange(len(harm)), gone)
    return replace(
        children,
        parents=children.parents[keep],
        classes=children.classes[keep],
        centers=children.centers[keep],
    )


def _moved(run: Run, children: Children, tally: Tally) -> Children:
    centers = children.centers.copy()
    centers[tally.cells] = _centers(run, tally)
    return replace(children, centers=centers)


def _centers(run: Run, groups: Tally) -> npt.NDArray[np.floating]:
    """Means of groups, as centres."""
    return run.rules.geometry.centers(groups.means, run.rows.dtype)


def _is_same(prototypes: Prototypes, children: Children) -> bool:
    return np.array_equal(prototypes.classes, children.classes) and np.array_equal(
        prototypes.centers, children.centers
    )


def _as_prototypes(children: Children) -> Prototypes:
    return Prototypes(children.centers, children.classes, np.arange(len(children.parents)))
