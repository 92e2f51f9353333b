"""The model of a cluster, in cases that can be worked out by hand."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
from cluster_model import Machine, Simulation, Step, simulate

STEPS = [
    Step("a", 0.0, 1e-6, None, 800.0, 4000.0),
    Step("b", 0.0, 3e-6, 500, 80.0, 40.0),
]


def seconds(steps, n_rows, machine):
    return Simulation(machine).run(steps, n_rows)


def test_one_worker_without_latency_takes_the_sum_of_the_work():
    assert seconds(STEPS, 1000, Machine(1, 1)) == pytest.approx(1000e-6 + 500 * 3e-6)
    assert seconds(STEPS, 100, Machine(1, 1, end=2.0)) == pytest.approx(2 + 100e-6 + 300e-6)
    some = [Step("a", 0.5, 1e-6, before=0.25, merging=9.0, sorting=9.0)] * 2
    assert seconds(some, 1000, Machine(1, 1)) == pytest.approx(2 * (0.75 + 1000e-6))


@pytest.mark.parametrize("n_workers", [2, 8, 100])
def test_workers_share_the_work_as_far_as_there_are_cores(n_workers):
    alone = seconds(STEPS, 1000, Machine(1, 1))
    assert seconds(STEPS, 1000, Machine(n_workers, n_workers)) == pytest.approx(alone / n_workers)
    assert seconds(STEPS, 1000, Machine(n_workers, 1)) == pytest.approx(alone)


def test_what_does_not_shrink_with_the_rows_of_a_worker():
    some = [Step("a", 0.5, 1e-6, sorting=2e-6, before=0.25)]
    assert seconds(some, 1000, Machine(4, 4)) == pytest.approx(0.75 + 250 * 3e-6)
    assert seconds(some, 1000, Machine(4, 2)) == pytest.approx(0.25 + 2 * (0.5 + 250 * 3e-6))
    crowded = Machine(4, 2, crowding=1.5)
    assert seconds(some, 1000, crowded) == pytest.approx(0.25 + 3 * (0.5 + 250 * 3e-6))


def test_one_worker_pays_for_calls_and_for_bytes_both_ways():
    machine = Machine(1, 1, latency=0.2, dispatch=0.1, bandwidth=1000.0)
    work = 1000e-6 + 500 * 3e-6
    expected = work + 2 * (0.1 + 0.2) + (880 + 4040) / 1000
    assert seconds(STEPS, 1000, machine) == pytest.approx(expected)


def test_the_driver_gets_one_result_after_the_other():
    step = Step("a", 0.0, 0.0, None, 0.0, 1000.0, merging=0.5)
    few = Machine(4, 4, bandwidth=1000.0)
    assert seconds([step], 100, few) == pytest.approx(4 * 1.5)
    # 100 workers are ten groups of ten: nine results to each lead, ten to the driver.
    many = replace(few, n_workers=100, cores=100)
    assert seconds([step], 100, many) == pytest.approx((9 + 10) * 1.5)


def test_rows_that_are_exchanged_go_in_parallel():
    step = Step("a", 0.0, 0.0, exchanged=8.0)  # three quarters of the rows go to others
    assert seconds([step], 1000, Machine(4, 4, bandwidth=1000.0)) == pytest.approx(1.5)


def test_requests_that_are_sent_on():
    step = Step("a", 0.5, 0.0, None, 0.0, 1.0)  # and the results of ten groups of ten
    machine = Machine(100, 100, dispatch=0.01)
    groups = 10 * 0.01
    assert seconds([step], 100, machine) == pytest.approx(100 * 0.01 + 0.5 + groups)
    sent_on = replace(machine, forwards=True)
    assert seconds([step], 100, sent_on) == pytest.approx((10 + 9) * 0.01 + 0.5 + groups)
    few = replace(machine, n_workers=4, cores=4)
    assert seconds([step], 100, replace(few, forwards=True)) == seconds([step], 100, few)


def test_what_limits_a_fit():
    machine = Machine(16, 16, latency=1e-3, dispatch=1e-4, bandwidth=1e9)
    whole, saved = simulate(STEPS, 10**9, machine)
    assert max(saved, key=saved.get) == "work"
    assert saved["work"] == pytest.approx(10**9 * 1e-6 / 16, rel=1e-3)
    whole, saved = simulate(STEPS, 10**3, machine)
    assert max(saved, key=saved.get) == "calls"
    assert 0 < saved["calls"] < whole < math.inf
