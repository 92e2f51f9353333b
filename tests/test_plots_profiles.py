"""Figures of prototypes column by column, and the palette of many classes."""

import numpy as np
import pytest
from models import grown
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from dkmeans import table_pipeline
from dkmeans.tables import in_original_units

pytest.importorskip("matplotlib")

from dkmeans.plots import PrototypeProfilesDisplay
from dkmeans.plots.inputs import unwrap_pipeline
from dkmeans.plots.palette import palette, seen


@pytest.fixture(scope="module")
def customers():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 300)
    table = pd.DataFrame(
        {
            "age": 20.0 + 15 * kind + rng.normal(size=300),
            "colour": np.array(["red", "blue", "green"])[rng.integers(0, 3, 300)],
            "member": kind == 1,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(100 * kind, unit="D"),
        }
    )
    y = np.array(["low", "middle", "high"])[kind]
    return table_pipeline(table, grown(6)).fit(table, y)


def cells(display):
    """Return what is written in each cell of a heat map."""
    names = [label.get_text() for label in display.ax_.get_xticklabels()]
    lines = [label.get_text() for label in display.ax_.get_yticklabels()]
    places = {text.get_position(): text.get_text() for text in display.ax_.texts}
    return {(lines[i], names[j]): text for (j, i), text in places.items()}


def test_a_heat_map_of_a_table_is_in_its_units(customers):
    display = PrototypeProfilesDisplay.from_estimator(customers)
    model = customers[-1]
    values = in_original_units(customers[0], model.cluster_centers_)
    written = cells(display)
    assert len(written) == 6 * len(values)
    for i in range(6):
        line = (
            f"#{model.cluster_ids_[i]} {model.cluster_classes_[i]} ({model.cluster_sizes_[i]:.0f})"
        )
        assert float(written[line, "age"]) == pytest.approx(values["age"][i], abs=0.06)
        assert written[line, "since"] == values["since"][i][:10]
        assert written[line, "member"] == f"{100 * abs(values['member'][i]):.0f} %"
        assert written[line, "colour=red"] == f"{100 * values['colour=red'][i]:.0f} %"
    order = [label.get_text().split()[1] for label in display.ax_.get_yticklabels()]
    assert order == sorted(order)


@pytest.mark.parametrize("n_clusters", [3, 12])
def test_the_label_of_the_colours_is_not_cut_off(n_clusters):
    X, y = load_iris(return_X_y=True)
    model = grown(max_clusters=n_clusters).fit(X, y)
    display = PrototypeProfilesDisplay.from_estimator(model)
    figure = display.figure_
    figure.canvas.draw()
    label = figure.axes[-1].yaxis.label
    assert " ".join(label.get_text().split()) == "standard deviations from the mean"
    seen_at = label.get_window_extent()
    assert seen_at.y0 >= 0
    assert seen_at.y1 <= figure.bbox.height


def test_levels_have_the_same_names_in_all_pictures(customers):
    names = list(in_original_units(customers[0], customers[-1].cluster_centers_))
    opened = unwrap_pipeline(customers)
    assert [opened.feature(j) for j in range(len(names))] == names
    assert "colour=red" in names


def test_colours_are_deviations_from_the_mean():
    X, y = load_iris(return_X_y=True)
    model = grown(max_clusters=6).fit(X, y)
    display = PrototypeProfilesDisplay.from_estimator(model)
    shown = display.ax_.images[0].get_array()
    centers, sizes = model.cluster_centers_, model.cluster_sizes_
    steps = centers - np.average(centers, axis=0, weights=sizes)
    expected = steps / np.sqrt(np.average(steps**2, axis=0, weights=sizes))
    order = np.lexsort((-sizes, model.cluster_classes_))
    np.testing.assert_allclose(shown, expected[order])


