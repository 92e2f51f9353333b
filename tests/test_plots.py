"""Figures: what is on them, not how they look."""

import io
from copy import copy
from xml.etree import ElementTree

import numpy as np
import pytest
from models import grown
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkmeans import DiscriminativeKMeans, table_pipeline
from dkmeans.baselines import ClasswiseKMeans

pytest.importorskip("matplotlib")

from matplotlib import colormaps, rc_context
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from dkmeans import plots
from dkmeans.plots import (
    CellsDisplay,
    CertifiedAccuracyDisplay,
    ClassBordersDisplay,
    ConfusionDisplay,
    ExplanationDisplay,
    GrowthDisplay,
    MarginDisplay,
    PathDisplay,
    PrototypeImagesDisplay,
    SuspectImagesDisplay,
    TreeDisplay,
)
from dkmeans.plots.borders import borders
from dkmeans.plots.display import off_screen
from dkmeans.plots.style import color, marker


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(200, noise=0.15, random_state=0)
    return X, y, grown(max_clusters=10).fit(X, y)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    y = load_iris().target_names[y]
    return X, y, grown(max_clusters=6).fit(X, y)


def test_growth_shows_the_start_and_every_round():
    X, y = make_moons(60, noise=0.1, random_state=0)
    estimator = grown(max_clusters=8)
    display = GrowthDisplay.from_estimator(estimator, X, y)
    assert not hasattr(estimator, "labels_")
    fitted = estimator.fit(X, y)
    assert [panel.round for panel in display.panels] == list(range(fitted.n_iter_ + 1))
    assert display.panels[0].prototypes.ids.tolist() == [0]
    last = display.panels[-1].prototypes
    assert last.centers.tobytes() == fitted.cluster_centers_.tobytes()
    titles = [axes.get_title() for axes in display.axes_.flat if axes.get_visible()]
    assert titles[0] == "start: 1 cluster, 1 mixed"
    assert titles[-1].startswith(f"round {fitted.n_iter_}: 8 clusters")
    assert [t.get_text() for t in display.figure_.legends[0].get_texts()] == [
        "class 0",
        "class 1",
        "prototype of class 0",
        "prototype of class 1",
    ]


def test_growth_names_many_classes_once_each():
    spots = np.array([(i, j) for i in range(3) for j in range(3)], dtype=float)
    display = GrowthDisplay.from_estimator(grown(), spots, range(9))
    texts = [t.get_text() for t in display.figure_.legends[0].get_texts()]
    assert texts == [f"prototype of class {c}" for c in range(9)]


def test_growth_leaves_out_rounds_in_the_middle():
    X, y = make_moons(200, noise=0.3, random_state=0)
    display = GrowthDisplay.from_estimator(grown(), X, y, max_panels=6)
    rounds = [panel.round for panel in display.panels]
    assert len(rounds) == 6
    assert rounds[:2] == [0, 1]
    assert rounds == sorted(set(rounds))
    assert display.panels[-1].n_mixed == 0


def test_growth_needs_two_features():
    with pytest.raises(ValueError, match="3 features"):
        GrowthDisplay.from_estimator(grown(), np.eye(3), [0, 1, 2])


def test_classes_differ_by_colour_or_marker():
    looks = {(color(c), marker(c)) for c in range(80)}
    assert len(looks) == 80
    assert len({color(c) for c in range(40)}) == 40


def test_classwise_kmeans_shares_centres_evenly():
    X, y = load_digits(return_X_y=True)
    model = ClasswiseKMeans(23).fit(X, y)
    assert np.bincount(model.cluster_classes_).tolist() == [3, 3, 3, 2, 2, 2, 2, 2, 2, 2]
    assert model.score(X, y) > 0.9


# All displays


def built(X, y, model):
    learned = DiscriminativeKMeans(10, metric="learned").fit(X, y)
    return [
        CellsDisplay.from_estimator(model, X, y),
        CertifiedAccuracyDisplay.from_estimator(model, X, y),
        ClassBordersDisplay.from_estimator(model),
        ConfusionDisplay.from_estimator(model, X, y),
        ExplanationDisplay.from_estimator(model, X[:2], image_shape=(1, 2), X_train=X),
        plots.FeatureImportancesDisplay.from_estimator(learned),
        plots.FeaturePartsDisplay.from_estimator(model, X[:2]),
        GrowthDisplay.from_estimator(model, X, y, max_panels=2),
        MarginDisplay.from_estimator(model, X, y),
        PathDisplay.from_estimator(model),
        PrototypeImagesDisplay.from_estimator(model, image_shape=(1, 2)),
        plots.PrototypeProfilesDisplay.from_estimator(model),
        plots.PrototypeProfilesDisplay.from_estimator(model, kind="parallel"),
        plots.RejectionDisplay.from_estimator(copy(model).set_rejection(X), X, y),
        plots.ReliabilityDisplay.from_estimator(model, X, y),
        SuspectImagesDisplay.from_suspects(model.suspects(X, y, n=3), X, image_shape=(1, 2)),
        TreeDisplay.from_estimator(model),
    ]


