"""The synthetic experiments: the data, and that the report says what the fits did."""

import hashlib
import json

import numpy as np
import pytest
from models import grown

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

from rich.console import Console

from dkmeans import OverfittingWarning
from dkmeans.growth.rules import Continuation
from dkmeans.plots import growth
from dkmeans_paper import plane, synthetic
from dkmeans_paper.effort import Effort
from dkmeans_paper.study import Study

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{OverfittingWarning.__module__}.OverfittingWarning"
)
FIGURES = [f"synthetic-{name}" for name in ("1", "2", "3", "density", "change")]


def away(a, b):
    return np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=-1)).min(axis=1)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "GRID_POINTS", 20)  # a coarse grid, for speed
        study = Study(folder, 1, Console(quiet=True))
        section = synthetic.run_synthetic(study, Effort(redrawings=2))
    return folder / "figures", section


def test_the_sets_are_fixed():
    X1, y1, X2, y2 = plane.plane_sets()
    thousandths = np.rint(1000 * X2).astype("<i8")
    assert hashlib.sha256(thousandths.tobytes()).hexdigest()[:16] == "126f9b4c0b0a0555"
    assert (len(X1), len(X2)) == (305, 345)
    np.testing.assert_array_equal(X2[: len(X1)], X1)
    np.testing.assert_array_equal(y2[: len(y1)], y1)
    assert not np.array_equal(plane.plane_sets(1)[0], X1)


def test_the_added_points_are_positive_and_beside_negatives():
    X1, y1, X2, y2 = plane.plane_sets()
    added = X2[len(X1) :]
    assert (y2[len(y1) :] == 1).all()
    to_negatives, to_positives = (away(added, X1[y1 == c]) for c in (0, 1))
    assert (to_negatives < to_positives).mean() > 0.9
    assert np.median(to_negatives) < 0.7
    assert not (X1[:, None] == added).all(axis=-1).any()


def test_every_figure_is_there_and_named(report):
    folder, section = report
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")
    )
    assert [part.name for part in section.parts if part.kind == "picture"] == FIGURES


def test_the_rounds_are_all_shown_and_the_third_starts_where_the_first_ended():
    X1, y1, X2, y2 = plane.plane_sets()
    first = grown(growth="paper").fit(X1, y1)
    shown = synthetic.growth(grown(growth="paper"), X1, y1, Continuation.FRESH).panels
    third = synthetic.growth(first, X2, y2, Continuation.WARM).panels
    assert [panel.round for panel in shown] == list(range(first.n_iter_ + 1))
    assert third[0].prototypes.centers.tobytes() == shown[-1].prototypes.centers.tobytes()
    continued = grown(growth="paper", warm_start=True).fit(X1, y1).fit(X2, y2)
    assert third[-1].prototypes.centers.tobytes() == continued.cluster_centers_.tobytes()


def test_the_numbers_are_those_of_the_fits(report):
    numbers = report[1].numbers
    X1, y1, X2, y2 = plane.plane_sets()
    first, afresh = (
        grown(growth="paper").fit(X1, y1),
        grown(growth="paper").fit(X2, y2),
    )
    assert numbers["clusters"][:2] == [first.n_clusters_, afresh.n_clusters_]
    assert numbers["converged"] == [True, True, True]
    centers, labels = first.cluster_centers_, first.cluster_classes_
    moved = np.empty(len(centers))
    for c in (0, 1):
        there = afresh.cluster_centers_[afresh.cluster_classes_ == c]
        moved[labels == c] = away(centers[labels == c], there)
    far = away(centers, X2[len(X1) :]) > numbers["far"]
    change = numbers["change"]["1 to 2"]["far"]
    assert change["centres"] == far.sum()
    assert change["same"] == pytest.approx((moved[far] <= numbers["tolerance"]).mean())
    assert change["median"] == pytest.approx(np.median(moved[far]))
    # Quarters of equal size share out all centres.
    quarters = numbers["density"]["1"]["per_100"]
    assert np.mean(quarters) * len(X1) / 100 == pytest.approx(first.n_clusters_, rel=0.01)


def test_verdicts_follow_the_numbers(report):
    section = report[1]
    assert [claim.verdict for claim in section.claims] == list(
        plane.judge(section.numbers).values()
    )
    worse = json.loads(json.dumps(section.to_json()))["numbers"]
    worse["converged"] = [True, False, True]
    worse["agreement"] |= {"same": 0.4, "plane": 0.5}
    worse["density"]["3"]["spearman"] = -0.1
    for way in ("1 to 2", "2 to 1"):
        worse["change"][way]["far"]["same"] = 0.9
    assert plane.judge(worse) | {"near": None} == {
        "converge": "in part",
        "density": "not confirmed",
        "far": "confirmed",
        "near": None,
        "agreement": "not confirmed",
    }
    assert sum(section.numbers["redrawn"]["far"].values()) == 2
