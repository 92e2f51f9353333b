"""The shortcuts of the face experiment against the plain computation."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import grown
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from dkmeans import OverfittingWarning
from dkmeans.growth.round import Children, next_children
from dkmeans.growth.run import Run
from dkmeans.prepare import prepare
from dkmeans_paper import jobs
from dkmeans_paper.gram import grow, inner_products, k_means
from dkmeans_paper.representations import REPRESENTATIONS
from dkmeans_paper.rounds import Sums

NOBODY = np.empty(0, dtype=np.intp)
REPULSIONS = st.sampled_from([0.0, 0.25, 0.5, 1.0, "size"])


def blobs(seed, n_classes=4, n=90, d=6):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_classes * 3, d)) * 1.2
    blob = rng.integers(0, len(centers), n)
    y = blob % n_classes
    y[:n_classes] = np.arange(n_classes)
    return centers[blob] + rng.normal(size=(n, d)), y.astype(np.intp)


@given(seed=st.integers(0, 10**6), repulsion=REPULSIONS, budget=st.integers(4, 30))
def test_the_rounds_are_those_of_the_estimator(seed, repulsion, budget):
    X, y = blobs(seed)
    sums = Sums(inner_products(X))
    queries = [NOBODY, np.array([0]), np.array([5, 50])]
    for left_out in queries:  # the later ones by differences from the first
        found = grow(sums, y, left_out, repulsion, budget=budget)
        keep = np.setdiff1d(np.arange(len(y)), left_out)
        if len(np.unique(y[keep])) < 4:
            continue
        model = grown(budget, growth="paper", repulsion=repulsion).fit(X[keep], y[keep])
        if set(model.history_.phase) != {"grow"}:
            continue  # the guaranteed ending is not part of the paper's rounds
        assert found.rounds == model.n_iter_
        np.testing.assert_array_equal(found.labels[keep], model.labels_)
        np.testing.assert_array_equal(found.centers.classes, model.cluster_classes_)
        distances = cdist(model.cluster_centers_, X, "sqeuclidean")
        np.testing.assert_allclose(
            found.centers.distances(sums.gram, np.arange(len(X))), distances, atol=1e-9
        )


def plain_positive(X, y, repulsion, positive):
    """Reading (a), driven by the estimator's own rounds."""
    estimator = grown(growth="paper", repulsion=repulsion)
    with prepare(estimator, X, y, None) as prepared:
        return grow_plainly(prepared.run(), positive)


def grow_plainly(run: Run, positive: int):
    state = run.begin()
    for _ in range(60):
        children = next_children(state.prototypes, state.cells, run.rules)
        # Of the new children of class 1, the lightest are taken back.
        groups = state.cells.groups
        weight = {
            (i, c): w
            for i, c, w in zip(groups.cells, groups.classes, state.cells.weight, strict=True)
        }
        keeps = np.ones(len(children.parents), dtype=bool)
        ones = [
            (-weight[parent, 1], state.prototypes.ids[parent], at)
            for at, (parent, c) in enumerate(zip(children.parents, children.classes, strict=True))
            if c == 1
            and state.prototypes.classes[parent] != 1
            and (children.parents == parent).sum() > 1
        ]
        surplus = int((children.classes == 1).sum()) - positive
        for _, _, at in sorted(ones)[len(ones) - max(surplus, 0) :]:
            keeps[at] = False
        state = run.advance(
            state,
            "grow",
            Children(children.parents[keeps], children.classes[keeps], children.centers[keeps]),
        )
        if (state.prototypes.classes == 1).sum() >= positive or not state.n_mixed:
            break
    return state


@given(seed=st.integers(0, 10**6), repulsion=REPULSIONS)
def test_run_until_converged_the_rounds_are_those_of_the_estimator(seed, repulsion):
    X, y = blobs(seed, n_classes=3, n=60, d=3)
    found = grow(Sums(inner_products(X)), y, NOBODY, repulsion)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfittingWarning)
        model = grown(growth="paper", repulsion=repulsion).fit(X, y)
    if set(model.history_.phase) == {"grow"} and model.converged_:
        assert found.converged
        assert found.rounds == model.n_iter_
        np.testing.assert_array_equal(found.labels, model.labels_)


@pytest.mark.parametrize("repulsion", [0.0, 0.25, "size"])
def test_growing_to_a_number_of_positive_clusters(repulsion):
    tried = 0
    for seed in range(30):
        X, y = blobs(seed)
        y = (y == 0).astype(np.intp)
        found = grow(Sums(inner_products(X)), y, NOBODY, repulsion, positive=4)
        if (found.centers.classes == 1).sum() < 4:
            continue
        state = plain_positive(X, y, repulsion, 4)
        distances = cdist(state.prototypes.centers, X, "sqeuclidean")
        np.testing.assert_array_equal(found.centers.classes, state.prototypes.classes)
        np.testing.assert_allclose(
            found.centers.distances(inner_products(X), np.arange(len(X))), distances, atol=1e-9
        )
        # The same by differences, without one row.
        sums = Sums(inner_products(X))
        grow(sums, y, NOBODY, repulsion, positive=4)
        amended = grow(sums, y, np.array([seed]), repulsion, positive=4)
        plain = grow(Sums(sums.gram), y, np.array([seed]), repulsion, positive=4)
        np.testing.assert_array_equal(amended.labels, plain.labels)
        np.testing.assert_allclose(amended.centers.products, plain.centers.products, atol=1e-9)
        tried += 1
    assert tried > 10


