"""Borders between the cells of prototypes in a plane."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


def borders(
    sites: Floats, box: Floats, heights: Floats | None = None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    """Find the line segments between cells, and the two sites of each.

    A site at height h above the plane has the squared distance |p - s|^2 + h^2 to a point p of the
    plane. Cells are still polygons (a power diagram), and may be empty.

    Parameters
    ----------
    sites : ndarray of shape (k, 2)
        Positions in the plane.
    box : ndarray of shape (2, 2)
        Lowest and highest corner of the drawn area; segments may extend far beyond it.
    heights : ndarray of shape (k,), optional
        Distances from the plane; 0 if not given.

    Returns
    -------
    segments : ndarray of shape (n, 2, 2)
        Ends of each segment.
    pairs : ndarray of shape (n, 2)
        Indices of the sites on either side.
    """
    from scipy.spatial import ConvexHull

    k = len(sites)
    if k < 2:
        return np.empty((0, 2, 2)), np.empty((0, 2), dtype=np.intp)
    middle, size = box.mean(axis=0), float((box[1] - box[0]).max())
    # Distant helper sites close the cells at the edge, and keep the hull three-dimensional.
    helpers = 1e3 * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1.0]])
    places = np.concatenate([(sites.astype(np.float64) - middle) / size, helpers])
    high = np.zeros(k) if heights is None else heights.astype(np.float64) / size
    lift = (places**2).sum(axis=1) + np.append(high**2, np.zeros(4))
    # By duality, the lower faces of the hull of the lifted points are the corners of the cells.
    hull = ConvexHull(np.column_stack([places, lift]), qhull_options="Qt")
    normals = hull.equations[:, :3]
    low = normals[:, 2] < -1e-12
    corners = np.full((len(low), 2), np.nan)
    corners[low] = -normals[low, :2] / (2 * normals[low, 2:])
    segments, pairs = [], []
    for face in np.flatnonzero(low):
        for side, other in enumerate(hull.neighbors[face]):
            pair = np.delete(hull.simplices[face], side)
            if low[other] and face < other and pair.max() < k:
                segments.append(corners[[face, other]])
                pairs.append(np.sort(pair))
    return (
        np.reshape(segments, (-1, 2, 2)) * size + middle,
        np.reshape(pairs, (-1, 2)).astype(np.intp),
    )
