"""What notebooks show of a model."""

import re
import subprocess
import sys

import numpy as np
import pytest
from models import grown
from sklearn import config_context
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from dkmeans.summary import ending, to_html


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def lines(html):
    """Class, clusters and weight of each line of the table."""
    return [re.findall(r"<td[^>]*>([^<]*)<", line)[:3] for line in html.split("<tr>")[2:]]


def test_the_summary_is_below_the_diagram_of_scikit_learn(iris):
    model = grown(max_clusters=6).fit(*iris)
    html = model._repr_html_()
    assert model._repr_mimebundle_(include=None, exclude=None)["text/html"].endswith(to_html(model))
    assert html.index("sk-container-id") < html.index("dkmeans-summary")
    assert html.endswith(to_html(model))
    assert model._repr_mimebundle_()["text/plain"] == repr(model)


def test_the_summary_tells_clusters_classes_rounds_and_inertia(iris):
    model = grown(max_clusters=6).fit(*iris)
    html = to_html(model)
    assert "<b>6 clusters</b> of 3 classes" in html
    assert f"4 features; {model.n_iter_} rounds; stopped at max_clusters=6" in html
    assert f"inertia {model.inertia_:.4g}" in html
    for label, clusters in zip(*np.unique(model.cluster_classes_, return_counts=True), strict=True):
        weight = model.cluster_sizes_[model.cluster_classes_ == label].sum()
        assert [str(label), str(clusters), f"{weight:.6g}"] in lines(html)
    assert html.count("<rect") == 6
    assert "euclidean metric" in html
    assert f"fitted in {model.history_.seconds.sum():.1f} s" in html


def test_an_unfitted_estimator_has_no_summary():
    html = grown()._repr_html_()
    assert "sk-container-id" in html
    assert "dkmeans-summary" not in html


def test_labels_are_escaped():
    evil = "<script>alert('&')</script>"
    model = grown().fit([[0.0], [1.0], [5.0]], [evil, evil, "good"])
    html = to_html(model)
    assert "<script" not in html
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in html
    assert evil not in model._repr_html_()


def test_text_display_has_no_html(iris):
    model = grown(max_clusters=6).fit(*iris)
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert list(model._repr_mimebundle_()) == ["text/plain"]


def test_pipelines_show_their_diagram(iris):
    pipeline = make_pipeline(StandardScaler(), grown(max_clusters=6))
    for shown in (pipeline, pipeline.fit(*iris)):
        html = estimator_html_repr(shown)
        assert "StandardScaler" in html
        assert "DiscriminativeKMeans" in html
    assert "<b>6 clusters</b>" in to_html(pipeline[-1])


def test_many_classes_show_the_heaviest():
    y = np.repeat(np.arange(30), np.arange(1, 31))
    model = grown(max_clusters=30).fit(100.0 * y[:, None], y)
    html = to_html(model)
    assert html.count("<tr>") == 1 + 20
    assert "and 10 more classes" in html
    assert [label for label, *_ in lines(html)] == [str(c) for c in range(10, 30)]


def test_long_labels_are_cut():
    model = grown().fit([[0.0], [5.0]], ["x" * 500, "y"])
    assert "x" * 59 + "…<" in to_html(model)
    assert "x" * 60 not in to_html(model)


def test_the_ending_says_why(iris):
    X, y = iris
    assert ending(grown().fit(X, y)) == "converged"
    assert ending(grown(max_clusters=4).fit(X, y)) == "stopped at max_clusters=4"
    assert "auto" in ending(grown("auto").fit(X, y))
    with pytest.warns(ConvergenceWarning):
        short = grown(max_iter=2, growth="paper").fit(X, y)
    assert ending(short) == "stopped at max_iter=2, not converged"
    edited = grown(max_clusters=6).fit(X, y)
    edited.drop(edited.cluster_ids_[-1])
    assert ending(edited).startswith("edited by hand")
    assert "inertia" not in to_html(edited)
    assert "<b>5 clusters</b>" in to_html(edited)


def test_conflicts_are_told():
    model = grown().fit([[0.0], [0.0], [5.0]], ["a", "b", "b"])
    assert "1 group of equal rows in conflict" in to_html(model)


def test_no_need_for_matplotlib():
    program = (
        "import sys; from dkmeans import DiscriminativeKMeans; import dkmeans.plots\n"
        "m = DiscriminativeKMeans().fit([[0.0], [5.0]], [0, 1]); assert m._repr_html_()\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
