"""Draw the figures of the guide: `python tools/draw_plots.py` writes them to docs/images."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits, load_iris, load_wine, make_moons
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans
from dkmeans.plots import (
    CellsDisplay,
    CertifiedAccuracyDisplay,
    ClassBordersDisplay,
    ConfusionDisplay,
    FeatureImportancesDisplay,
    MarginDisplay,
    PrototypeProfilesDisplay,
    RejectionDisplay,
    TreeDisplay,
)

IMAGES = Path(__file__).parent.parent / "docs" / "images"


def save(figure: Any, name: str) -> None:
    """Write a small file, with a palette: the figures have few colours."""
    path = IMAGES / f"{name}.png"
    figure.savefig(path, dpi=100)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(128)
    small.save(path, optimize=True)


def model() -> None:
    """Draw what a fit with the defaults makes of two moons."""
    X, y = make_moons(500, noise=0.15, random_state=0)
    save(CellsDisplay.from_estimator(DiscriminativeKMeans().fit(X, y), X, y).figure_, "model")


def cells() -> None:
    """Draw cells of two features, and a cut through four."""
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    X, y = make_moons(500, noise=0.15, random_state=0)
    CellsDisplay.from_estimator(
        DiscriminativeKMeans(max_clusters=12, refine=None, metric="euclidean").fit(X, y),
        X,
        y,
        ax=left,
    )
    iris = load_iris()
    X, y = iris.data, iris.target_names[iris.target]
    CellsDisplay.from_estimator(
        DiscriminativeKMeans(max_clusters=6, refine=None, metric="euclidean").fit(X, y),
        X,
        y,
        ax=right,
    )
    save(figure, "plots-cells")


def planes() -> None:
    """Draw digits in the plane of the class means, and in a cut that hides classes."""
    X, y = load_digits(return_X_y=True)
    model = DiscriminativeKMeans(max_clusters=40, refine=None, metric="euclidean").fit(X, y)
    figure = Figure(figsize=(11.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    CellsDisplay.from_estimator(model, X, y, ax=left)
    CellsDisplay.from_estimator(model, X, y, plane="pca", ax=right)
    save(figure, "plots-planes")


def profiles() -> None:
    """Draw the prototypes of wines column by column."""
    wine = load_wine(as_frame=True)
    model = DiscriminativeKMeans(max_clusters=6, refine=None, metric="euclidean")
    wines = make_pipeline(StandardScaler(), model)
    wines = wines.fit(wine.data, wine.target_names[wine.target])
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    above, below = figure.subplots(2, 1)
    PrototypeProfilesDisplay.from_estimator(wines, ax=above)
    PrototypeProfilesDisplay.from_estimator(wines, kind="parallel", ax=below)
    save(figure, "plots-profiles")


def tree() -> None:
    """Draw the tree of the two moons."""
    X, y = make_moons(500, noise=0.15, random_state=0)
    model = DiscriminativeKMeans(max_clusters=12, refine=None, metric="euclidean").fit(X, y)
    save(TreeDisplay.from_estimator(model).figure_, "plots-tree")


def errors() -> None:
    """Draw confusion and margins of held-out digits."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    model = DiscriminativeKMeans(max_clusters=40, refine=None, metric="euclidean").fit(
        X_train, y_train
    )
    figure = Figure(figsize=(10.6, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    ConfusionDisplay.from_estimator(model, X_test, y_test, ax=left)
    MarginDisplay.from_estimator(model, X_test, y_test, ax=right)
    save(figure, "plots-errors")


def explanations() -> None:
    """Explain held-out digits: the two closest to the border, and the two farthest from it."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    model = DiscriminativeKMeans(max_clusters=40, refine="margin", metric="euclidean").fit(
        X_train, y_train
    )
    why = model.explain(X_test)
    order = np.argsort(why.radius)
    shown = why.take(order[[0, 1, -2, -1]])
    save(shown.plot(image_shape=(8, 8), X_train=X_train).figure_, "explain-digits")
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    ax = figure.subplots()
    for number, (name, refine) in enumerate((("refined", "margin"), ("not refined", None))):
        other = (
            model
            if refine
            else DiscriminativeKMeans(max_clusters=40, refine=None, metric="euclidean").fit(
                X_train, y_train
            )
        )
        look = {"label": name, "number": number, "ax": ax}
        CertifiedAccuracyDisplay.from_estimator(other, X_test, y_test, **look)
    save(figure, "explain-certified")


def rejection() -> None:
    """Draw what false alarms gain, where sevens are unknown: strangers found, errors avoided."""
    X, y = load_digits(return_X_y=True)
    sevens, X, y = X[y == 7], X[y != 7], y[y != 7]
    X_train, X_other, y_train, y_other = train_test_split(X, y, test_size=0.5, random_state=0)
    X_held, X_test, _, y_test = train_test_split(X_other, y_other, test_size=0.5, random_state=0)
    model = DiscriminativeKMeans(max_clusters=90, refine=None, metric="euclidean")
    model.fit(X_train, y_train).set_rejection(X_held, false_alarm_rate=0.05)
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    RejectionDisplay.from_estimator(model, X_test, unknown=sevens, ax=left)
    RejectionDisplay.from_estimator(model, X_test, y_test, ax=right)
    save(figure, "reject-curve")


def suspects() -> None:
    """Draw digits with suspicious labels, after changing some labels."""
    X, y = load_digits(return_X_y=True)
    y[::20] = (y[::20] + 3) % 10
    model = DiscriminativeKMeans(max_clusters=None, refine=None, metric="euclidean").fit(X, y)
    save(model.suspects(X, y).plot(X, image_shape=(8, 8), n=24).figure_, "suspects")


def class_borders() -> None:
    """Draw the class borders of digits."""
    model = DiscriminativeKMeans(max_clusters=60, refine=None, metric="euclidean").fit(
        *load_digits(return_X_y=True)
    )
    save(ClassBordersDisplay.from_estimator(model).figure_, "class-borders")


def learned_metric() -> None:
    """Draw what a metric learned: weights of features, the space, and parts of margins."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 12))
    height = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * np.sin(3 * X[:, 2])
    y = np.array(["low", "middle", "high"])[np.digitize(height, [0.5, 1.2])]
    X = X * np.logspace(-3, 3, 12)
    figure = Figure(figsize=(10.4, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    model = DiscriminativeKMeans(max_clusters=12, metric="learned").fit(X, y)
    FeatureImportancesDisplay.from_estimator(model, ax=left)
    CellsDisplay.from_estimator(model, X[:1500], y[:1500], ax=right)
    save(figure, "learned-metric")
    wine = load_wine(as_frame=True)
    names = wine.target_names[wine.target]
    model = DiscriminativeKMeans(max_clusters=6, metric="learned").fit(wine.data, names)
    why = model.explain(wine.data.iloc[[0, 60, 150]], features=True)
    save(why.plot().figure_, "explain-features")


if __name__ == "__main__":
    model()
    cells()
    planes()
    profiles()
    tree()
    errors()
    explanations()
    rejection()
    suspects()
    class_borders()
    learned_metric()
