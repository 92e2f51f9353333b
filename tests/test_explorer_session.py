"""The explorer's session: what it answers, edits with undo, fits, journals, exports."""

import contextlib
import json
import runpy
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from explorers import (
    CODES,
    HELD_OUT,
    IRIS,
    LABELS,
    NAMES,
    ask,
    iris_estimator,
    iris_model,
    iris_session,
    make,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from models import grown
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans, load
from dkmeans.explorer import requests as r
from dkmeans.explorer import suspicion
from dkmeans.explorer.answers import ANSWERS, answer
from dkmeans.explorer.digests import digest_model
from dkmeans.explorer.layers import Rows
from dkmeans.explorer.planes import IDS
from dkmeans.explorer.requests import RequestError
from dkmeans.explorer.session import Session


@pytest.fixture
def session():
    return iris_session()


def read_points(data):
    (n,) = struct.unpack("<I", data[:4])
    parts, at = [], 4
    for kind in ("<f4", "<f4", "<u2", "<u2", "u1"):
        size = n * np.dtype(kind).itemsize
        parts.append(np.frombuffer(data[at : at + size], dtype=kind))
        at += size
    assert at == len(data)
    return parts


def wait(session):
    session.job.join(60)
    assert not session.job.is_running


# The map


@pytest.mark.parametrize("plane", IDS)
@pytest.mark.parametrize("layer", ["training", "held_out"])
def test_points_are_all_rows_with_their_classes(session, plane, layer):
    x, y, codes, predicted, flags = read_points(ask(session, "points", plane=plane, layer=layer))
    rows = session.layers[layer]
    labels = [session.draft.class_names[code] for code in predicted]
    assert labels == session.draft.core.predict(rows.X).tolist()
    assert (codes == rows.codes).all()
    assert (((flags & 1) != 0) == (codes != predicted)).all()
    x0, x1, y0, y1 = ask(session, "on_plane", plane=plane)["extent"]
    assert x0 < x.min()
    assert x.max() < x1
    assert y0 < y.min()
    assert y.max() < y1


@pytest.mark.parametrize("metric", ["euclidean", "learned"])
@pytest.mark.parametrize("plane", IDS)
def test_regions_are_the_nearest_prototypes_of_what_points_stand_for(metric, plane):
    session = iris_session(metric=metric)
    extent = ask(session, "on_plane", plane=plane)["extent"]
    data = ask(session, "regions", plane=plane, extent=extent, width=7, height=5)
    cells = np.frombuffer(data, dtype="<u2").reshape(5, 7)
    found = session.plane(plane, 0, 1)
    x0, x1, y0, y1 = extent
    core = session.draft.core
    for line in range(5):
        for column in range(7):
            point = [[x0 + (column + 0.5) / 7 * (x1 - x0), y1 - (line + 0.5) / 5 * (y1 - y0)]]
            lifted = found.lift(np.array(point))
            assert np.allclose(found.project(lifted), point, rtol=1e-4, atol=1e-4)
            rows = core._fitted.geometry.inverse(lifted) if found.is_mapped else lifted
            assert cells[line, column] == core.predict_cluster(rows)[0]


def test_density_counts_the_rows_of_each_pixel_and_class(session):
    extent = ask(session, "on_plane", plane="features", x=2, y=3)["extent"]
    data = ask(
        session,
        "density",
        plane="features",
        x=2,
        y=3,
        extent=extent,
        width=9,
        height=4,
        classes=[0, 2],
    )
    counts = np.frombuffer(data, dtype="<u2").reshape(2, 4, 9)
    x, y, codes, _, _ = read_points(ask(session, "points", plane="features", x=2, y=3))
    x0, x1, y0, y1 = extent
    for at, code in enumerate([0, 2]):
        mine = codes == code
        expected, _, _ = np.histogram2d(
            -y[mine], x[mine], bins=(4, 9), range=((-y1, -y0), (x0, x1))
        )
        assert (counts[at] == expected).all()


def test_features_have_the_units_of_the_rows_behind_a_scaler():
    model = make_pipeline(StandardScaler(), grown(5)).fit(IRIS, NAMES)
    session = Session(model, Rows(IRIS, NAMES))
    x, y, *_ = read_points(ask(session, "points", plane="features", x=2, y=0))
    assert np.allclose(x, IRIS[:, 2])
    assert np.allclose(y, IRIS[:, 0])
    shown = ask(session, "prototype", index=1)["values"]
    center = model[0].inverse_transform(model[-1].cluster_centers_[[1]])[0]
    assert np.allclose([float(value) for _, value in shown], center, rtol=1e-4)


def test_lda_separates_the_classes_better_than_pca(session):
    def spread(plane):
        x, y, *_ = read_points(ask(session, "points", plane=plane))
        flat, codes = np.column_stack([x, y]).astype(float), CODES[~HELD_OUT]
        means = np.array([flat[codes == c].mean(axis=0) for c in range(3)])
        within = np.mean([np.trace(np.cov(flat[codes == c].T)) for c in range(3)])
        return np.trace(np.cov(means.T)) / within

    assert spread("lda") > spread("pca")


def test_two_classes_and_one_feature_have_all_planes():
    X, y = IRIS[:100, :1], NAMES[:100]
    session = Session(grown(4).fit(X, y), Rows(X, y))
    for plane in IDS:
        x, y, *_ = read_points(ask(session, "points", plane=plane))
        assert np.isfinite(x).all()
        assert np.isfinite(y).all()
        extent = ask(session, "on_plane", plane=plane)["extent"]
        assert len(ask(session, "regions", plane=plane, extent=extent, width=3, height=3)) == 18


def test_sparse_rows_give_the_same_answers():
    dense, sparse = (
        Session(grown(6).fit(X, NAMES), Rows(X, NAMES)) for X in (IRIS, sp.csr_matrix(IRIS))
    )
    for name, params in (
        ("state", {}),
        ("row", {"row": 70}),
        ("prototype", {"index": 2}),
        ("points", {"plane": "learned"}),
        ("suspects", {"limit": 5}),
        ("table", {"limit": 3}),
    ):
        assert ask(dense, name, **params) == ask(sparse, name, **params), name


# Details


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "learned"])
def test_row_tells_what_the_model_tells(metric):
    session = iris_session(metric=metric)
    core, X = session.draft.core, session.layers["held_out"].X
    found = ask(session, "row", row=23, layer="held_out")
    why = core.explain(X[[23]], features=True)
    assert found["prototype"] == why.prototype[0]
    assert found["rival"] == why.rival[0]
    assert found["margin"] == why.margin[0]
    assert found["radius"] == why.radius[0]
    parts = dict(found["features"])
    assert sum(parts.values()) == pytest.approx(why.squared_margin[0])
    shares = core.predict_proba(X[[23]])[0]
    assert found["probabilities"][0] == [int(shares.argmax()), shares.max()]
    space = core._fitted.geometry
    distances = np.linalg.norm(
        space.rows(session.layers["training"].X) - space.rows(X[[23]]), axis=1
    )
    assert [near["row"] for near in found["nearest"]] == np.argsort(distances)[:8].tolist()


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "learned"])
def test_exemplars_are_the_nearest_rows_of_cell_and_class_also_on_the_way(metric):
    session = iris_session(metric=metric)
    for k in (None, 5):
        ask(session, "at", k=k)
        core = session.shown.core
        X = session.layers["training"].X
        y = session.draft.label_array(session.draft.codes)
        cells = core.predict_cluster(X)
        for index in range(core.n_clusters_):
            mine = np.flatnonzero((cells == index) & (y == core.cluster_classes_[index]))
            near = core.transform(X[mine])[:, index]
            found = ask(session, "prototype", index=index)["exemplar"]
            assert found == {"row": int(mine[near.argmin()])}


