"""How cost grows with the number of rows, features, clusters and classes, and what memory it takes.

    python benchmarks/scale.py            # about five minutes
    python benchmarks/scale.py --quick    # a tenth of the rows

From 500,000 rows, 32 features, 128 clusters and 10 classes, one number at a time is varied. The
exponent tells how time grows: 1 is proportional. Then the rounds of one long growth, one by one,
and the peak of memory beyond the data for 1,000,000 x 64, as the operating system sees it.
"""

import argparse
import subprocess
import sys
import time
import warnings

import numpy as np
from common import curved_border, overlapping_blobs, print_result

from dkmeans import DiscriminativeKMeans, OverfittingWarning

warnings.simplefilter("ignore", OverfittingWarning)
START = {"rows": 500_000, "features": 32, "clusters": 128, "classes": 10}
VARIED = {
    "rows": (125_000, 250_000, 500_000, 1_000_000),
    "features": (16, 32, 64, 128),
    "clusters": (64, 128, 256, 512),
    "classes": (2, 5, 10, 40),
}


def seconds(rows, features, clusters, classes, growth):
    """Least time of two fits."""
    X, y = overlapping_blobs(rows, features, classes)
    best = np.inf
    for _ in range(2):
        start = time.perf_counter()
        DiscriminativeKMeans(clusters, growth=growth, refine=None, metric="euclidean").fit(X, y)
        best = min(best, time.perf_counter() - start)
    return best


def exponents(scale):
    """Vary one number at a time."""
    found = {}
    for growth in ("paper", "best"):
        print(f"\ngrowth={growth!r}: seconds")
        for name, values in VARIED.items():
            base = START | {"rows": START["rows"] // scale}
            values = [v // scale for v in values] if name == "rows" else values
            times = [seconds(**base | {name: value}, growth=growth) for value in values]
            slope = float(np.polyfit(np.log(values), np.log(times), 1)[0])
            found[f"{growth}, {name}"] = round(slope, 2)
            columns = "".join(f"{v:>11,}:{t:6.2f}" for v, t in zip(values, times, strict=True))
            print(f"{name:9s}{columns}   exponent {slope:5.2f}", flush=True)
    return found


def rounds(scale):
    """Show what each round of one growth costs, and how much it changed."""
    X, y = curved_border(200_000 // scale, 16, 2)
    model = DiscriminativeKMeans.paper(400, max_iter=60, repulsion=0.25).fit(X, y)
    history = model.history_
    print("\nrounds of one growth, 2 classes, 16 features")
    print(f"{'round':>6s}{'clusters':>10s}{'rows that moved':>18s}{'milliseconds':>14s}")
    for i in range(len(history)):
        values = history.round[i], history.clusters[i], history.moved[i], history.seconds[i]
        print(f"{values[0]:6d}{values[1]:10d}{values[2]:18,d}{1e3 * values[3]:14.1f}")


MEMORY = """
import re, sys, numpy as np
sys.path.insert(0, {folder!r})
from common import overlapping_blobs
from dkmeans import DiscriminativeKMeans
def status(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1)) / 1024
X, y = overlapping_blobs({rows}, 64)
DiscriminativeKMeans.paper(20).fit(X[:70_000], y[:70_000])
open("/proc/self/clear_refs", "w").write("5")  # the peak starts from here
before = status("VmRSS")
DiscriminativeKMeans(256, growth={growth!r}, refine=None, metric="euclidean").fit(X, y)
print(status("VmHWM") - before, X.nbytes / 2**20)
"""


def memory(scale):
    """Peak of resident memory beyond what was there before the fit, in MiB."""
    found = {}
    for growth in ("paper", "best"):
        code = MEMORY.format(folder=sys.path[0], rows=1_000_000 // scale, growth=growth)
        printed = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
        found[growth] = round(float(printed[0]))
        print(f"memory beyond X ({float(printed[1]):.0f} MiB), growth={growth!r}: ", end="")
        print(f"{found[growth]} MiB", flush=True)
    return found


def main():
    """Measure, print tables, exponents and memory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    scale = 10 if parser.parse_args().quick else 1
    found = exponents(scale)
    rounds(scale)
    print()
    print_result({"scale": found, "MiB beyond X": memory(scale), "rows": 1_000_000 // scale})


if __name__ == "__main__":
    main()
