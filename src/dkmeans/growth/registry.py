"""Growth rules and refinements, by the names that the estimator's parameters have.

The only place that knows these names. A new growth rule or refinement is a module with a function
as below, and an entry here.
"""

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

from dkmeans.growth.best import best_rounds
from dkmeans.growth.margins import RefineStep
from dkmeans.growth.paper import paper_rounds
from dkmeans.growth.refine import refine_margins
from dkmeans.growth.run import Run, State

# Run rounds from a state: `run.advance` makes the next state, which is yielded. Return the last
# one, at the latest when `run.is_over`. Mixed cells and missing classes are left to `grow`.
GrowthRule: TypeAlias = Callable[[Run, State], Generator[State, None, State]]

# Move the prototypes of a state. Yield a step after each pass, and at the end a state; yield
# nothing if there is nothing to improve.
Refinement: TypeAlias = Callable[[Run, State], Iterator[State | RefineStep]]

GROWTH_RULES: dict[str, GrowthRule] = {"paper": paper_rounds, "best": best_rounds}
REFINEMENTS: dict[str, Refinement] = {"margin": refine_margins}
