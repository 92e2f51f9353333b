"""Whether a model is the last step of a fitted pipeline, which should be exported as a whole."""

import gc
import warnings
from typing import Any

from sklearn.pipeline import Pipeline


def warn_if_enclosed(model: Any, what: str, stacklevel: int) -> None:
    """Warn if a model that is exported alone needs the steps of a pipeline before it."""
    pipeline = enclosing_pipeline(model)
    if pipeline is not None:
        steps = ", ".join(type(step).__name__ for _, step in pipeline.steps[:-1])
        warnings.warn(
            f"The model is the last step of a pipeline, and needs what {steps} make of rows: pass "
            f"the whole pipeline to dkmeans.{what}.",
            stacklevel=stacklevel + 1,
        )


def enclosing_pipeline(model: Any) -> Pipeline | None:
    """Find a pipeline with several steps that ends in this very model.

    A model does not know its pipeline, so the garbage collector is asked who refers to it: pairs of
    a name and the model, lists of such pairs, and their pipelines.
    """
    for pair in gc.get_referrers(model):
        if not (isinstance(pair, tuple) and len(pair) == 2 and pair[1] is model):
            continue
        for steps in gc.get_referrers(pair):
            if isinstance(steps, list) and len(steps) > 1 and steps[-1] is pair:
                for owner in _owners(steps):
                    if owner.steps is steps:
                        return owner
    return None


def _owners(steps: list[Any]) -> list[Pipeline]:
    """Find pipelines that refer to a list, by themselves or by their dictionaries."""
    found = []
    for holder in gc.get_referrers(steps):
        holders = gc.get_referrers(holder) if isinstance(holder, dict) else [holder]
        found += [owner for owner in holders if isinstance(owner, Pipeline)]
    return found