def test_images_are_bytes_from_the_darkest_to_the_brightest_value():
    X = np.array([[0.0, 1.0, 2.0, 4.0, 0.0, 0.0], [4.0] * 6, [1.0] * 6])
    model = grown().fit(X, ["a", "b", "a"])
    session = Session(model, Rows(X, ["a", "b", "a"]), image_shape=(2, 3))
    assert ask(session, "row", row=0)["image"] == [0, 64, 128, 255, 0, 0]
    assert ask(session, "images", rows=[1, 0])[:6] == bytes([255] * 6)
    assert ask(session, "state")["image_shape"] == [2, 3]
    with pytest.raises(ValueError, match="image_shape"):
        Session(model, Rows(X, ["a", "b", "a"]), image_shape=(2, 2))


def test_confusion_and_errors_agree_with_the_model(session):
    core = session.draft.core
    for layer in ("training", "held_out"):
        rows = session.layers[layer]
        y = session.draft.label_array(rows.codes)
        counts = np.array(ask(session, "confusion", layer=layer)["counts"])
        wrong = counts.sum() - np.trace(counts)
        told = ask(session, "state")["error"][layer]
        assert told == {"wrong": int(wrong), "n": len(y)}
        assert wrong == round((1 - core.score(rows.X, y)) * len(y))


