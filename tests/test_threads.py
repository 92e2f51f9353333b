"""Threads: who may set how many, and what is left behind."""

import os
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
from models import grown
from threadpoolctl import threadpool_info, threadpool_limits

from dkmeans.kernels.threads import cap_threads, default_threads, for_each


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    return X, (X[:, 0] > 0).astype(int)


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_limits_of_threadpoolctl_are_kept():
    with threadpool_limits(1):
        assert default_threads() == 1
    with threadpool_limits(1, user_api="blas"):
        assert default_threads() == 1
    assert default_threads() == min(len(os.sched_getaffinity(0)), *blas_threads())


def test_our_own_hold_on_blas_is_not_mistaken_for_a_limit():
    free, seen = default_threads(), []
    for_each(lambda _: seen.append((default_threads(), blas_threads())), [slice(0, 1)], 1)
    assert seen == [(free, [1] * len(blas_threads()))]


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
def test_environment_variables_are_honoured(name):
    code = "import numpy; from dkmeans.kernels.threads import default_threads as d; print(d())"
    environment = {k: v for k, v in os.environ.items() if not k.endswith("NUM_THREADS")}
    printed = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {name: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == "1"


def test_what_a_dask_cluster_leaves_in_the_environment_is_no_limit(monkeypatch):
    free = default_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert default_threads() == free


def test_workers_of_joblib_share_the_cores():
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        found = joblib.Parallel(2)(joblib.delayed(default_threads)() for _ in range(2))
    assert found == [1, 1]


def test_far_too_many_threads_are_not_started(monkeypatch):
    monkeypatch.setattr("dkmeans.kernels.compiled.ENOUGH", 1)
    X, y = np.tile(data()[0], (20, 1)), np.tile(data()[1], 20)
    most = cap_threads(100_000)
    assert 1 <= most <= 4 * os.cpu_count()
    started, start = [], threading.Thread.start
    monkeypatch.setattr(
        "threading.Thread.start",
        lambda self: (started.append(threading.active_count()), start(self)),
    )
    before = threading.active_count()
    many = grown(8, n_threads=100_000).fit(X, y)
    many.transform(X)
    assert max(started) <= before + most
    assert (many.cluster_centers_ == grown(8, n_threads=1).fit(X, y).cluster_centers_).all()


def test_nothing_is_changed_for_the_process():
    before = threadpool_info()
    environment = dict(os.environ)
    grown(6, n_threads=2, refine="margin").fit(*data()).predict(data()[0])
    assert threadpool_info() == before
    assert dict(os.environ) == environment


SCRIPT = """
import multiprocessing, sys
import numpy as np
from dkmeans import DiscriminativeKMeans

def centers(_=None):
    X = np.random.default_rng(0).normal(size=(300, 4))
    model = DiscriminativeKMeans(6, n_threads=2).fit(X, (X[:, 0] > 0).astype(int))
    return model.cluster_centers_.tobytes()

if __name__ == "__main__":
    expected = centers()  # so that the parent has had its threads
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        assert pool.map(centers, range(2)) == [expected] * 2
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_may_be_forked_or_spawned(method, tmp_path):
    # In a process of its own: that of the tests may hold libraries that refuse to be forked.
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    subprocess.run([sys.executable, script, method], check=True, timeout=300)
