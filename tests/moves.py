"""Moves of rows towards other classes: the shortest one, and attacks on a certified radius.

Slow and obvious: what `questions.certify` says is compared with it.
"""

import numpy as np
from scipy.optimize import nnls


def space_of(model):
    """How a model compares rows: centres, their classes, and the map from rows to their space.

    The map is None where rows are compared as they are, "unit" where only their direction counts,
    or a shift and a matrix.
    """
    geometry, mapping = model._fitted.geometry, None
    if model.metric == "cosine":
        mapping = "unit"
    elif model.metric == "learned":
        mapping = geometry.shift, geometry.input_components
    return model._fitted.prototypes.centers, model.cluster_classes_, mapping


def planes(x, centers, classes, mapping, label):
    """Normals and distances of x to the planes between own prototypes i and rivals j.

    Shapes are (own, rivals, d) and (own, rivals); a normal points from the own side to the rival's.
    """
    c, z = centers.astype(np.float64), x.astype(np.float64)
    own, rivals = c[classes == label], c[classes != label]
    difference = rivals[None] - own[:, None]
    normals = difference
    if isinstance(mapping, tuple):
        shift, components = mapping
        z, normals = (z - shift) @ components.T, difference @ components
    gaps = np.sqrt((normals**2).sum(axis=2))
    gaps = np.where(gaps > 0, gaps, 1)
    middles = 0 if mapping == "unit" else (rivals[None] + own[:, None]) / 2
    return normals / gaps[:, :, None], -((z - middles) * difference).sum(axis=2) / gaps


def certified(x, *space_and_label):
    """The radius, without any care for rounding."""
    _, distances = planes(x, *space_and_label)
    return max(0.0, float(distances.min(axis=1).max()))


def shortest_move(x, *space_and_label):
    """The shortest move to a place that is nearer to some rival than to all own prototypes.

    For each rival that is a quadratic programme, min |m| subject to G m >= h; by Lawson and Hanson
    (1974, chapter 23) its solution follows from non-negative least squares.
    """
    normals, distances = planes(x, *space_and_label)
    best, length = None, np.inf
    for j in np.argsort(distances.max(axis=0)):
        if distances[:, j].max() >= length:
            break  # the others are beyond a plane that is farther off
        G, h = normals[:, j], distances[:, j]
        if (h <= 0).all():
            return np.zeros(len(x))
        scale = np.abs(h).max()
        E, f = np.vstack([G.T, h / scale]), np.append(np.zeros(len(x)), 1.0)
        weights, _ = nnls(E, f)
        rest = E @ weights - f
        move = -rest[:-1] / rest[-1] * scale
        if np.linalg.norm(move) < length:
            best, length = move, float(np.linalg.norm(move))
    return best


def attacks(x, *space_and_label, n_random, rng):
    """Directions of length one in which a row may be moved: random ones and the worst."""
    normals, _ = planes(x, *space_and_label)
    random = rng.normal(size=(n_random, len(x)))
    move = shortest_move(x, *space_and_label)
    found = np.concatenate([random, normals.reshape(-1, len(x)), move[None]])
    lengths = np.sqrt((found**2).sum(axis=1))
    return found[lengths > 0] / lengths[lengths > 0][:, None]


def broken(model, X, n_random, rng, share=1 - 1e-12):
    """Attack rows just inside their radii, and count moves and changes of class."""
    why = model.explain(X)
    space = space_of(model)
    tried = changed = 0
    for x, label, radius in zip(X, why.label, why.radius, strict=True):
        if radius == 0 or np.isinf(radius):
            continue
        directions = attacks(x, *space, label, n_random=n_random, rng=rng)
        moved = x.astype(np.float64) + share * float(radius) * directions
        tried += len(moved)
        changed += int((model.predict(moved) != label).sum())
    return tried, changed