@pytest.mark.parametrize("step", [StandardScaler(), Normalizer()])
def test_steps_are_undone_where_they_can_be(step):
    X, y = load_iris(return_X_y=True, as_frame=True)
    pipeline = make_pipeline(step, grown(max_clusters=6)).fit(X, y)
    columns = PrototypeProfilesDisplay.from_estimator(pipeline).columns
    assert [column.name for column in columns] == list(X.columns)
    centers = pipeline[-1].cluster_centers_
    expected = step.inverse_transform(centers) if isinstance(step, StandardScaler) else centers
    np.testing.assert_allclose(np.column_stack([column.values for column in columns]), expected)


def test_points_of_a_learned_space_are_said_to_be_such():
    X, y = load_iris(return_X_y=True)
    model = grown(6, refine="margin", metric="learned").fit(X, y)
    said = "points of the learned space: values may lie outside of the data"
    for kind in ("heatmap", "parallel"):
        display = PrototypeProfilesDisplay.from_estimator(model, kind=kind)
        assert display.ax_.get_title() == f"6 prototypes\n{said}"
    assert said not in PrototypeProfilesDisplay.from_estimator(model, X).ax_.get_title()


def test_means_of_rows_stand_in_for_prototypes():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), grown(6, refine="margin")).fit(X, y)
    display = PrototypeProfilesDisplay.from_estimator(pipeline, X)
    cells = pipeline[-1].predict_cluster(pipeline[0].transform(X))
    expected = [X[cells == i].mean(axis=0) for i in range(6)]
    values = np.column_stack([column.values for column in display.columns])
    np.testing.assert_allclose(values, expected)
    assert display.ax_.get_title() == "6 prototypes, means of their rows"


@pytest.mark.parametrize("n_classes", [3, 12])
def test_parallel_coordinates_have_a_line_per_prototype(n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), np.arange(120) % n_classes
    model = grown(max_clusters=24).fit(X, y)
    display = PrototypeProfilesDisplay.from_estimator(model, kind="parallel")
    assert len(display.ax_.lines) == 24
    values = np.array([column.values for column in display.columns])
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    wanted = {tuple(line) for line in ((values - low) / (high - low)).T.round(9)}
    drawn = [np.array(line.get_ydata()) for line in display.ax_.lines]
    lanes = {float(-1.25 * lane) for lane in range(n_classes)} if n_classes > 8 else {0.0}
    assert wanted == {
        tuple((line - lane).round(9))
        for line in drawn
        for lane in lanes
        if line.min() >= lane - 1e-9 and line.max() <= lane + 1 + 1e-9
    }


def test_what_is_left_out_is_said():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 5))
    X[:, 3] += 5 * y
    model = grown(max_clusters=20).fit(X, y)
    display = PrototypeProfilesDisplay.from_estimator(model, max_prototypes=4, max_columns=1)
    assert display.ax_.get_title() == (
        f"4 of {model.n_clusters_} prototypes: the heaviest of each class\n"
        "1 of 5 columns: where classes differ most"
    )
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["x3"]
    labels = [label.get_text().split()[1] for label in display.ax_.get_yticklabels()]
    assert set(labels) == {"0", "1", "2"}
    with pytest.raises(ValueError, match="kind='bars' must be"):
        display.plot(kind="bars")
    with pytest.raises(ValueError, match="max_columns=0 must be 1 or more"):
        display.plot(max_columns=0)


def test_colours_differ_for_every_kind_of_colour_vision():
    assert len(set(palette())) == len(palette())
    rgb = [[int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)] for text in palette()]
    places = seen(rgb)
    apart = np.linalg.norm(places[:, :, None] - places[:, None], axis=3).min(axis=0)
    apart[np.diag_indices(len(apart))] = np.inf
    # 26 colours are about as far apart as the 8 that the palette begins with.
    assert apart[:26, :26].min() > 0.75 * apart[:8, :8].min()
    assert apart.min() > 0.03
    np.testing.assert_allclose(seen([[1, 1, 1]])[:, 0], [[1, 0, 0]] * 4, atol=2e-3)
