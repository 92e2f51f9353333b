"""Time of `max_clusters="auto"`, relative to the fit with the number that it chooses.

    python benchmarks/choose_k.py            # a minute
    python benchmarks/choose_k.py iris wine  # some sets

Processor times, the least of several fits in turns, with and without refinement. The search has to
look beyond the number that it chooses. So where a fit takes some milliseconds, as it has one round
or a few, the search takes many times as long.
"""

import argparse
import time
import warnings

import numpy as np
from common import curved_border, data_folder, overlapping_blobs, print_result
from defaults import imbalanced
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_moons,
)

from dkmeans import DiscriminativeKMeans

REPEATS = 5


def sets(folder):
    """Functions that make the sets, by name."""
    found = {
        "iris": lambda: load_iris(return_X_y=True),
        "wine": lambda: load_wine(return_X_y=True),
        "breast cancer": lambda: load_breast_cancer(return_X_y=True),
        "digits": lambda: load_digits(return_X_y=True),
        "moons": lambda: make_moons(2000, noise=0.1, random_state=0),
        "noisy moons": lambda: make_moons(2000, noise=0.35, random_state=0),
        "imbalanced": lambda: imbalanced(5000),
        "blobs": lambda: overlapping_blobs(20_000),
        "curved border": lambda: curved_border(8000),
    }
    if folder is not None:
        found["letter"] = lambda: _letter(folder)
        found["Fashion-MNIST"] = lambda: _fashion(folder)
    return found


def _letter(folder):
    letter = np.load(folder / "letter.npz")
    return letter["X"].astype(np.float64), letter["y"]


def _fashion(folder):
    fashion = np.load(folder / "fashion_mnist.npz")
    part = fashion["is_train"]
    return fashion["images"][part].reshape(60_000, -1).astype(np.float32) / 255, fashion["y"][part]


def compare(X, y, refine):
    """Return the number chosen, and the least times of both fits."""
    model = DiscriminativeKMeans("auto", refine=refine, metric="euclidean").fit(X, y)
    jobs = {"auto": model, "number": model.__class__(**model.get_params())}
    jobs["number"].set_params(max_clusters=model.n_clusters_).fit(X, y)
    least = dict.fromkeys(jobs, np.inf)
    for _ in range(REPEATS if len(X) < 50_000 else 1):
        for name, job in jobs.items():
            start = time.process_time()
            job.fit(X, y)
            least[name] = min(least[name], time.process_time() - start)
    return model.n_clusters_, least


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help="default: all")
    parser.add_argument("--data", help="folder with letter.npz and fashion_mnist.npz")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    every, found = sets(data_folder(options.data)), {}
    if not set(options.sets) <= set(every):
        parser.error(f"the sets are {', '.join(every)}")
    print(f"{'':<16}{'refine':>8}{'number':>8}{'its fit, ms':>13}{'auto, ms':>10}{'ratio':>7}")
    for name in options.sets or every:
        X, y = every[name]()
        for refine in (None, "margin"):
            number, least = compare(X, y, refine)
            ratio = round(least["auto"] / least["number"], 2)
            times = f"{1000 * least['number']:>13.1f}{1000 * least['auto']:>10.1f}"
            print(f"{name:<16}{refine or 'none':>8}{number:>8}{times}{ratio:>7.2f}", flush=True)
            found.setdefault(name, {})[str(refine)] = {
                "number": number,
                "ratio": ratio,
                "milliseconds": round(1000 * least["number"], 1),
            }
    print_result({"auto": found})


if __name__ == "__main__":
    main()
