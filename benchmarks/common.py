"""Data sets and helpers that the benchmarks share."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_moons
from sklearn.preprocessing import StandardScaler


def data_folder(named: str | None = None) -> Path | None:
    """Folder with larger data sets: the one given, that of DKMEANS_DATA, or ../shared/data."""
    folder = Path(named or os.environ.get("DKMEANS_DATA", "../shared/data"))
    return folder if folder.is_dir() else None


def yale_faces(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Extended Yale B after a high-pass filter, each image at unit length."""
    yale = np.load(folder / "yaleb_ext_48x42.npz")
    faces = yale["images"].astype(np.float32)
    faces -= gaussian_filter(faces, (0, 4, 4))
    faces = faces.reshape(len(faces), -1)
    faces /= np.linalg.norm(faces, axis=1, keepdims=True)
    return faces, yale["y"]


def small_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Sets that scikit-learn ships, and UCI letter where its file is at hand."""
    standardise = StandardScaler().fit_transform
    X_wine, y_wine = load_wine(return_X_y=True)
    X_cancer, y_cancer = load_breast_cancer(return_X_y=True)
    sets = {
        "digits": load_digits(return_X_y=True),
        "breast cancer": (standardise(X_cancer), y_cancer),
        "wine": (standardise(X_wine), y_wine),
        "moons": make_moons(1000, noise=0.25, random_state=0),
    }
    folder = data_folder()
    if folder is not None and (folder / "letter.npz").exists():
        letter = np.load(folder / "letter.npz")
        sets["letter"] = (standardise(letter["X"].astype(np.float64)), letter["y"])
    return sets


def image_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """8000 images of Fashion-MNIST, and Extended Yale B after a high-pass filter."""
    folder = data_folder()
    if folder is None:
        raise SystemExit("No data: set DKMEANS_DATA to a folder with the .npz files.")
    fashion = np.load(folder / "fashion_mnist.npz")
    pixels = fashion["images"][:8000].reshape(8000, -1).astype(np.float32) / 255
    return {"fashion 8000": (pixels, fashion["y"][:8000]), "yale b": yale_faces(folder)}


def overlapping_blobs(
    n: int, d: int = 64, n_classes: int = 10, per_class: int = 6, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian blobs, several per class, whose centres are 0.6 apart in each feature, about."""
    centers = 0.6 * np.random.default_rng(0).normal(size=(n_classes * per_class, d))
    rng = np.random.default_rng(seed)
    blob = rng.integers(0, len(centers), n)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X += centers[blob].astype(np.float32)
    return X, blob % n_classes


def curved_border(
    n: int, d: int = 64, n_classes: int = 10, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """One isotropic cloud, cut into classes of equal size by parallel curved borders."""
    X = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    height = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * np.sin(3 * X[:, 2])
    borders = np.quantile(height, np.arange(1, n_classes) / n_classes)
    return X, np.searchsorted(borders, height)


def dependent_features(
    n: int, d: int = 20, n_classes: int = 6, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes that differ little, beside three factors that all features depend on."""
    shape = np.random.default_rng(0)
    means, loadings = shape.normal(size=(n_classes, d)), shape.normal(size=(3, d))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return rng.normal(size=(n, 3)) @ loadings + 0.05 * (means[y] + rng.normal(size=(n, d))), y


def best_times(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least time of each job in seconds, after a call to warm up; the jobs take turns."""
    for job in jobs.values():
        job()
    best = dict.fromkeys(jobs, np.inf)
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def print_result(result: dict[str, Any]) -> None:
    """Print the line that programs read."""
    print("RESULT", json.dumps(result))
