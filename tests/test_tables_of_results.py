"""Tables that questions return: index, sorting, filtering, HTML; and explanations of pipelines."""

import numpy as np
import pytest
from models import grown
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dkmeans import DiscriminativeKMedoids, explain, table_pipeline
from dkmeans.results import Table

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::dkmeans.OverfittingWarning")
IRIS = load_iris(as_frame=True)
NAMES = IRIS.target_names[IRIS.target]
FRAME = IRIS.data.set_index(pd.Index([f"flower {i}" for i in range(150)]))


def small_table():
    return Table(name=["a", "b<", "c", "a"], size=[2.0, 3.0, 1.0, 2.0])


class TestTable:
    def test_columns_rows_and_parts(self):
        table = small_table()
        assert table["size"].tolist() == table.size.tolist()
        assert table[1] == {"name": "b<", "size": 3.0}
        assert table[1:3].name.tolist() == ["b<", "c"]
        assert table[table.size > 1.5].name.tolist() == ["a", "b<", "a"]
        assert table[[3, 0]].size.tolist() == [2.0, 2.0]
        assert len(table.head(2)) == 2
        assert len(table.head(9)) == 4
        with pytest.raises(KeyError, match="no column 'weight'; there are name, size"):
            table["weight"]

    def test_sorting_is_stable(self):
        table = small_table().with_index([10, 11, 12, 13])
        assert table.sort_values("size").index.tolist() == [12, 10, 13, 11]
        assert table.sort_values("size", ascending=False).index.tolist() == [11, 10, 13, 12]
        assert table.sort_values("name").index.tolist() == [10, 13, 11, 12]

    def test_index_goes_along(self):
        table = small_table().with_index(["w", "x", "y", "z"])
        assert table.take([2, 0]).to_frame().index.tolist() == ["y", "w"]
        assert "w" in repr(table)
        assert small_table().to_frame().index.tolist() == [0, 1, 2, 3]
        assert table.with_index(None).index is None

    def test_html(self):
        html = small_table().with_index([7, 8, 9, 10])._repr_html_()
        assert "<td>b&lt;</td>" in html
        assert html.count("<tr>") == 5
        assert "<td>...</td>" in Table(x=np.arange(40))._repr_html_()


class TestExplanation:
    def test_true_labels_and_index(self):
        model = grown(6).fit(FRAME, NAMES)
        why = model.explain(FRAME.iloc[60:80], NAMES[60:80])
        assert why.true.tolist() == NAMES[60:80].tolist()
        assert why.right.tolist() == (model.predict(FRAME)[60:80] == NAMES[60:80]).tolist()
        assert why.index.tolist() == FRAME.index[60:80].tolist()
        wrong = why[~why.right].to_frame()
        assert wrong.index.isin(FRAME.index).all()
        assert f"{why.right.sum()} of them right" in repr(why)
        medoids = DiscriminativeKMedoids(4).fit(FRAME, NAMES)
        told = medoids.explain(FRAME.iloc[:3], NAMES[:3])
        assert told.right.all()
        assert told.index.tolist() == FRAME.index[:3].tolist()

    def test_wrong_labels_are_refused(self):
        model = grown(6).fit(FRAME, NAMES)
        with pytest.raises(ValueError, match="y has 2 labels, but X has 3 rows"):
            model.explain(FRAME.iloc[:3], NAMES[:2])
        with pytest.raises(ValueError, match="all must be numbers, or all must be text"):
            model.explain(FRAME.iloc[:3], [0, 1, 2])

    def test_pipeline_by_original_columns(self):
        pipeline = make_pipeline(StandardScaler(), grown(6)).fit(FRAME, NAMES)
        why = explain(pipeline, FRAME.iloc[:4], NAMES[:4], features=True)
        alone = pipeline[-1].explain(pipeline[:-1].transform(FRAME.iloc[:4]), features=True)
        np.testing.assert_array_equal(why.parts, alone.parts)
        assert why.features.tolist() == FRAME.columns.tolist()
        assert why.to_frame().columns[-1] == "part_petal width (cm)"
        assert why.to_frame().index.tolist() == FRAME.index[:4].tolist()
        turned = make_pipeline(PCA(2), grown(6)).fit(FRAME, NAMES)
        assert explain(turned, FRAME[:3], features=True).features.tolist() == ["pca0", "pca1"]

    @pytest.mark.parametrize("kind", ["ours", "scikit-learn's"])
    def test_levels_of_a_category_count_together(self, kind):
        rng = np.random.default_rng(0)
        color = rng.choice(["red", "green", "blue"], 90)
        size = rng.normal(size=90).round(2) + 2 * (color == "red")
        table = pd.DataFrame({"color": color, "color_size": size})
        y = np.where(size > 0.5, "large", "small")
        if kind == "ours":
            pipeline = table_pipeline(table, grown(4))
        else:
            encode = make_column_transformer(
                (OneHotEncoder(), ["color"]), (StandardScaler(), ["color_size"])
            )
            pipeline = make_pipeline(encode, grown(4))
        why = explain(pipeline.fit(table, y), table, y, features=True)
        assert set(why.features) == {"color", "color_size"}
        assert (why.parts.sum(axis=1) == why.squared_margin).all()

    def test_other_models_are_refused(self):
        with pytest.raises(TypeError, match="model is a PCA; explain needs"):
            explain(make_pipeline(StandardScaler(), PCA()).fit(FRAME), FRAME)


def test_transform_names_columns_by_class_and_id():
    model = grown(6).set_output(transform="pandas").fit(FRAME, NAMES)
    columns = model.transform(FRAME).columns.tolist()
    pairs = zip(model.cluster_classes_, model.cluster_ids_, strict=True)
    assert columns == [f"{label}_{number}" for label, number in pairs]
    medoids = DiscriminativeKMedoids(3).fit(FRAME, NAMES)
    assert medoids.get_feature_names_out()[0] == f"setosa_{medoids.medoid_indices_[0]}"