def test_suspects_are_those_of_the_model_until_they_are_decided(session):
    X = session.layers["training"].X
    y = session.draft.label_array(session.draft.codes)
    expected = session.draft.core.suspects(X, y)
    found = ask(session, "suspects", limit=50)["rows"]
    assert [line["row"] for line in found] == expected.row.tolist()
    assert [line["score"] for line in found] == expected.score.tolist()
    first, second = found[0]["row"], found[1]["row"]
    assert read_points(ask(session, "points"))[4][first] & 2
    make(session, "keep", rows=[first])
    make(session, "drop_rows", rows=[second])
    left = [line["row"] for line in ask(session, "suspects", limit=50)["rows"]]
    assert first not in left
    assert second not in left


def test_suspects_are_searched_for_once_for_each_model(session, monkeypatch):
    searches = []
    search = suspicion._search
    monkeypatch.setattr(suspicion, "_search", lambda *what: searches.append(what) or search(*what))
    first = ask(session, "suspects")["rows"]
    for line in first[:2]:
        make(session, "relabel", rows=[line["row"]], **{"class": line["suggested"]})
    assert ask(session, "suspects")["rows"] == first[2:]
    ask(session, "undo")
    assert ask(session, "suspects")["rows"] == first[1:]
    pair = {first[1]["class"], first[1]["suggested"]}
    make(session, "merge_classes", **{"from": max(pair), "into": min(pair)})
    left = ask(session, "suspects")["rows"]
    assert all({line["class"], line["suggested"]} != pair for line in left)
    assert len(searches) == 1
    make(session, "drop_prototype", index=1)
    ask(session, "suspects")
    assert len(searches) == 2


