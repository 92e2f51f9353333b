"""Growth for the highest accuracy within a budget: `growth="best"`.

Growth starts from one prototype at the mean of each class. Each stage splits the clusters with the
highest cost, and then runs a few iterations of k-means within each class: every row is assigned to
the nearest prototype *of its class*, and prototypes move to the means of their rows. So the
prototypes of a class describe it as k-means would, with more of them where classes meet. A
prototype that then wins no row is placed on the row of its class that is farthest on the wrong
side of the border, so no class is lost.

The cost of a cluster is the sum of f = sigmoid(slope * mu) over its rows, with the margin mu of
`margins`. Rows beyond the border cost most, rows far on the right side next to nothing. A cluster
is split across the direction from its mean to its farthest row.

Few prototypes need few rows. So under a budget the stages run on samples of the rows (`samples`),
which grow with the number of prototypes, as long as a quarter of the rows is enough; then the
prototypes move to means of all rows, and further stages spend what is left of the budget. Few rows
per prototype fit even wrong labels. So the costs of stages on a sample are compared on other rows.

With wrong labels, such stages do harm: prototypes gather around the wrong labels. So if a stage
does not lower the total cost, a *robust* stage is tried too, and the better of the two is taken.
Once a robust stage was better, one is tried every time. In a robust stage, rows far beyond the
border hardly count, neither in the cost of a cluster, f (1 - f), nor in the means, 1 - f. Clusters
are split by the rows that their class wins, and prototypes are dropped if another class outweighs
their own in their cell.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dkmeans.exact.group_sums import GroupSums, Tally
from dkmeans.growth.cells import comparable, see_cells
from dkmeans.growth.margins import FINAL_SLOPE, Field, Margins
from dkmeans.growth.round import Children
from dkmeans.growth.rows import Rows
from dkmeans.growth.run import Run, Sample, State
from dkmeans.growth.samples import Plan, plan_sample
from dkmeans.kernels.block import Floats
from dkmeans.passes.margin_sums import RowCost
from dkmeans.prototypes import Prototypes

MAX_STAGE_GROWTH = 1.6  # ratio of the numbers of prototypes after and before a stage
SPLIT_SLOPE = 5.0  # of the cost that selects the clusters to split
MEAN_ITERATIONS = 3  # of k-means within the classes, in each stage but the last
LAST_MEAN_ITERATIONS = 30  # in the stage that spends the budget
LAST_ROBUST_ITERATIONS = 10  # in that stage if it is robust; each searches all prototypes
ROWS_PER_PROTOTYPE = 12  # least number of distinct rows in samples
SAMPLE_ROWS = 8192  # distinct rows of the first sample,
MIN_SAMPLE_ROWS = 1024  # or fewer, if they are the largest share of the rows: so many at least,
SAMPLE_ROWS_PER_CLASS = 200  # and so many per class
WHOLE_MEAN_ITERATIONS = 6  # on all rows after the stages on a sample
WHOLE_STEP = 1.5  # of these moves but the last, relative to the way to the mean
WHOLE_ROBUST_ITERATIONS = 2
SHARE_LEVELS = 64  # to which shares of a row's weight are rounded in robust means
COST_RATIO = 1 - 1e-9  # a cost is lower if its ratio to the other one is below this
MAX_STALE_STAGES = 5  # without lower impurity or more prototypes


def best_rounds(run: Run, state: State) -> Generator[State, None, State]:
    """Run stages until the budget is spent; without a budget, until no cell is mixed."""
    children, settle = _class_means(run, state), _stay
    max_iter = run.rules.max_iter
    few_rules = replace(run.rules, max_iter=max_iter - 1)  # the last round is on all rows
    for size, plan in _sample_plans(run, children):
        if state.round >= few_rules.max_iter:
            break
        with run.rows.drawn(plan.draw) as rows, run.rows.drawn(plan.others()) as others:
            few = run.on_sample(Sample(rows, plan.share), replace(few_rules, max_clusters=size))
            grown = yield from _stages(few, state, children, settle, others)
        state, settle = grown.state, _settle_robustly if grown.is_noisy else _settle
        children = _unchanged(state.prototypes)
    return (yield from _stages(run, state, children, settle)).state


def _sample_plans(run: Run, children: Children) -> Iterator[tuple[int, Plan]]:
    """Yield numbers of prototypes up to which growth runs on a sample, and the plan of each."""
    budget, n_classes = run.rules.max_clusters, len(np.unique(children.classes))
    if budget is None or n_classes < 2 or run.rules.max_iter < 2:
        return
    least = max(MIN_SAMPLE_ROWS, SAMPLE_ROWS_PER_CLASS * n_classes)

    def plan_for(size: int) -> Plan | None:
        needed = ROWS_PER_PROTOTYPE * size
        wanted = max(SAMPLE_ROWS, needed)
        return plan_sample(run.rows, wanted, ROWS_PER_PROTOTYPE, min_rows=max(least, needed))

    size = min(max(SAMPLE_ROWS // ROWS_PER_PROTOTYPE, len(children.parents)), budget)
    plan = plan_for(size)
    # If the largest sample is too small for so many prototypes, it serves for fewer.
    while plan is None and size // 2 > len(children.parents) and ROWS_PER_PROTOTYPE * size > least:
        size //= 2
        plan = plan_for(size)
    while plan is not None:
        yield size, plan
        if size == budget:
            return
        size = min(2 * size, budget)
        plan = plan_for(size)


class _Judge:
    """Compares prototypes by their cost, on other rows than those they were made of, if any.

    Few rows per prototype fit even wrong labels; other rows tell whether a stage is one too many.
    """

    def __init__(self, field: Field, others: Rows | None) -> None:
        self._field = field
        self._others = Field(others) if others is not None and others.facts.n_active else None
        self._known: dict[int, float] = {}  # costs by number of the margins

    def cost(self, prototypes: Prototypes, seen: Margins) -> float:
        """Return the cost; `seen` are the margins on the rows that prototypes were made of."""
        if seen.number not in self._known:
            self._known[seen.number] = self._measure(prototypes, seen)
        return self._known[seen.number]

    def _measure(self, prototypes: Prototypes, seen: Margins) -> float:
        if self._others is None:
            return self._field.cost(seen, FINAL_SLOPE)
        with self._others.margins(prototypes) as margins:
            return self._others.cost(margins, FINAL_SLOPE)


@dataclass(frozen=True)
class _Grown:
    """Where the stages on some rows end."""

    state: State
    is_noisy: bool  # whether robust stages were better


def _stages(
    run: Run,
    state: State,
    children: Children,
    settle: Callable[[Run, Field, Children], Children],
    others: Rows | None = None,
) -> Generator[State, None, _Grown]:
    """Start from children of the prototypes of a state, and run stages.

    Parameters
    ----------
    run : Run
    state : State
        It may have been measured on other rows.
    children : Children
    settle : callable
        Moves the children before the first stage.
    others : Rows, optional
        Rows by which stages are compared; by default, those that they run on.
    """
    rules, field = run.rules, Field(run.rows)
    judge = _Judge(field, others)
    margins: Margins | None = None
    with run.rows.kept():
        children = settle(run, field, children)
        if len(np.unique(children.classes)) > 1:
            margins = field.margins(_as_prototypes(children))
    state, margins = _adopted(run, field, judge, state, children, margins)
    yield state
    lowest, n_stale, is_noisy = np.inf, 0, settle is _settle_robustly
    while n_stale < MAX_STALE_STAGES and state.round < rules.max_iter:
        if run.is_spent(state) or (rules.max_clusters is None and not state.n_mixed):
            break
        if margins is None:
            break
        with run.rows.kept():
            stage = _stage(run, state, field, margins)
            if stage is None:
                break
            children, seen = stage, field.margins(_as_prototypes(stage))
            cost = judge.cost(_as_prototypes(stage), seen)
            gains = cost < COST_RATIO * state.margin_cost
            if rules.max_clusters is not None and (is_noisy or not gains):
                robust = _robust_stage(run, state, field, margins)
                if robust is not None:
                    robust_seen = field.margins(_as_prototypes(robust))
                    if judge.cost(_as_prototypes(robust), robust_seen) < COST_RATIO * cost:
                        seen.release()
                        children, seen, is_noisy = robust, robust_seen, True
                    else:
                        robust_seen.release()
        margins.release()
        before = len(state.prototypes)
        state, margins = _adopted(run, field, judge, state, children, seen)
        yield state
        gained = state.cells.excess < lowest or len(state.prototypes) > before
        n_stale = 0 if gained else n_stale + 1
        lowest = min(lowest, state.cells.excess)
    if margins is not None:
        margins.release()
    return _Grown(state, is_noisy)


def _adopted(
    run: Run,
    field: Field,
    judge: _Judge,
    state: State,
    children: Children,
    seen: Margins | None,
) -> tuple[State, Margins | None]:
    """Advance to children whose margins were seen, after reviving those that win no row."""
    phase = "grow" if run.sample is None else "sample"
    if seen is None:
        return _measured(field, judge, run.advance(state, phase, children))
    as_seen, children = children, _revived(field, children, seen)
    is_seen = np.array_equal(as_seen.centers, children.centers)
    state = run.advance(state, phase, children, seen if is_seen else None)
    known = seen if _is_same(state.prototypes, as_seen) else None
    if known is None:
        seen.release()
    return _measured(field, judge, state, known)


def _measured(
    field: Field, judge: _Judge, state: State, margins: Margins | None = None
) -> tuple[State, Margins | None]:
    """Add the margin cost to a state, and return its margins; None if there is only one class."""
    if len(np.unique(state.prototypes.classes)) < 2:
        return state, None
    if margins is None:
        margins = field.margins(state.prototypes)
    return replace(state, margin_cost=judge.cost(state.prototypes, margins)), margins


def _class_means(run: Run, state: State) -> Children:
    """Return one child for each class that is large enough, at its mean."""
    cells = state.cells
    which = np.flatnonzero(cells.large)
    if not len(which):
        which = cells.heaviest[:1]
    groups = cells.groups.take(which)
    centers = _centers(run, groups)
    return Children(np.zeros(len(which), dtype=np.intp), groups.classes, centers)


def _stage(run: Run, state: State, field: Field, margins: Margins) -> Children | None:
    """Split clusters, and move all prototypes to means; None if no cluster can be split."""
    cost = field.costs(margins, SPLIT_SLOPE, RowCost.ERROR)
    sums = run.rows.assign_own(state.prototypes, margins=margins.number)
    if run.rules.max_clusters is None:
        # Only clusters that lose rows to another class need more prototypes.
        lost, _ = field.losers(margins, state.prototypes.classes)
        cost = np.where(lost > 0, cost, 0.0)
    children = _split(run, state, cost, sums)
    if children is None:
        return None
    n_iterations = LAST_MEAN_ITERATIONS if _is_last(run, children) else MEAN_ITERATIONS
    return _move_to_means(run, children, n_iterations)


def _robust_stage(run: Run, state: State, field: Field, margins: Margins) -> Children | None:
    """Do what `_stage` does, under a budget, with little influence of rows with wrong labels."""
    cost = field.costs(margins, SPLIT_SLOPE, RowCost.BORDER)
    run.rows.assign_own(state.prototypes, margins=margins.number)
    classes = state.prototypes.classes
    _, won = field.losers(margins, classes)
    sums = run.rows.sum_won(margins.number, classes, won > 0)
    children = _split(run, state, cost, sums)
    if children is None:
        return None
    n_iterations = LAST_ROBUST_ITERATIONS if _is_last(run, children) else MEAN_ITERATIONS
    children = _move_to_robust_means(run, field, children, n_iterations)
    return _without_harmful(field, children, len(state.prototypes))


def _is_last(run: Run, children: Children) -> bool:
    """Tell whether a stage spends the budget, and no settling on more rows follows."""
    budget = run.rules.max_clusters
    return run.sample is None and budget is not None and len(children.parents) >= budget


def _split(run: Run, state: State, cost: Floats, sums: GroupSums) -> Children | None:
    """Split the clusters with the highest costs; None if none can be split.

    Parameters
    ----------
    run : Run
    state : State
    cost : array of shape (k,)
        Of each prototype. Prototypes of cost 0 are not split.
    sums : GroupSums
        Of the rows of each prototype's class, by cell and class. Rows are assigned accordingly.
    """
    k, rows = len(state.prototypes), run.rows
    own = sums.tally(rows.n_classes)
    want = int(min(run.room(state), max(1, int(k * (MAX_STAGE_GROWTH - 1)))))

    # There is one group per prototype, as every row is assigned to one of its class.
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
    # In the order of `Prototypes`: within a class, new ones are last.
    is_second = np.append(False, both.cells[1:] == both.cells[:-1])
    both = both.take(np.lexsort((both.cells, is_second, both.classes)))
    centers = _centers(run, both)
    cut_short = run.rules.max_clusters is not None  # `fill` spends what is left of a budget
    return Children(both.cells, both.classes, centers, cut_short)


def _halves(run: Run, groups: Tally) -> Tally:
    """Split groups across the direction to their farthest row, if both halves are large enough."""
    rows, middles = run.rows, groups.means
    codes = groups.cells * rows.n_classes + groups.classes
    farthest, _ = rows.pick(codes, middles, farthest=True)
    halves = rows.tally_sides(codes, middles, farthest - middles)  # in float64
    large = see_cells(halves, run.rules).large
    count = np.bincount(halves.cells[large], minlength=int(groups.cells.max(initial=0)) + 1)
    return halves.take(np.flatnonzero(count[halves.cells] == 2))


def _stay(run: Run, field: Field, children: Children) -> Children:
    """Leave children where they are."""
    return children


def _settle(run: Run, field: Field, children: Children) -> Children:
    """Move children that have settled on a sample to the means of all rows."""
    return _move_to_means(run, children, WHOLE_MEAN_ITERATIONS, WHOLE_STEP)


def _settle_robustly(run: Run, field: Field, children: Children) -> Children:
    """Do what `_settle` does, with less weight for rows farther beyond the border."""
    return _move_to_robust_means(run, field, children, WHOLE_ROBUST_ITERATIONS)


def _unchanged(prototypes: Prototypes) -> Children:
    """Return one child for each prototype, at the same place."""
    return Children(np.arange(len(prototypes)), prototypes.classes, prototypes.centers)


def _revived(field: Field, children: Children, margins: Margins) -> Children:
    """Place children that win no row on the rows of their class with the largest margins."""
    lost = np.flatnonzero(~margins.wins)
    which, places = field.worst_rows(margins, children.classes, lost)
    centers = children.centers.copy()
    centers[which] = places
    return replace(children, centers=centers)


def _move_to_means(run: Run, children: Children, n_iterations: int, step: float = 1.0) -> Children:
    """Run k-means within each class.

    If the step is above 1, all iterations but the last go beyond the means, which saves some.
    """
    sums = None
    for left in reversed(range(n_iterations)):
        sums = run.rows.assign_own(_as_prototypes(children), sums)
        moved = _moved(run, children, sums.tally(run.rows.n_classes), step if left else 1.0)
        if np.array_equal(moved.centers, children.centers):
            break
        children = moved
    return children


def _move_to_robust_means(
    run: Run, field: Field, children: Children, n_iterations: int
) -> Children:
    """Run k-means within each class, with less weight for rows farther beyond the border."""
    for _ in range(n_iterations):
        with field.margins(_as_prototypes(children)) as margins:
            sums = field.tally_shares(margins, SPLIT_SLOPE, SHARE_LEVELS)
        moved = _moved(run, children, sums.tally(run.rows.n_classes))
        if np.array_equal(moved.centers, children.centers):
            break
        children = moved
    return children


def _without_harmful(field: Field, children: Children, n_before: int) -> Children:
    """Drop children in whose cell another class outweighs their own, the most harmful first.

    At most half of the added prototypes are dropped, so that every stage adds some. If all
    prototypes of a class are harmful, they stay.
    """
    with field.margins(_as_prototypes(children)) as margins:
        harm = field.harm(margins, children.classes)
    harmful = harm >= 0
    for c in np.unique(children.classes):
        if harmful[children.classes == c].all():
            harmful[children.classes == c] = False
    most = (len(harm) - n_before) // 2
    worst = np.argsort(-comparable(harm), kind="stable")
    gone = worst[harmful[worst]][:most]
    keep = np.setdiff1d(np.arange(len(harm)), gone)
    return replace(
        children,
        parents=children.parents[keep],
        classes=children.classes[keep],
        centers=children.centers[keep],
    )


def _moved(run: Run, children: Children, tally: Tally, step: float = 1.0) -> Children:
    centers = children.centers.copy()
    for some, points in tally.mean_chunks():  # means of all groups would take much memory
        cells = tally.cells[some]
        if step != 1:
            here = centers[cells].astype(np.float64)
            points = here + step * (points - here)
        centers[cells] = run.rules.geometry.centers(points, run.rows.dtype)
    return replace(children, centers=centers)


def _centers(run: Run, groups: Tally) -> npt.NDArray[np.floating]:
    """Return the means of groups, as centres."""
    centers = np.empty(groups.sums.shape[1:], dtype=run.rows.dtype)
    for some, means in groups.mean_chunks():
        centers[some] = run.rules.geometry.centers(means, run.rows.dtype)
    return centers


def _is_same(prototypes: Prototypes, children: Children) -> bool:
    return np.array_equal(prototypes.classes, children.classes) and np.array_equal(
        prototypes.centers, children.centers
    )


def _as_prototypes(children: Children) -> Prototypes:
    return Prototypes(children.centers, children.classes, np.arange(len(children.parents)))
