"""Sizes of model files: arrays as they are (format version 1), packed, and with models on the way.

Fashion-MNIST, 100 prototypes, pixels as integers, scaled to [0, 1] and standardised.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import dkmeans
from dkmeans import DiscriminativeKMeans
from dkmeans.files import contents
from dkmeans.files.container import pack

DATA = Path(os.environ.get("DKMEANS_DATA", Path(__file__).parent.parent.parent / "shared/data"))


def main():
    """Print the sizes of the files of one model, stored in several ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--clusters", type=int, default=100)
    options = parser.parse_args()
    with np.load(DATA / "fashion_mnist.npz") as file:
        train = file["is_train"]
        X = file["images"][train].reshape(-1, 784)[: options.rows]
        y = file["y"][train][: options.rows]
    kinds = {
        "integers": X.astype(np.float64),
        "scaled, float32": (X / 255).astype(np.float32),
        "standardised": (X - X.mean(axis=0)) / X.std(axis=0),
    }
    result = {}
    path = Path(tempfile.mkdtemp()) / "model.dkm"
    for name, rows in kinds.items():
        model = DiscriminativeKMeans(options.clusters, refine=None, metric="euclidean").fit(rows, y)
        arrays, document = contents.describe(model, with_labels=True)
        plain = len(pack(arrays, document, dkmeans.__version__))
        model.save(path, with_path=True)
        with_path = path.stat().st_size
        start = time.perf_counter()
        model.save(path)
        saved = time.perf_counter()
        dkmeans.load(path)
        loaded = time.perf_counter()
        result[name] = {
            "centres": model.cluster_centers_.nbytes,
            "plain": plain,
            "packed": path.stat().st_size,
            "with models on the way": with_path,
            "seconds to save": round(saved - start, 2),
            "seconds to load": round(loaded - saved, 2),
        }
        print(name, result[name])
    print(f"RESULT {json.dumps({'benchmark': 'file_sizes', 'sizes': result})}")


if __name__ == "__main__":
    main()