def test_others_are_answered_while_suspects_are_searched_for(session, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    search = suspicion._search

    def slow(*what):
        begun.set()
        assert go_on.wait(20)
        return search(*what)

    monkeypatch.setattr(suspicion, "_search", slow)
    tab = threading.Thread(target=ask, args=(session, "suspects"))
    tab.start()
    assert begun.wait(20)
    assert session.is_working
    row = make(session, "keep", rows=[46])["edits"]
    assert row == 1
    go_on.set()
    tab.join(20)
    assert not session.is_working
    assert 46 not in [line["row"] for line in ask(session, "suspects")["rows"]]


def test_table_is_sorted_and_cut(session):
    rows = ask(session, "table", sort="margin", limit=4)["rows"]
    margins = session.draft.core.decision_function(session.layers["training"].X).max(axis=1)
    assert np.allclose([line["margin"] for line in rows], np.sort(margins)[:4], atol=1e-6)
    some = ask(session, "table", rows=[7, 3], layer="held_out")["rows"]
    assert [line["row"] for line in some] == [3, 7]
    assert some[0]["values"] == [f"{value:g}" for value in IRIS[HELD_OUT][3]]


def test_rejection_uses_held_out_rows_only(session):
    found = ask(session, "rejected", rate=0.1)
    reference = iris_estimator(8).fit(
        session.layers["training"].X, session.draft.label_array(session.draft.codes)
    )
    reference.set_rejection(session.layers["held_out"].X, false_alarm_rate=0.1)
    unknown = np.flatnonzero(~reference.is_known(session.layers["held_out"].X))
    assert sorted(found["rows"]) == unknown.tolist()
    assert found["n_rejected"] == len(unknown)
    told = make(session, "set_rejection", rate=0.1)["rejection"]
    assert told == {"rate": 0.1, "n_rejected": len(unknown)}
    flags = read_points(ask(session, "points", layer="held_out"))[4]
    assert np.flatnonzero(flags & 4).tolist() == unknown.tolist()
    alone = Session(session.draft.core, Rows(IRIS, NAMES))
    with pytest.raises(RequestError, match="needs held-out rows"):
        ask(alone, "rejected", rate=0.1)
    with pytest.raises(RequestError, match="needs at least 99 held-out rows"):
        ask(session, "rejected", rate=0.01)


# Growth


def test_models_on_the_way_are_shown_and_nothing_is_changed(session):
    before = ask(session, "state")
    path = before["path"]
    core, held_out = session.draft.core, session.layers["held_out"]
    y = session.draft.label_array(held_out.codes)
    for entry in path:
        expected = 1 - core.at(entry["k"]).score(held_out.X, y)
        assert entry["held_out"] == pytest.approx(expected)
    frame = ask(session, "film", plane="learned", k=4)
    assert len(frame["prototypes"]) == frame["k"] == 4
    shown = ask(session, "at", k=4)
    assert len(shown["prototypes"]) == 4
    assert shown["path_at"] == 4
    assert shown["edits"] == 0
    after = ask(session, "at", k=None)
    assert {**after, "version": 0} == {**before, "version": 0}


def test_a_model_without_growth_offers_a_fit(session, tmp_path):
    session.draft.core.save(tmp_path / "m.dkm")
    bare = Session(load(tmp_path / "m.dkm"), Rows(IRIS, NAMES))
    assert ask(bare, "state")["path"] is None
    with pytest.raises(RequestError, match="fit again"):
        ask(bare, "at", k=3)
    ask(bare, "refit", max_clusters=7)
    wait(bare)
    assert ask(bare, "state")["path"][-1]["k"] == 7
    k = ask(bare, "state")["path"][-2]["k"]
    use = make(bare, "use_k", k=k)
    assert len(use["prototypes"]) == k
    assert use["path"] is not None


def test_film_shows_prototypes_of_learned_metrics_on_the_plane_of_the_last():
    model = DiscriminativeKMeans(8, metric="learned", refine="margin").fit(IRIS, NAMES)
    session = Session(model, Rows(IRIS, NAMES))
    last = ask(session, "film", plane="learned", k=8)
    on_plane = np.array(ask(session, "on_plane", plane="learned")["prototypes"])
    assert np.allclose(np.array(last["prototypes"])[:, :2], on_plane)
    x0, x1, y0, y1 = ask(session, "on_plane", plane="learned")["extent"]
    first = np.array(ask(session, "film", plane="learned", k=3)["prototypes"])
    assert (first[:, 0] > 2 * x0 - x1).all()
    assert (first[:, 1] < 2 * y1 - y0).all()
    assert ask(session, "state")["path"][-1]["refined"] is True


# Edits

EDITS = [
    {"kind": "relabel", "rows": [0, 46], "class": 1},
    {"kind": "relabel", "rows": [9, 4], "classes": [2, 1]},
    {"kind": "drop_rows", "rows": [5, 6]},
    {"kind": "restore_rows", "rows": [5]},
    {"kind": "keep", "rows": [7]},
    {"kind": "add_class", "name": "<img src=x onerror=alert(1)>"},
    {"kind": "relabel", "rows": [11, 12], "class": 3},
    {"kind": "merge_classes", "from": 3, "into": 0},
    {"kind": "rename_prototype", "index": 1, "name": "the small one"},
    {"kind": "move", "index": 2, "row": 8},
    {"kind": "move", "index": 0, "values": [5.0, 3.0, 1.5, 0.25]},
    {"kind": "merge_prototypes", "indices": [1, 2]},
    {"kind": "drop_prototype", "index": 3},
    {"kind": "set_rejection", "rate": 0.1},
]


def told(session):
    state = ask(session, "state")
    data = ask(session, "points")
    return {**state, "version": 0, "undo": 0, "redo": 0, "edits": 0}, data


def test_every_edit_is_undone_and_redone(session):
    seen = [told(session)]
    for edit in EDITS:
        assert ask(session, "edit", edit=edit)["undo"]
        seen.append(told(session))
        assert seen[-1] != seen[-2] or edit["kind"] == "keep"
    for before in reversed(seen[:-1]):
        ask(session, "undo")
        assert told(session) == before
    assert ask(session, "state")["undo"] is None
    for after in seen[1:]:
        ask(session, "redo")
        assert told(session) == after
    with pytest.raises(RequestError, match="nothing to redo"):
        ask(session, "redo")


def test_a_new_edit_after_undo_forgets_what_was_undone(session):
    make(session, "keep", rows=[1])
    ask(session, "undo")
    assert make(session, "keep", rows=[2])["redo"] is None


@pytest.mark.parametrize("edit", EDITS[:5] + EDITS[8:13], ids=lambda edit: edit["kind"])
def test_preview_counts_what_the_edit_does_and_changes_nothing(session, edit):
    before = told(session)
    found = ask(session, "preview", edit=edit)
    assert told(session) == before
    state = ask(session, "edit", edit=edit)
    for layer in ("training", "held_out"):
        assert found[layer]["after"] == state["error"][layer]["wrong"]
        assert found[layer]["before"] == before[0]["error"][layer]["wrong"]


def test_the_model_that_was_passed_is_not_changed():
    session = iris_session()
    model = session.start.core
    before = model.cluster_centers_.copy(), model.n_clusters_
    X = session.layers["training"].X.copy()
    for edit in EDITS:
        ask(session, "edit", edit=edit)
    ask(session, "row", row=1)
    assert (model.cluster_centers_ == before[0]).all()
    assert model.n_clusters_ == before[1]
    assert (session.layers["training"].X == X).all()


def test_corrected_labels_and_dropped_rows_can_be_taken_away(session):
    make(session, "relabel", rows=[3], **{"class": 1})
    make(session, "drop_rows", rows=[4])
    make(session, "merge_classes", **{"from": 2, "into": 0})
    expected = LABELS[~HELD_OUT].copy()
    expected[3] = "versicolor"
    expected[expected == "virginica"] = "setosa"
    assert session.labels().tolist() == expected.tolist()
    assert np.flatnonzero(session.dropped()).tolist() == [4]


def test_merged_classes_are_one_in_errors_and_in_the_next_fit(session):
    confusion = np.array(ask(session, "confusion", layer="held_out")["counts"])
    state = make(session, "merge_classes", **{"from": 2, "into": 1})
    left = confusion.sum() - np.trace(confusion) - confusion[1, 2] - confusion[2, 1]
    assert state["error"]["held_out"]["wrong"] == left
    assert [entry["merged_into"] for entry in state["classes"]] == [None, None, 1]
    assert state["classes"][2]["count"] == 0
    ask(session, "refit")
    wait(session)
    assert session.draft.core.classes_.tolist() == ["setosa", "versicolor"]


def test_labels_of_numbers_stay_numbers():
    session = Session(grown(6).fit(IRIS, CODES), Rows(IRIS, CODES))
    with pytest.raises(RequestError, match="whole numbers"):
        make(session, "add_class", name="new")
    make(session, "add_class", name="7")
    make(session, "relabel", rows=list(range(20)), **{"class": 3})
    ask(session, "refit")
    wait(session)
    assert session.draft.core.classes_.tolist() == [0, 1, 2, 7]
    assert session.draft.core.classes_.dtype.kind == "i"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (None, "edit must be an object"),
        ({"kind": "explode"}, "kind must be one of"),
        ({"kind": "relabel", "rows": [], "class": 0}, "not empty"),
        ({"kind": "relabel", "rows": [100], "class": 0}, "from 0 to 99"),
        ({"kind": "relabel", "rows": [True], "class": 0}, "whole numbers"),
        ({"kind": "relabel", "rows": [1], "class": 9}, "class must be"),
        ({"kind": "relabel", "rows": [1, 2], "classes": [1]}, "one for each"),
        ({"kind": "drop_rows", "rows": list(range(100))}, "No row would be left"),
        ({"kind": "add_class", "name": "setosa"}, "already"),
        ({"kind": "add_class", "name": " "}, "letters"),
        ({"kind": "add_class", "name": "a\nb"}, "cannot be printed"),
        ({"kind": "merge_classes", "from": 1, "into": 1}, "same class"),
        ({"kind": "merge_prototypes", "indices": [0, 7]}, "class"),
        ({"kind": "merge_prototypes", "indices": [0]}, "two or more"),
        ({"kind": "move", "index": 0, "values": [1.0]}, "list of 4 numbers"),
        ({"kind": "move", "index": 0, "values": [1, 2, 3, 10**400]}, "finite"),
        ({"kind": "set_rejection", "rate": 2}, "between 0 and 1"),
        ({"kind": "use_k", "k": 0}, "k must be"),
    ],
)
def test_a_wrong_edit_is_one_sentence_and_changes_nothing(session, edit, message):
    before = told(session)
    for name in ("preview", "edit"):
        with pytest.raises(RequestError, match=message) as error:
            ask(session, name, edit=edit)
        assert str(error.value).endswith(".")
        assert "\n" not in str(error.value)
    assert told(session) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
