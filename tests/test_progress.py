"""What a fit tells while it goes on: the log, listeners and scikit-learn's callbacks."""

import logging
import subprocess
import sys

import numpy as np
import pytest
from models import grown
from sklearn.datasets import load_digits, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans.progress import listening

X, y = load_iris(return_X_y=True)


def test_log_has_a_line_per_round(caplog):
    model = grown(8, verbose=1).fit(X, y)
    title, *lines = [r.getMessage() for r in caplog.records if r.name == "dkmeans"]
    assert title.split() == ["round", "phase", "clusters", "impurity", "seconds"]
    assert len(lines) == model.n_iter_
    assert [int(line.split()[2]) for line in lines] == model.history_.clusters.tolist()
    assert {len(line) for line in lines} == {len(title)}, "columns are not aligned"


def test_verbose_2_tells_of_every_pass_and_verbose_1_of_trials(caplog):
    def lines(verbose):
        caplog.clear()
        grown("auto", refine="margin", verbose=verbose).fit(X[::3], y[::3])
        return [r.getMessage() for r in caplog.records]

    short, long = lines(1), lines(2)
    assert short[0].startswith("choosing")
    assert 1 < sum("refine" in line for line in short) < sum("refine" in line for line in long)
    tried = [sum(" try " in line for line in some) for some in (short, long)]
    assert tried[0] == tried[1] > 0


class Ear:
    """Listener that writes down what it hears."""

    def __init__(self):
        self.heard = []

    def __call__(self, step):
        self.heard.append("trial" if step.is_trial else "round")

    def announce(self, text):
        self.heard.append(text)


SEARCH = "choosing the number of clusters"


@pytest.mark.parametrize(
    ("budget", "metric", "expected"),
    [
        (8, "euclidean", ["round"]),
        (8, "learned", ["learning a first metric", "round"]),
        (8, "auto", ["choosing the metric", "round"]),
        ("auto", "euclidean", [SEARCH, "trial", "round"]),
        ("auto", "learned", [SEARCH, "learning a first metric", "trial"]),
        ("auto", "auto", [SEARCH, "choosing the metric", "trial"]),
    ],
)
def test_what_comes_before_the_first_round_is_announced(caplog, budget, metric, expected):
    ear = Ear()
    with listening(ear):
        grown(budget, metric=metric, refine="margin", max_iter=9, verbose=1).fit(X, y)
    heard = [text for i, text in enumerate(ear.heard) if text not in ear.heard[:i]]
    assert heard[: len(expected)] == expected
    logged = [r.getMessage() for r in caplog.records]
    n_before = len(expected) - expected.count("trial") - expected.count("round")
    assert logged[:n_before] == expected[:n_before]
    assert logged[n_before].split()[0] == "round"


def test_log_respects_the_level_of_the_logger(caplog):
    logger = logging.getLogger("dkmeans")
    logger.setLevel(logging.WARNING)
    try:
        grown(8, verbose=1).fit(X, y)
    finally:
        logger.setLevel(logging.NOTSET)
    assert not caplog.records