def test_all_displays_draw_through_pyplot_and_where_they_are_told(moons):
    plt.close("all")
    displays = built(*moons)
    assert {type(display).__name__ for display in displays} == set(plots.__all__)
    assert [plt.figure(number) for number in plt.get_fignums()] == [d.figure_ for d in displays]
    for display in displays:
        assert len(repr(display)) < 80
        assert repr(display).startswith(type(display).__name__ + "(")
        figure = Figure(layout="constrained")
        part = Figure(figsize=(8, 4)).subfigures(1, 2)[0]  # without a layout
        for where in (figure, part):
            ax = where.subplots()
            assert display.plot(ax) is display
            assert display.figure_ is where
            assert display.ax_ is ax
            where.figure.draw_without_rendering()
    assert len(plt.get_fignums()) == len(displays)


def test_a_display_takes_axes_at_once(moons):
    X, y, model = moons
    plt.close("all")
    for display, *rows in ((TreeDisplay,), (CellsDisplay, X, y), (MarginDisplay, X, y)):
        ax = Figure().subplots()
        assert display.from_estimator(model, *rows, ax=ax).ax_ is ax
    with off_screen():
        assert PathDisplay.from_estimator(model).figure_ is not None
    assert plt.get_fignums() == []


def test_classes_may_be_displayed_by_other_names(moons):
    X, y, model = moons
    named = {"display_labels": ["upper", "lower"]}
    displays = [
        CellsDisplay.from_estimator(model, X, y, **named),
        ClassBordersDisplay.from_estimator(model, **named),
        ConfusionDisplay.from_estimator(model, X, y, **named),
        ExplanationDisplay.from_estimator(model, X[:2], image_shape=(1, 2), **named),
        plots.FeaturePartsDisplay.from_estimator(model, X[:2], **named),
        GrowthDisplay.from_estimator(model, X, y, max_panels=2, **named),
        PrototypeImagesDisplay.from_estimator(model, image_shape=(1, 2), **named),
        plots.PrototypeProfilesDisplay.from_estimator(model, **named),
        SuspectImagesDisplay.from_suspects(
            model.suspects(X, y, n=3),
            X,
            image_shape=(1, 2),
            display_labels={0: "upper", 1: "lower"},
        ),
        TreeDisplay.from_estimator(model, **named),
    ]
    for display in displays:
        words = " ".join(text.get_text() for text in display.figure_.findobj(Text))
        assert "upper" in words
        assert "lower" in words
    with pytest.raises(ValueError, match="display_labels has 1 names, but there are 2 classes"):
        TreeDisplay.from_estimator(model, display_labels=["upper"])


def test_class_colours_may_come_from_a_colour_map(moons):
    display = CellsDisplay.from_estimator(moons[2], cmap="viridis")
    ends = [to_hex(drawn.get_facecolor()[0]) for drawn in display.ax_.collections[-2:]]
    assert ends == [to_hex(colormaps["viridis"](place)) for place in (0.0, 1.0)]


def test_names_are_neither_formulas_nor_commands(moons):
    """Names of features and classes come from data: they may hold anything."""
    pd = pytest.importorskip("pandas")
    X, y, _ = moons
    X = pd.DataFrame(X, columns=[r"$\price$", "50 %\n_of_\x1b[31m{it}"])
    kinds = [r"$\frac{1$ $x^_$", "a$$$$$$$$$$$$", "_b\\$ % #\n&\x1b]0;title\x07\u202e", "c"]
    y = np.array(kinds)[2 * y + (X.iloc[:, 0] > 0.5)]
    model = grown(max_clusters=10).fit(X, y)
    for display in built(X, y, model):
        file = io.BytesIO()
        with rc_context({"svg.fonttype": "none"}):
            display.figure_.savefig(file, format="svg")
        words = " ".join(ElementTree.fromstring(file.getvalue()).itertext())  # it is valid XML
        assert "\u202e" not in words
        if isinstance(display, CellsDisplay):
            for name in (r"$\price$", r"50 % _of_\x1b[31m{it}", "a$$$$$$$$$$$$", r"_b\$ % #"):
                assert name in words
        if isinstance(display, ConfusionDisplay | ClassBordersDisplay):
            for name in (r"$\frac{…", r"_b\$ % …"):
                assert name in words