WORDS = ("row", "rows", "plane", "layer", "x", "y", "k", "rate", "index", "extent", "width")
WORDS += ("height", "classes", "limit", "offset", "sort", "what", "edit", "max_clusters")
SHARED = iris_session()


@settings(max_examples=60)
@given(
    name=st.sampled_from([*sorted(set(ANSWERS) - {"refit", "stop"}), "nothing"]),
    params=st.dictionaries(st.sampled_from(WORDS), JSON, max_size=4) | JSON,
)
def test_any_request_is_answered_or_refused_in_a_sentence(name, params):
    with contextlib.suppress(RequestError):
        found = answer(SHARED, name, params)
        assert isinstance(found, bytes) or json.dumps(found, allow_nan=False)
    SHARED.shown_k = None


def test_limits_keep_answers_small(session):
    wide = {"extent": [0, 1, 0, 1], "width": r.MAX_PIXELS, "height": 2}
    with pytest.raises(RequestError, match="pixels"):
        ask(session, "regions", **wide)
    with pytest.raises(RequestError, match="from 0 to 1000"):
        ask(session, "table", limit=10_000)


# Fits


def test_a_fit_again_is_the_fit_of_the_corrected_rows(session):
    make(session, "relabel", rows=[0, 46], **{"class": 0})
    make(session, "drop_rows", rows=[50, 51])
    before = ask(session, "state")["error"]
    ask(session, "refit")
    wait(session)
    state = ask(session, "state")
    assert state["job"] is None
    assert state["undo"] == "fit again"
    used = session.draft.used
    y = session.draft.label_array(session.draft.codes)
    expected = iris_estimator(8).fit(session.layers["training"].X[used], y[used])
    assert digest_model(session.draft.core) == digest_model(expected)
    for layer in ("training", "held_out"):
        assert state["last_refit"][layer]["before"] == before[layer]["wrong"]
        assert state["last_refit"][layer]["after"] == state["error"][layer]["wrong"]
    assert ask(session, "undo")["last_refit"] is None