@given(seed=st.integers(0, 10**6), k=st.integers(1, 8))
def test_k_means_is_that_of_scikit_learn(seed, k):
    X, _ = blobs(seed)
    sums = Sums(inner_products(X))
    order = np.random.default_rng(seed).permutation(len(X))
    for left_out in (NOBODY, order[-1:], order[:2]):
        start = order[~np.isin(order, left_out)][:k]
        found = k_means(sums, start, left_out)
        keep = np.setdiff1d(np.arange(len(X)), left_out)
        plain = KMeans(k, init=X[start], n_init=1, tol=0, algorithm="lloyd").fit(X[keep])
        assert len(found.centers) == k
        distances = found.centers.distances(sums.gram, keep)
        assert distances.min(axis=0).sum() == pytest.approx(plain.inertia_, rel=1e-9)
        np.testing.assert_array_equal(found.labels[keep], plain.labels_)


@pytest.fixture(scope="module")
def faces():
    X, y = blobs(3, n_classes=4, n=100, d=8)
    gram = inner_products(X)
    return X, y, gram, np.arange(len(y))


def test_leaving_one_out_of_k_means(faces):
    X, y, gram, fold = faces
    found = jobs.classwise(gram, y, fold, person=1, k=3, seed=5)
    order = np.random.default_rng([5, 1]).permutation(np.flatnonzero(y == 1))
    for q in range(0, len(y), 3):
        start = order[order != q][:3]
        rows = X[(y == 1) & (np.arange(len(y)) != q)]
        plain = KMeans(3, init=X[start], n_init=1, tol=0, algorithm="lloyd").fit(rows)
        nearest = cdist(plain.cluster_centers_, X[[q]], "sqeuclidean").min()
        assert found["distance"][q] == pytest.approx(nearest, abs=1e-9)
        assert found["person_ssd"][q] == pytest.approx(plain.inertia_)


def test_leaving_one_out_of_one_against_the_rest(faces):
    X, y, gram, fold = faces
    found = jobs.one_vs_rest(gram, y, fold, person=2, repulsion=0.25, budget=9)
    for q in range(0, len(y), 3):
        keep = np.arange(len(y)) != q
        model = grown(9, growth="paper", repulsion=0.25).fit(X[keep], y[keep] == 2)
        own = model.cluster_centers_[model.cluster_classes_]
        distance = cdist(own, X[[q]], "sqeuclidean").min()
        assert found["distance"][q] == pytest.approx(distance, abs=1e-9)
        assert found["ssd"][q] == pytest.approx(model.inertia_)
        assert found["own_clusters"][q] == len(own)


def test_leaving_one_out_of_all_together(faces):
    X, y, gram, fold = faces
    found = jobs.joint(gram, y, fold, turns=fold.tolist(), repulsion="size", budget=16)
    for q in range(0, len(y), 3):
        keep = np.arange(len(y)) != q
        model = grown(16, growth="paper", repulsion="size").fit(X[keep], y[keep])
        to_own = 0.0
        for person in range(4):
            own = model.cluster_centers_[model.cluster_classes_ == person]
            distance = cdist(own, X[[q]], "sqeuclidean").min()
            assert found["distance"][person, q] == pytest.approx(distance, abs=1e-9)
            to_own += cdist(own, X[keep & (y == person)], "sqeuclidean").min(axis=0).sum()
        assert found["person_ssd"][q] == pytest.approx(to_own)
        assert found["ssd"][q] == pytest.approx(model.inertia_)


def test_pairs_are_fits_on_two_people(faces):
    X, y, gram, _ = faces
    fold = np.arange(len(y)) % 5
    found = jobs.pairs(gram, y, fold, person=1, repulsion=0.0, budget=6)
    assert found["rivals"].tolist() == [2, 3]
    for turn in range(5):
        training = ((y == 1) | (y == 3)) & (fold != turn)
        model = grown(6, growth="paper", repulsion=0.0).fit(X[training], y[training])
        for side, person in enumerate((1, 3)):
            own = model.cluster_centers_[model.cluster_classes_ == person]
            distance = cdist(own, X[fold == turn], "sqeuclidean").min(axis=0)
            np.testing.assert_allclose(
                found["distance"][1, side, fold == turn], distance, atol=1e-9
            )


def test_refined_models_are_those_of_the_estimator(faces):
    X, y, _, _ = faces
    fold = np.arange(len(y)) % 5
    grey = np.rint(255 * (X - X.min()) / np.ptp(X)).astype(np.uint8)
    found = jobs.refined(
        grey[:, None],
        y,
        fold,
        representation="raw",
        turn=2,
        repulsion=0.25,
        growth="best",
        budget=12,
    )
    X = REPRESENTATIONS["raw"](grey[:, None]).astype(np.float32)
    out = fold == 2
    model = grown(12, growth="best", refine="margin").fit(X[~out], y[~out])
    np.testing.assert_array_equal(found["distance"][:, out].argmin(axis=0), model.predict(X[out]))
    assert np.isnan(found["distance"][:, ~out]).all()


def test_a_face_that_is_not_asked_about_is_not_answered(faces):
    _, y, gram, fold = faces
    some = np.where(fold % 10 == 0, fold, -1)
    found = jobs.one_vs_rest(gram, y, some, person=0, repulsion=0.25, positive=3)
    np.testing.assert_array_equal(np.isnan(found["distance"]), some < 0)


def test_timing_measures_both(faces):
    X, y, gram, _ = faces
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = jobs.timing(
            X.astype(np.float32), gram, y, person=3, query=3, k=4, clusters=8, repulsion=0.25
        )
    assert set(found) == {"whole", "alike", "pair", "person"}
    assert all((runs > 0).all() for runs in found.values())
    assert found["alike"][3] == found["whole"][3]  # rounds of the same growth
