"""When to use it, and when not: error, size and prediction time beside other classifiers.

    python benchmarks/when.py                  # all sets
    python benchmarks/when.py digits wine      # some of them

The sets are digits and wine, which scikit-learn ships, and letter and fashion (8000 images of
Fashion-MNIST), whose files are read from `--data`, the folder named by DKMEANS_DATA, or
../shared/data. Errors are means over three stratified splits with 80 % to train, scaled by what
the training rows show (but for images). All methods see the same rows; their parameters are those
of benchmarks/accuracy.py.

Sizes count the numbers that a prediction needs: prototypes, rows or support vectors with their
labels or coefficients; for boosting, whose trees are not public, its pickle by eight bytes a
number. Prediction times are of all test rows of the last split, on one thread, in turns, best of
several, in multiples of that of dkmeans with refinement.
"""

import argparse
import pickle
import warnings

import numpy as np
from common import best_times, data_folder, print_result
from glvq import GLVQ
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from dkmeans import DiscriminativeKMeans, OverfittingWarning
from dkmeans.baselines import ClasswiseKMeans

BASE = "dkmeans, refined"
# Each takes a budget of prototypes and a seed.
METHODS = {
    BASE: lambda k, seed: DiscriminativeKMeans(k, refine="margin", metric="euclidean"),
    "dkmeans": lambda k, seed: DiscriminativeKMeans(k, refine=None, metric="euclidean"),
    "class-wise k-means": lambda k, seed: ClasswiseKMeans(k, random_state=seed),
    "GLVQ": lambda k, seed: GLVQ(k, random_state=seed),
    "1-NN": lambda k, seed: KNeighborsClassifier(1),
    "5-NN": lambda k, seed: KNeighborsClassifier(5),
    "RBF SVM": lambda k, seed: SVC(C=10, gamma="scale"),
    "gradient boosting": lambda k, seed: HistGradientBoostingClassifier(
        early_stopping=False, random_state=0
    ),
}
BUDGETS = {"digits": 40, "wine": 6, "letter": 416, "fashion": 100}
SPLITS, REPEATS = 3, 15


def load(name, folder):
    """Load rows, labels, and whether features are to be scaled; None if the file is not there."""
    if name == "digits":
        return *load_digits(return_X_y=True), False
    if name == "wine":
        return *load_wine(return_X_y=True), True
    file = {"letter": "letter.npz", "fashion": "fashion_mnist.npz"}[name]
    if folder is None or not (folder / file).exists():
        print(f"Left out: {name}, as there is no {file}; name its folder with --data.\n")
        return None
    data = np.load(folder / file)
    if name == "letter":
        return data["X"].astype(np.float64), data["y"], True
    pixels = data["images"][:8000].reshape(8000, -1).astype(np.float32) / 255
    return pixels, data["y"][:8000], False


def numbers_kept(model, n_rows):
    """Count the numbers that a prediction needs."""
    if hasattr(model, "cluster_centers_"):
        return model.cluster_centers_.size + len(model.cluster_centers_)
    if isinstance(model, SVC):
        return model.support_vectors_.size + model.dual_coef_.size + model.intercept_.size
    if isinstance(model, KNeighborsClassifier):
        return n_rows * (model.n_features_in_ + 1)
    return len(pickle.dumps(model)) // 8


def measure(name, X, y, scaled):
    """Fit all methods on all splits; give error in %, numbers kept and time ratio of each."""
    errors = {method: [] for method in METHODS}
    splitter = StratifiedShuffleSplit(SPLITS, test_size=0.2, random_state=0)
    for seed, (train, test) in enumerate(splitter.split(X, y)):
        X_train, X_test = X[train], X[test]
        if scaled:
            scaler = StandardScaler().fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
        models = {}
        for method, make in METHODS.items():
            models[method] = make(BUDGETS[name], seed).fit(X_train, y[train])
            errors[method].append(100 * np.mean(models[method].predict(X_test) != y[test]))
    jobs = {method: lambda model=model: model.predict(X_test) for method, model in models.items()}
    seconds = best_times(jobs, REPEATS)
    return {
        method: {
            "error": round(float(np.mean(errors[method])), 2),
            "standard_error": round(float(np.std(errors[method], ddof=1) / SPLITS**0.5), 2),
            "numbers": int(numbers_kept(models[method], len(X_train))),
            "time": round(seconds[method] / seconds[BASE], 1),
        }
        for method in METHODS
    }


def main():
    """Measure, print a table per set and all of it as one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets; none means all")
    parser.add_argument("--data", help="folder with the .npz files")
    args = parser.parse_args()
    for name in args.names:
        if name not in BUDGETS:
            parser.error(f"no data set {name!r}; there are {', '.join(BUDGETS)}")
    found = {}
    for name in args.names or BUDGETS:
        loaded = load(name, data_folder(args.data))
        if loaded is None:
            continue
        X, _, scaled = loaded
        with threadpool_limits(1):
            found[name] = measure(name, *loaded)
        rows = f"{len(X)} x {X.shape[1]}{', standardised' if scaled else ''}"
        print(f"{name} ({rows}), {BUDGETS[name]} prototypes")
        print(f"{'':22s}{'error %':>16s}{'numbers kept':>15s}{'time to predict':>18s}")
        for method, cell in found[name].items():
            error = f"{cell['error']:.2f} +-{cell['standard_error']:.2f}"
            print(f"{method:22s}{error:>16s}{cell['numbers']:15,d}{cell['time']:17.1f}x")
        print(flush=True)
    print_result({"when": found})


if __name__ == "__main__":
    warnings.simplefilter("ignore", OverfittingWarning)
    main()