def test_a_fit_can_be_stopped_and_nothing_else_is_changed_meanwhile(monkeypatch):
    session = iris_session()
    begun, go_on = threading.Event(), threading.Event()
    plain = DiscriminativeKMeans.fit

    def slow(self, *args):
        begun.set()
        assert go_on.wait(20)
        return plain(self, *args)

    monkeypatch.setattr(DiscriminativeKMeans, "fit", slow)
    before = told(session)
    assert ask(session, "refit")["job"]["running"]
    assert begun.wait(20)
    with pytest.raises(RequestError, match="fit is running"):
        make(session, "keep", rows=[1])
    with pytest.raises(RequestError, match="fit is running"):
        ask(session, "refit")
    ask(session, "stop")
    go_on.set()
    wait(session)
    job = ask(session, "state")["job"]
    assert job["text"] == "stopped"
    assert not job["running"]
    assert job["error"] is None
    after = told(session)
    assert after[1] == before[1]
    assert {**after[0], "job": None} == before[0]
    ask(session, "refit")
    wait(session)
    assert ask(session, "state")["undo"] == "fit again"


def test_a_fit_that_fails_tells_why(session):
    ask(session, "refit", max_clusters=1)
    wait(session)
    job = ask(session, "state")["job"]
    assert "max_clusters" in job["error"]
    assert not session.done


# Journal


def test_the_journal_brings_everything_back(tmp_path):
    path = tmp_path / "j.jsonl"
    first = iris_session(path)
    for edit in EDITS[:13]:
        ask(first, "edit", edit=edit)
    ask(first, "refit")
    wait(first)
    ask(first, "undo")
    ask(first, "undo")
    ask(first, "redo")
    expected = told(first)
    first.close()
    second = iris_session(path)
    assert told(second) == expected
    assert ask(second, "state")["redo"] == ask(first, "state")["redo"] == "fit again"
    ask(second, "redo")
    assert digest_model(second.draft.core) == digest_model(first.undone[-1].after.core)
    second.close()


