"""The rendered faces are lit as they should be and about as hard as real ones."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.model_selection import StratifiedKFold

from dkmeans_paper.faces import Faces
from dkmeans_paper.heads import RenderGrid, draw_head, shade
from dkmeans_paper.rendered import (
    LIGHTS,
    Sequences,
    direction_vectors,
    motion_sequences,
    rendered_faces,
)


@pytest.fixture(scope="module")
def faces() -> Faces:
    return rendered_faces()


@pytest.fixture(scope="module")
def films() -> Sequences:
    return motion_sequences()


def lit(faces: Faces, azimuth: int, elevation: int) -> npt.NDArray[np.float64]:
    which = (faces.azimuth == azimuth) & (faces.elevation == elevation)
    return faces.images[which].astype(np.float64)


def unit(X: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    flat = X.reshape(len(X), -1)
    return flat / np.linalg.norm(flat, axis=1, keepdims=True)


def centres(X: npt.NDArray[np.float64], k: int, seed: int) -> npt.NDArray[np.float64]:
    return KMeans(k, init="random", n_init=1, random_state=seed).fit(X).cluster_centers_


def test_the_lights_are_those_of_extended_yale_b() -> None:
    assert len(LIGHTS) == len(set(LIGHTS)) == 64
    assert sorted(LIGHTS) == LIGHTS
    assert {(0, 0), (0, 90), (-130, 20), (130, 20), (35, -20), (110, 65)} <= set(LIGHTS)


def test_shapes_and_order(faces: Faces) -> None:
    assert faces.images.shape == (40 * 64, 48, 42)
    assert faces.images.dtype == np.uint8
    assert faces.person.tolist() == [i for i in range(40) for _ in range(64)]
    assert list(zip(faces.azimuth[64:128], faces.elevation[64:128], strict=True)) == LIGHTS
    assert faces.names[0] == "person 01"
    assert len(set(faces.names)) == 40
    assert faces.skipped == []


def test_a_person_is_the_same_however_many_there_are(faces: Faces) -> None:
    np.testing.assert_array_equal(rendered_faces(3).images, faces.images[: 3 * 64])


def test_other_seeds_and_shapes_give_other_pictures(faces: Faces) -> None:
    assert (rendered_faces(1, seed=1).images != faces.images[:64]).mean() > 0.5
    small = rendered_faces(1, shape=(24, 21)).images
    assert small.shape == (64, 24, 21)
    # The same person, only smaller.
    halved = faces.images[:64].reshape(64, 24, 2, 21, 2).mean(axis=(2, 4))
    assert np.corrcoef(small.ravel(), halved.ravel())[0, 1] > 0.95


def test_lights_behind_the_head_leave_it_dark(faces: Faces) -> None:
    front = lit(faces, 0, 0).mean()
    assert 80 < front < 150
    assert lit(faces, 70, 0).mean() < 0.8 * front
    assert 1 < lit(faces, 130, 20).mean() < 0.15 * front


def test_positive_azimuth_lights_the_left_of_the_picture(faces: Faces) -> None:
    left = lit(faces, 50, 0)
    right = lit(faces, -50, 0)
    assert (left[:, :, :21].mean(axis=(1, 2)) > 1.5 * left[:, :, 21:].mean(axis=(1, 2))).all()
    assert left[:, :, :21].mean() == pytest.approx(right[:, :, 21:].mean(), rel=0.1)
    assert lit(faces, 0, 90)[:, :24].mean() > 2 * lit(faces, 0, 90)[:, 24:].mean()


def test_the_nose_casts_a_shadow() -> None:
    head = draw_head(np.random.default_rng(0), RenderGrid.around((48, 42), 0))
    lamp, camera = direction_vectors(np.array([50]), np.array([0])), np.array([[0.0, 0.0, 1.0]])
    full, hard = (shade(head, lamp, camera, cast=cast)[0] for cast in (False, True))
    assert (hard <= full).all()
    darkened = hard < 0.5 * full
    cheek = slice(40, 60)
    assert darkened[cheek, 42:].mean() > 0.15 > 0.02 > darkened[cheek, :42].mean()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.study)])
def test_class_wise_k_means_errs_about_as_on_real_faces(faces: Faces, seed: int) -> None:
    images = faces.images.astype(np.float64)
    X, y = unit(images - gaussian_filter(images, (0, 4, 4))), faces.person
    wrong = 0
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
        rows = [train[y[train] == who] for who in range(40)]
        found = np.concatenate([centres(X[own], 8, seed) for own in rows])
        wrong += int((pairwise_distances_argmin(X[test], found) // 8 != y[test]).sum())
    assert 0.1 < wrong / len(y) < 0.3


def test_films_are_the_same_again(films: Sequences) -> None:
    assert films.frames.shape == (3, 100, 48, 42)
    assert films.frames.dtype == np.uint8
    assert films.person == (0, 1, 1)
    assert len(set(films.titles)) == 3
    first, again = (motion_sequences(n_frames=5, shape=(24, 21)).frames for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_films_move_smoothly_and_without_holes(films: Sequences) -> None:
    frames = films.frames.astype(np.float64)
    near = np.abs(np.diff(frames, axis=1)).mean()
    far = np.abs(frames[:, 50:] - frames[:, :50]).mean()
    assert 3 * near < far
    # A hole would be a dark pixel amid bright ones.
    middle = films.frames[:, :, 16:32, 14:28]
    around = np.stack([np.roll(middle, 2 * s, axis=a) for s in (-1, 1) for a in (2, 3)]).min(axis=0)
    assert not ((middle < 10) & (around > 80))[:, :, 2:-2, 2:-2].any()


def test_light_and_pose_confuse_k_means_on_the_third_film(films: Sequences) -> None:
    X = unit(films.frames.reshape(300, -1).astype(np.float64))
    for seed in range(3):
        found = np.concatenate([centres(X[:100], 5, seed), centres(X[100:200], 5, seed)])
        wrong = (pairwise_distances_argmin(X[200:], found) < 5).mean()
        assert 0.1 < wrong < 0.45
