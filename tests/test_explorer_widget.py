"""The explorer's widget: the page's requests as messages."""

import subprocess
import sys

import pytest
from explorers import IRIS, NAMES, ask, iris_model, iris_session

pytest.importorskip("anywidget")

import dkmeans
from dkmeans.explorer import notebook
from dkmeans.explorer.notebook import ExplorerWidget


@pytest.fixture
def sent(monkeypatch):
    messages = []
    monkeypatch.setattr(
        ExplorerWidget,
        "send",
        lambda self, content, buffers=None: messages.append((content, buffers)),
    )
    return messages


def test_a_message_is_answered(sent):
    widget = ExplorerWidget(iris_session())
    widget._receive(widget, {"id": "a-1", "name": "state", "params": {}}, [])
    ((message, buffers),) = sent
    assert message == {"id": "a-1", "answer": ask(iris_session(), "state")}
    assert buffers is None


def test_long_answers_travel_in_pieces(sent, monkeypatch):
    monkeypatch.setattr(notebook, "PIECE_BYTES", 500)
    session = iris_session()
    widget = ExplorerWidget(session)
    widget._receive(widget, {"id": 7, "name": "points", "params": {"plane": "pca"}}, [])
    assert [message for message, _ in sent] == [
        {"id": 7, "piece": at, "pieces": 3} for at in range(3)
    ]
    assert b"".join(part for _, (part,) in sent) == ask(session, "points", plane="pca")
    assert all(len(part) <= 500 for _, (part,) in sent)
    assert notebook.PIECE_BYTES < 4 << 20


def test_other_views_hear_of_a_change(sent):
    widget = ExplorerWidget(iris_session())
    edit = {"kind": "keep", "rows": [1]}
    widget._receive(widget, {"id": 1, "name": "edit", "params": {"edit": edit}}, [])
    assert sent[0][0]["answer"]["edits"] == 1
    assert sent[1][0] == {"changed": True}


def test_wrong_messages_are_told_or_ignored(sent, monkeypatch):
    widget = ExplorerWidget(iris_session())
    for content in (None, [], {}, {"name": "state"}, {"id": []}):
        widget._receive(widget, content, [])
    assert not sent
    widget._receive(widget, {"id": 1, "name": "row", "params": {"row": -1}}, [])
    widget._receive(widget, {"id": 2}, [])
    assert "row must be" in sent[0][0]["error"]
    assert "no request" in sent[1][0]["error"]
    monkeypatch.setattr(notebook, "answer", lambda *args: 1 / 0)
    widget._receive(widget, {"id": 3, "name": "state"}, [])
    assert sent[2][0] == {"id": 3, "error": "Unexpected error: ZeroDivisionError: division by zero"}


def test_explore_returns_the_widget_in_a_notebook(monkeypatch):
    class Shell:
        kernel = object()

    class IPython:
        get_ipython = staticmethod(Shell)

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    widget = dkmeans.explore(iris_model(8), IRIS, NAMES, image_shape=(2, 2))
    assert isinstance(widget, ExplorerWidget)
    assert widget.session.model.n_clusters_ == 8
    assert "export default" in widget._esm


def test_without_the_extras_explore_says_what_to_install():
    missing = ("matplotlib", "PIL", "pyarrow", "onnx", "typer", "rich", "dask", "skops", "uvicorn")
    code = (
        f"import sys\nfor name in {missing}: sys.modules[name] = None\n"
        "from dkmeans import DiscriminativeKMeans, explore\n"
        "X, y = [[0.0], [1.0], [5.0]], ['a', 'a', 'b']\n"
        "explore(DiscriminativeKMeans().fit(X, y), X, y)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = result.stderr.strip().splitlines()[-1]
    message = "The explorer needs uvicorn: pip install 'dkmeans[explore]'."
    assert last == f"ModuleNotFoundError: {message}"


def test_explore_serves_elsewhere(monkeypatch, capsys):
    calls = []
    launch = pytest.importorskip("dkmeans.explorer.launch")
    monkeypatch.setattr(
        launch, "serve", lambda session, **how: calls.append(how) or how["announce"]("http://x")
    )
    session = dkmeans.explore(
        iris_model(8), IRIS, NAMES, X_test=IRIS[:9], y_test=NAMES[:9], open_browser=False
    )
    assert calls[0]["open_browser"] is False
    assert ask(session, "state")["layers"] == {"training": 150, "held_out": 9}
    assert capsys.readouterr().out.startswith("Explorer: http://x")
    with pytest.raises(ValueError, match="X_test and y_test belong together"):
        dkmeans.explore(iris_model(8), IRIS, NAMES, X_test=IRIS)