def test_panels_need_a_place_in_a_grid(moons):
    X, y, model = moons
    loose = Figure().add_axes((0, 0, 1, 1))
    with pytest.raises(ValueError, match="not part of a grid"):
        GrowthDisplay.from_estimator(model, X, y, max_panels=2, ax=loose)


def test_displays_need_a_fitted_model():
    with pytest.raises(TypeError, match="is a StandardScaler; this display needs"):
        TreeDisplay.from_estimator(StandardScaler())
    with pytest.raises(ValueError, match="not fitted"):
        TreeDisplay.from_estimator(grown())
    with pytest.raises(AttributeError, match="no attribute 'NoDisplay'"):
        _ = plots.NoDisplay


def test_labels_must_fit_the_rows(moons):
    X, y, model = moons
    for display in (CellsDisplay, ConfusionDisplay, MarginDisplay):
        with pytest.raises(ValueError, match=r"y has shape \(199,\), but X has 200 rows"):
            display.from_estimator(model, X, y[1:])


def test_labels_must_be_of_the_kind_that_the_model_knows(moons):
    X, y, model = moons
    with pytest.raises(ValueError, match="y holds text, but the model was fitted on numbers"):
        MarginDisplay.from_estimator(model, X, y.astype(str))


@pytest.mark.parametrize("form", ["csr_array", "coo_array", "list", "pandas", "polars"])
def test_rows_come_in_many_forms(iris, form):
    X, y, _ = iris
    if form.endswith("array"):
        rows = getattr(pytest.importorskip("scipy.sparse"), form)(X)
    elif form == "list":
        rows = X.tolist()
    else:
        rows = pytest.importorskip(form).DataFrame({f"f{j}": X[:, j] for j in range(4)})
    model = grown(max_clusters=6).fit(rows, y)
    plain = grown(max_clusters=6).fit(X, y)
    margins = MarginDisplay.from_estimator(model, rows, y)
    np.testing.assert_allclose(margins.rival, MarginDisplay.from_estimator(plain, X, y).rival)
    cells = CellsDisplay.from_estimator(model, rows, list(y), max_rows=40)
    expected = CellsDisplay.from_estimator(plain, X, y, max_rows=40)
    np.testing.assert_allclose(cells.points, expected.points, atol=1e-9)
    np.testing.assert_array_equal(cells.regions, expected.regions)


# Cells


def test_borders_are_where_two_prototypes_above_a_plane_are_nearest():
    rng = np.random.default_rng(0)
    sites, heights = rng.normal(size=(30, 2)), rng.random(30)
    box = np.array([[-3.0, -3.0], [3.0, 3.0]])
    segments, pairs = borders(sites, box, heights)
    n_inside = 0
    for (a, b), pair in zip(segments, pairs, strict=True):
        for point in np.linspace(a, b, 9)[1:-1]:
            if np.abs(point).max() < 3:
                squares = ((sites - point) ** 2).sum(axis=1) + heights**2
                np.testing.assert_allclose(squares[pair], squares.min(), atol=1e-6)
                n_inside += 1
    assert n_inside > 30
    assert borders(sites[:1], box)[0].shape == (0, 2, 2)


def test_cells_of_two_features_are_those_of_the_model(moons):
    X, y, model = moons
    display = CellsDisplay.from_estimator(model, X, y)
    assert not display.plane.is_cut
    grid = np.stack(np.meshgrid(display.xs, display.ys), axis=-1).reshape(-1, 2)
    np.testing.assert_array_equal(display.classes[display.regions.ravel()], model.predict(grid))
    ax = display.ax_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x1")
    assert ax.get_title() == "10 prototypes, larger for more rows"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["class 0", "class 1"]
    for c, drawn in enumerate(ax.collections[-2:]):
        mine = model.cluster_classes_ == c
        np.testing.assert_allclose(drawn.get_offsets(), model.cluster_centers_[mine])
        assert np.argmax(drawn.get_sizes()) == np.argmax(model.cluster_sizes_[mine])
        assert to_hex(drawn.get_facecolor()[0]).upper() == color(c)
        np.testing.assert_allclose(np.column_stack(ax.lines[c].get_data()), X[y == c])


