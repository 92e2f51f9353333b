"""Times of the explorer's answers at 10^4, 10^5 and 10^6 rows, without a browser.

Each request is made twice: the first one computes what later ones reuse.
"""

import argparse
import json
import time

import numpy as np

from dkmeans import DiscriminativeKMeans
from dkmeans.explorer.answers import answer
from dkmeans.explorer.layers import Rows
from dkmeans.explorer.session import Session

N_FEATURES, N_CLASSES, N_PROTOTYPES = 16, 10, 40
FITTED_ROWS = 10_000


def make_session(n):
    """Open a session on overlapping classes of two Gaussians each, a tenth held out."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, n)
    centers = rng.normal(scale=2.5, size=(N_CLASSES, 2, N_FEATURES))
    X = centers[y, rng.integers(0, 2, n)] + rng.normal(size=(n, N_FEATURES))
    X = X.astype(np.float32)
    away = np.arange(n) % 10 == 0
    fitted = np.flatnonzero(~away)[:FITTED_ROWS]
    model = DiscriminativeKMeans(N_PROTOTYPES, metric="euclidean", refine="margin")
    model.fit(X[fitted], y[fitted])
    return Session(model, Rows(X[~away], y[~away]), Rows(X[away], y[away]))


def requests(session):
    """List requests, as the page makes them."""
    extent = answer(session, "on_plane", {"plane": "lda"})["extent"]
    grid = {"plane": "lda", "extent": extent, "width": 512, "height": 512}
    return {
        "state": {},
        "points": {"plane": "lda"},
        "on_plane": {"plane": "lda"},
        "regions": grid,
        "density": grid | {"classes": list(range(N_CLASSES))},
        "row": {"row": 17},
        "prototype": {"index": 3},
        "confusion": {"layer": "held_out"},
        "borders": {},
        "table": {"limit": 100},
        "rejected": {"rate": 0.05},
        "preview": {"edit": {"kind": "drop_prototype", "index": 3}},
        "suspects": {"limit": 100},
    }


def main():
    """Print a table of milliseconds: the first request, and a later one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    sizes = parser.parse_args().rows
    result = {}
    for n in sizes:
        session = make_session(n)
        print(f"\n{n:,} rows, {N_FEATURES} features, {N_PROTOTYPES} prototypes")
        print(f"{'request':<10} {'first ms':>9} {'later ms':>9} {'bytes':>11}")
        for name, params in requests(session).items():
            taken = []
            for _ in range(2):
                start = time.perf_counter()
                found = answer(session, name, params)
                taken.append(1000 * (time.perf_counter() - start))
            size = len(found) if isinstance(found, bytes) else len(json.dumps(found))
            print(f"{name:<10} {taken[0]:>9.1f} {taken[1]:>9.1f} {size:>11,}", flush=True)
            result[f"{name}_{n}"] = round(taken[1], 1)
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