def test_log_goes_to_stderr_where_logging_is_not_set_up():
    code = (
        "import sys\nfrom sklearn.datasets import load_iris\n"
        "from dkmeans import DiscriminativeKMeans\n"
        "for verbose in (0, 1):\n"
        "    print('verbose', verbose, file=sys.stderr)\n"
        "    DiscriminativeKMeans(8, verbose=verbose).fit(*load_iris(return_X_y=True))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout == ""
    before, after = result.stderr.split("verbose 1\n")
    assert before == "verbose 0\n"
    assert "impurity" in after


@pytest.mark.parametrize("verbose", [-1, 1.5, "yes"])
def test_verbose_is_checked(verbose):
    with pytest.raises(ValueError, match=r"verbose=.* is not accepted: it must be an integer >= 0"):
        grown(verbose=verbose).fit(X, y)


def test_listening_changes_nothing():
    alone = grown(8, refine="margin").fit(X, y)
    steps = []
    with listening(steps.append):
        heard = make_pipeline(StandardScaler(), grown(8)).fit(X, y)
        again = grown(8, refine="margin").fit(X, y)
    grown(8).fit(X, y)
    assert len(steps) == heard[-1].n_iter_ + again.n_iter_
    assert steps[-1].record["clusters"] == 8
    np.testing.assert_array_equal(again.cluster_centers_, alone.cluster_centers_)


@pytest.mark.parametrize("at", [2, 12])  # while growing, while refining
def test_a_listener_may_end_the_fit(at):
    X, y = load_digits(return_X_y=True)
    whole = grown(40, refine="margin").fit(X, y)
    assert whole.history_.phase[1] == "grow"
    assert whole.history_.phase[11] == "refine"
    with listening(lambda step: step.record["round"] == at):
        model = grown(40, refine="margin").fit(X, y)
    n_growing = int((whole.history_.phase == "grow").sum())
    assert model.n_iter_ == len(model.history_.round) == min(at, n_growing)
    assert not model.converged_
    assert (model.labels_ == model.predict_cluster(X)).all()
    assert model.n_clusters_ == whole.history_.clusters[model.n_iter_ - 1]
    assert model.path_.clusters[-1] == model.n_clusters_


def test_scoring_monitor_sees_every_round():
    callback = pytest.importorskip("sklearn.callback")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = grown(8, refine="margin").set_callbacks(monitor)
    weights = np.linspace(1, 2, len(y))
    model.fit(X, y, weights)
    rows = monitor.get_logs().data
    rounds = [row["accuracy"] for row in rows if row["task_name"] == "round"]
    assert len(rounds) == model.n_iter_
    # scikit-learn's sums of weights are rounded, and ours are exact.
    assert rounds[-1] == pytest.approx(model.score(X, y, weights), rel=1e-14)
    assert rounds[0] < 1
    plain = grown(8, refine="margin").fit(X, y, weights)
    np.testing.assert_array_equal(plain.cluster_centers_, model.cluster_centers_)


def test_scoring_monitor_sees_the_search_for_the_number_of_clusters():
    callback = pytest.importorskip("sklearn.callback")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = grown("auto").set_callbacks(monitor).fit(X, y)
    tasks = [row["task_name"] for row in monitor.get_logs().data]
    assert tasks.count("trial") > 0
    assert tasks.count("round") == model.n_iter_
    plain = grown("auto").fit(X, y)
    np.testing.assert_array_equal(plain.cluster_centers_, model.cluster_centers_)


def test_a_listener_may_end_the_search_for_the_number_of_clusters(tmp_path):
    def search(**parameters):
        trials = []

        def hear(step):
            trials.extend([step.record["clusters"]] * step.is_trial)
            return step.is_trial and step.record["clusters"] >= 3

        with listening(hear):
            model = grown("auto", growth="paper", **parameters).fit(X, y)
        return model, trials

    whole = grown("auto", growth="paper").fit(X, y)
    model, trials = search()
    assert max(trials[:-1], default=0) < 3 <= trials[-1]
    assert model.path_.clusters.max() <= max(3, trials[-1]) < whole.path_.clusters.max()
    # A fit with a checkpoint has to repeat the same passes when it is resumed.
    model, trials = search(checkpoint=tmp_path / "checkpoint")
    np.testing.assert_array_equal(model.path_.clusters, whole.path_.clusters)


def test_ctrl_c_during_the_search_leaves_the_estimator_as_it_was():
    def interrupt(step):
        assert step.is_trial
        raise KeyboardInterrupt

    model = grown(6).fit(X, y).set_params(max_clusters="auto")
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        model.fit(X, y)
    assert vars(model) == before


def test_progress_bar_of_a_pipeline(capsys):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    model = make_pipeline(StandardScaler(), grown(8))
    model.set_callbacks(callback.ProgressBar()).fit(X, y)
    assert "DiscriminativeKMeans - fit" in capsys.readouterr().out


def test_a_callback_may_end_the_fit():
    pytest.importorskip("sklearn.callback")

    class Enough:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            return fitted_estimator is not None and fitted_estimator.n_clusters_ >= 5

    model = grown().set_callbacks(Enough()).fit(X, y)
    assert 5 <= model.n_clusters_ < grown().fit(X, y).n_clusters_


def test_callbacks_leave_nothing_behind_after_an_error():
    callback = pytest.importorskip("sklearn.callback")
    model = grown(8).set_callbacks(callback.ScoringMonitor(scoring="accuracy"))
    with pytest.raises(ValueError):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError), listening(lambda step: bad()):
        model.fit(X, y)
    assert set(vars(model)) - set(model.get_params()) == {"_skl_callbacks"}


def bad():
    raise ValueError("a listener that fails")