def test_cells_of_more_features_are_a_cut_that_says_so(iris):
    X, y, model = iris
    display = CellsDisplay.from_estimator(model, X, y)
    grid = np.stack(np.meshgrid(display.xs, display.ys), axis=-1).reshape(-1, 2)
    lifted = display.plane.lift(grid)
    np.testing.assert_array_equal(display.classes[display.regions.ravel()], model.predict(lifted))
    np.testing.assert_allclose(display.plane.project(lifted), grid, atol=1e-9)
    np.testing.assert_allclose(display.plane.heights(lifted), 0, atol=1e-9)
    assert display.ax_.get_xlabel() == "first principal direction"
    assert "plane by PCA of the prototypes, 99% of their variance" in display.ax_.get_title()
    assert "projected onto it" in display.ax_.get_title()


def test_the_plane_is_that_of_pca():
    from sklearn.decomposition import PCA

    X, y = load_digits(return_X_y=True)
    model = grown(max_clusters=10).fit(X, y)
    model.cluster_sizes_ = np.ones(10)
    plane = CellsDisplay.from_estimator(model, plane="pca").plane
    pca = PCA(2).fit(model.cluster_centers_)
    np.testing.assert_allclose(np.abs(plane.axes @ pca.components_.T), np.eye(2), atol=1e-6)
    assert plane.share == pytest.approx(pca.explained_variance_ratio_.sum())


def test_a_plane_that_hides_classes_gives_way_to_that_of_the_class_means():
    from sklearn.decomposition import PCA

    X, y = load_digits(return_X_y=True)
    model = grown(max_clusters=20).fit(X, y)
    cut = CellsDisplay.from_estimator(model, plane="pca")
    assert cut.plane.is_cut
    assert len(np.unique(cut.regions)) < 10
    display = CellsDisplay.from_estimator(model, X[:500], y[:500])
    assert not display.plane.is_cut
    assert set(np.unique(display.regions)) == set(range(10))
    means = [
        np.average(model.cluster_centers_[mine], axis=0, weights=model.cluster_sizes_[mine])
        for mine in (model.cluster_classes_ == c for c in range(10))
    ]
    axes = PCA(2).fit(means).components_
    np.testing.assert_allclose(np.abs(display.plane.axes @ axes.T), np.eye(2), atol=1e-6)
    # Regions are those of the nearest prototype in the plane.
    grid = np.stack(np.meshgrid(display.xs, display.ys), axis=-1)[::40, ::40].reshape(-1, 1, 2)
    owners = np.square(grid - display.centers).sum(axis=2).argmin(axis=1)
    expected = display.center_classes[owners]
    np.testing.assert_array_equal(display.regions[::40, ::40].ravel(), expected)
    below = np.square(display.points[:, None] - display.centers).sum(axis=2).argmin(axis=1)
    share = np.mean(display.center_classes[below] == model.predict(X[:500]))
    title = display.ax_.get_title()
    assert "(that of PCA hides " in title
    assert f"its predicted class for {share:.0%} of rows" in title
    with pytest.raises(ValueError, match="plane='tsne' must be"):
        CellsDisplay.from_estimator(model, plane="tsne")


def test_the_plane_of_two_class_means_has_a_second_direction():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    model = grown(6).fit(X, X[:, 0] + X[:, 1] ** 2 > 0.5)
    plane = CellsDisplay.from_estimator(model, X, plane="classes").plane
    np.testing.assert_allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-12)
    assert plane.n_principal == 2


@pytest.mark.parametrize("n_clusters", [1, 2])
def test_few_prototypes_have_a_plane(n_clusters):
    X = np.random.default_rng(0).normal(size=(20, 5))
    model = grown().fit(X, np.zeros(20, dtype=int))
    if n_clusters == 2:
        model = grown(2).fit(X, X[:, 3] > 0)
    display = CellsDisplay.from_estimator(model, X)
    axes = display.plane.axes
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)
    labels = (display.ax_.get_xlabel(), display.ax_.get_ylabel())
    told = ("direction from one prototype to the other", "a direction at right angles")
    assert labels == (("x0", "x1") if n_clusters == 1 else told)
    one = f"{n_clusters} prototype{'s' * (n_clusters > 1)}"
    assert display.ax_.get_title().startswith(one)


def test_cells_after_the_steps_of_a_pipeline(iris):
    pd = pytest.importorskip("pandas")
    X, y, _ = iris
    table = pd.DataFrame(X[:, :2], columns=["length", "width"])
    pipeline = make_pipeline(StandardScaler(), grown(max_clusters=6)).fit(table, y)
    display = CellsDisplay.from_estimator(pipeline, table, y, max_rows=70)
    assert display.ax_.get_xlabel() == "length"
    assert "after StandardScaler\n70 of 150 rows shown" in display.ax_.get_title()
    scaled = pipeline[0].transform(table)
    assert {tuple(p) for p in display.points} <= {tuple(p) for p in scaled}
    assert len(display.points) == 70
    with pytest.raises(ValueError, match="y was given without X"):
        CellsDisplay.from_estimator(pipeline, y=y)