def test_a_journal_of_something_else_is_refused_and_kept(tmp_path):
    path = tmp_path / "j.jsonl"
    iris_session(path).close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match="journal of other model"):
        iris_session(path, max_clusters=5)
    other = Session(grown(4).fit(IRIS, NAMES), Rows(IRIS, NAMES), journal=tmp_path / "o.jsonl")
    other.close()
    y = NAMES.copy()
    y[0] = "virginica"
    with pytest.raises(ValueError, match="journal of other rows"):
        Session(other.start.core, Rows(IRIS, y), journal=tmp_path / "o.jsonl")
    assert path.read_bytes() == before
    for data in (b"hello", b"hello\n", b"[1]\n", b'{"a": 1}\n'):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="no journal"):
            iris_session(path)
        assert path.read_bytes() == data


def test_a_line_that_a_crash_cut_off_is_dropped(tmp_path):
    path = tmp_path / "j.jsonl"
    session = iris_session(path)
    make(session, "keep", rows=[3])
    make(session, "drop_rows", rows=[4])
    session.close()
    data = path.read_bytes()
    path.write_bytes(data[:-4])
    again = iris_session(path)
    assert ask(again, "state")["edits"] == 1
    make(again, "keep", rows=[5])
    again.close()
    last = iris_session(path)
    assert ask(last, "state")["edits"] == 2
    last.close()


def test_a_journal_is_open_in_one_process_only(tmp_path):
    path = tmp_path / "j.jsonl"
    session = iris_session(path)
    with pytest.raises(ValueError, match="in use by another explorer"):
        iris_session(path)
    code = "import sys, pathlib; from dkmeans.explorer.journal import Journal\n"
    code += "Journal(pathlib.Path(sys.argv[1]), {})"
    command = [sys.executable, "-c", code, str(path)]
    other = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "in use by another explorer" in other.stderr
    session.close()
    iris_session(path).close()


def test_two_tabs_write_whole_lines_in_the_order_of_their_edits(tmp_path):
    path = tmp_path / "j.jsonl"
    session = iris_session(path)

    def tab(first):
        for row in range(first, 100, 2):
            make(session, "keep", rows=[row])

    tabs = [threading.Thread(target=tab, args=(first,)) for first in (0, 1)]
    for thread in tabs:
        thread.start()
    for thread in tabs:
        thread.join()
    session.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [line["edit"] for line in lines] == [change.edit for change in session.done]
    assert len(lines) == 100


def test_an_edit_that_cannot_be_written_is_not_made(tmp_path, monkeypatch):
    session = iris_session(tmp_path / "j.jsonl")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        make(session, "keep", rows=[1])
    assert ask(session, "state")["edits"] == 0
    monkeypatch.undo()
    make(session, "keep", rows=[2])
    session.close()
    again = iris_session(tmp_path / "j.jsonl")
    assert ask(again, "state")["edits"] == 1
    again.close()


# Errors of input


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ((IRIS, NAMES[:-1]), {}, "y has 149 labels, but X has 150 rows"),
        ((IRIS[:0], NAMES[:0]), {}, "0 sample"),
        ((IRIS, CODES), {}, "labels"),
        ((IRIS, NAMES, [1.0]), {}, "sample_weight has 1 entries"),
        ((IRIS[:, :2], NAMES), {}, "2 features"),
        ((IRIS, NAMES), {"held_out": Rows(IRIS, NAMES[:3])}, "y_test has 3 labels"),
    ],
)
def test_wrong_rows_are_refused_in_a_sentence(rows, more, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Session(iris_model(8), Rows(*rows), **more)


# Scripts


def test_script_does_the_same_edits_again(session, tmp_path):
    for edit in EDITS:
        ask(session, "edit", edit=edit)
    ask(session, "refit")
    wait(session)
    path = tmp_path / ask(session, "export_name", what="script")["name"]
    path.write_bytes(ask(session, "export", what="script"))
    script = runpy.run_path(str(path))
    layers = session.layers
    again = script["edited"](
        session.start.core,
        *(
            Rows(layer.X, session.start.label_array(layer.codes))
            for layer in (layers["training"], layers["held_out"])
        ),
    )
    assert digest_model(again.draft.core) == digest_model(session.draft.core)
    assert (again.draft.codes == session.draft.codes).all()