def test_cells_after_a_table_pipeline_do_not_name_its_steps(iris):
    pd = pytest.importorskip("pandas")
    X, y, _ = iris
    table = pd.DataFrame(X[:, :2], columns=["length", "width"])
    pipeline = table_pipeline(table, grown(max_clusters=6)).fit(table, y)
    title = CellsDisplay.from_estimator(pipeline).ax_.get_title()
    assert title.endswith("after scaling the columns")


def test_cells_of_many_classes_are_named_and_hatched():
    spots = np.array([(i, j) for i in range(4) for j in range(4)], dtype=float)
    model = grown().fit(spots, [f"spot {i:02d}" for i in range(16)])
    ax = CellsDisplay.from_estimator(model).ax_
    assert sorted(text.get_text() for text in ax.texts) == list(model.classes_)
    for text in ax.texts:
        assert model.predict([text.xy])[0] == text.get_text()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(model.classes_)
    hatches = [h for c in ax.collections for h in getattr(c, "hatches", None) or [] if h]
    assert hatches == ["///"]


# Tree


def test_tree_draws_a_line_per_prototype_from_its_parent(moons):
    model = moons[2]
    display = TreeDisplay.from_estimator(model)
    tree, order = model.tree_, display.ids.tolist()
    assert sorted(order) == tree.id.tolist()
    lives = [line for line in display.ax_.lines if len(set(line.get_ydata())) == 1]
    for lane, (i, line) in enumerate(zip(order, lives, strict=True)):
        assert line.get_ydata()[0] == lane
        assert line.get_xdata()[0] == tree.born[i]
    splits = [line for line in display.ax_.lines if len(set(line.get_ydata())) == 2]
    drawn = sorted((order[int(a)], order[int(b)]) for a, b in (s.get_ydata() for s in splits))
    assert drawn == sorted((tree.parent[i], i) for i in tree.id[tree.parent >= 0])
    texts = {text.get_text() for text in display.ax_.texts}
    assert texts == {
        f"#{i} {label} ({size:.0f})"
        for i, label, size in zip(
            model.cluster_ids_, model.cluster_classes_, model.cluster_sizes_, strict=True
        )
    }
    assert display.ax_.get_xlabel() == "round"


def test_no_split_crosses_the_life_of_another(moons):
    X, y, _ = moons
    display = TreeDisplay.from_estimator(grown(40).fit(X, y))
    tree, lane = display.tree, {i: n for n, i in enumerate(display.ids.tolist())}
    for i in tree.id[tree.parent >= 0].tolist():
        low, high = sorted((lane[i], lane[int(tree.parent[i])]))
        between = [j for j, n in lane.items() if low < n < high]
        assert all(tree.born[j] >= tree.born[i] for j in between)


def test_a_large_tree_shows_the_heaviest_and_says_so(moons):
    X, y, _ = moons
    model = grown(40).fit(X, y)
    display = TreeDisplay.from_estimator(model, max_prototypes=15)
    shown = set(display.ids.tolist())
    assert len(shown) <= 15
    assert int(model.cluster_ids_[np.argmax(model.cluster_sizes_)]) in shown
    assert all(set(model.tree_.ancestors(i)) <= shown for i in shown)
    assert f"{len(shown)} of {len(model.tree_)} shown" in display.ax_.get_title()
    part = TreeDisplay.from_estimator(model, root=1)
    assert all(i == 1 or 1 in model.tree_.ancestors(i) for i in part.ids.tolist())
    assert "#1 and all that came from it" in part.ax_.get_title()
    with pytest.raises(ValueError, match="root=999 is no id"):
        TreeDisplay.from_estimator(model, root=999)


def test_tree_goes_on_over_calls(moons):
    X, y, _ = moons
    model = grown().fit(X[:100], y[:100])
    first = int(model.tree_.born.max())
    model.partial_fit(X[100:] + 0.3, y[100:]).drop(model.cluster_ids_[0])
    display = TreeDisplay.from_estimator(model, max_prototypes=500)
    ticks = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert ticks == ["call 1", "call 2", "call 3"]
    late = np.flatnonzero(model.tree_.call == 2)
    lane = display.ids.tolist().index(late[0])
    lines = (line for line in display.ax_.lines if len(set(line.get_ydata())) == 1)
    begins = next(line.get_xdata()[0] for line in lines if line.get_ydata()[0] == lane)
    assert begins == first + 1 + model.tree_.born[late[0]]
    assert any("(ended)" in text.get_text() for text in display.ax_.texts)
