"""`table_pipeline`: from the columns of a table to features, fitted at once or from blocks."""

import datetime
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import grown
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from dkmeans import fit_table, table_pipeline
from dkmeans.tables import AmbiguousColumnError, statistics, to_numbers
from dkmeans.tables.exact_moments import ExactMoments
from dkmeans.tables.kinds import Kind, kinds_of
from dkmeans.tables.pipeline import build_pipeline, fit_preprocessing, kinds_of_pipeline
from dkmeans.tables.statistics import RowSample, TableStatistics

pd = pytest.importorskip("pandas")

FINITE = st.floats(-1e100, 1e100, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-100)


def mixed(n=200, seed=0):
    """A table of all kinds with holes, and its labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    height = rng.normal(1.7, 0.1, n) + 0.2 * y
    height[rng.random(n) < 0.1] = np.nan
    colours = np.array(["red", "green", "blue"])[rng.integers(0, 3, n)].astype(object)
    colours[rng.random(n) < 0.05] = np.nan
    colours[3] = "mauve"
    member = (rng.random(n) < 0.3 + 0.2 * y).astype(object)
    member[rng.random(n) < 0.05] = None
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n) + 300 * y, "D")
    since = pd.Series(since).where(rng.random(n) > 0.05)
    return pd.DataFrame(
        {
            "height": height,
            "visits": rng.integers(0, 30, n) * 3,
            "colour": colours,
            "member": member,
            "since": since,
        }
    ), np.array(["ash", "elm", "oak"])[y]


@given(st.lists(FINITE, min_size=1, max_size=30), st.integers(0, 30), st.integers(0, 3))
def test_moments_are_exact(values, cut, n_more):
    moments = ExactMoments()
    moments.add(np.array(values[:cut]))
    moments.add(np.array(values[cut:]))
    every = [*map(Fraction, values), *[Fraction(values[0])] * n_more]
    mean = sum(every) / len(every)
    variance = sum((value - mean) ** 2 for value in every) / len(every)
    assert moments.mean_and_variance(n_more, values[0]) == (float(mean), float(variance))


def test_moments_of_numbers_far_from_the_origin():
    moments = ExactMoments()
    moments.add(1e15 + np.array([0.0, 1.0, 2.0]))
    assert moments.mean_and_variance() == (1e15 + 1, 2 / 3)


@given(
    st.lists(st.lists(st.sampled_from([-1.5, 0.0, 2.0, 7.25, np.nan]), min_size=2, max_size=2)),
    st.integers(0, 20),
)
def test_medians_of_a_sample_that_has_all_rows(rows, cut):
    X = np.array(rows, dtype=float).reshape(-1, 2)
    sample = RowSample(2)
    sample.add(X[:cut])
    sample.add(X[cut:])
    for column, median in zip(X.T, sample.medians(), strict=True):
        present = column[~np.isnan(column)]
        assert median == np.median(present) if len(present) else np.isnan(median)


def test_sample_of_a_large_table_is_the_same_in_any_order(monkeypatch):
    monkeypatch.setattr(statistics, "MAX_SAMPLE_VALUES", 2000)
    monkeypatch.setattr(statistics, "_MERGED_ROWS", 128)
    rng = np.random.default_rng(0)
    X = rng.normal([0, 10], size=(20_000, 2))
    samples = []
    for order, step in ((np.arange(20_000), 20_000), (rng.permutation(20_000), 777)):
        sample = RowSample(2)
        for start in range(0, 20_000, step):
            sample.add(X[order][start : start + step])
        samples.append(sample.medians())
    np.testing.assert_array_equal(*samples)
    assert np.abs(samples[0] - np.median(X, axis=0)).max() < 0.15


def in_blocks(frame, sizes, estimator=None):
    """Fit the preprocessing to the statistics of blocks."""
    found = TableStatistics(kinds_of(frame))
    starts = np.cumsum([0, *sizes])
    for start, stop in zip(starts, [*starts[1:], len(frame)], strict=True):
        found.add(frame.iloc[start:stop])
    pipeline = build_pipeline(kinds_of(frame), estimator)
    fit_preprocessing(pipeline, found)
    return pipeline


def test_blocks_give_what_fit_gives():
    frame, y = mixed()
    whole = table_pipeline(frame, grown(3)).fit(frame, y)[0]
    parts = in_blocks(frame, [7, 0, 100])[0]
    np.testing.assert_allclose(
        parts.transform(frame), whole.transform(frame), rtol=1e-12, atol=1e-14
    )
    assert parts.get_feature_names_out().tolist() == whole.get_feature_names_out().tolist()
    a, b = (p.named_transformers_["categories"].named_steps["encoder"] for p in (parts, whole))
    assert [list(map(str, c)) for c in a.categories_] == [list(map(str, c)) for c in b.categories_]
    assert [c.tolist() for c in a.infrequent_categories_] == [
        c.tolist() for c in b.infrequent_categories_
    ]
    assert a.get_params() == b.get_params()
    assert parts.feature_names_in_.tolist() == whole.feature_names_in_.tolist()
    for step in ("numbers", "dates"):
        a, b = (p.named_transformers_[step] for p in (parts, whole))
        np.testing.assert_array_equal(a["imputer"].statistics_, b["imputer"].statistics_)
        np.testing.assert_allclose(a["scaler"].scale_, b["scaler"].scale_, rtol=1e-12)
        assert a["scaler"].n_samples_seen_ == b["scaler"].n_samples_seen_


def test_blocks_and_order_do_not_matter():
    frame, _ = mixed()
    expected = in_blocks(frame, [])[0].transform(frame)
    order = np.random.default_rng(1).permutation(len(frame))
    for blocks in ([1, 2, 3], [50, 50, 50]):
        found = in_blocks(frame.iloc[order], blocks)[0].transform(frame)
        np.testing.assert_array_equal(found, expected)


def test_the_pipeline_is_an_ordinary_one():
    frame, y = mixed()
    pipeline = table_pipeline(frame, grown(6))
    assert cross_val_score(clone(pipeline), frame, y, cv=3).mean() > 0.6
    pipeline.fit(frame, y)
    new = frame.head(3).assign(colour=["pink", None, "red"], height=None)
    assert pipeline.predict(new).shape == (3,)
    features = dict(
        zip(pipeline[:-1].get_feature_names_out(), pipeline[0].transform(new).T, strict=True)
    )
    assert features["colour_red"].tolist() == [0, 0, 1]
    assert features["colour_nan"].tolist() == [0, 1, 0]
    assert features["colour_infrequent_sklearn"].tolist() == [0, 0, 0]
    assert kinds_of_pipeline(pipeline) == kinds_of(frame)
    assert kinds_of_pipeline(grown()) is None


def test_polars():
    pl = pytest.importorskip("polars")
    frame, _ = mixed()
    other = pl.DataFrame(
        {
            "height": pl.Series(frame["height"].to_numpy(), nan_to_null=True),
            "visits": frame["visits"].to_numpy(),
            "colour": [c if isinstance(c, str) else None for c in frame["colour"]],
            "member": [None if m is None else bool(m) for m in frame["member"]],
            "since": pl.Series([None if s is pd.NaT else s.date() for s in frame["since"]]),
        }
    )
    assert kinds_of(other) == kinds_of(frame)
    X = table_pipeline(other)[0].fit_transform(other)
    np.testing.assert_array_equal(X, table_pipeline(frame)[0].fit_transform(frame))


@pytest.mark.parametrize("kind", ["mapping", "arrow"])
def test_schemas(kind):
    frame, y = mixed()
    kinds = {
        "height": "number",
        "visits": "number",
        "colour": "category",
        "member": "boolean",
        "since": "date",
    }
    schema = kinds
    if kind == "arrow":
        schema = pytest.importorskip("pyarrow").Schema.from_pandas(frame)
    pipeline = table_pipeline(schema, grown(3))
    assert kinds_of_pipeline(pipeline) == kinds
    assert pipeline.fit(frame, y).n_features_in_ == 5


def test_columns_that_are_no_features_are_left_out():
    frame, _ = mixed()
    n = len(frame)
    more = frame.assign(
        row=np.arange(n)[::-1] + 7,
        customer_id=np.arange(n) * 3 + 1,
        email=[f"{i}@x.org" for i in range(n)],
        note=[f"text {i // 1.5}" for i in range(n)],
        site="A",
        zero=0.0,
        empty=np.nan,
        pair=[(1, 2)] * n,
    )
    with pytest.warns(UserWarning, match="Left out: ") as caught:
        pipeline = table_pipeline(more)
    text = str(caught[0].message)
    assert kinds_of_pipeline(pipeline) == kinds_of(frame)
    for part in (
        "row (counts the rows)",
        "customer_id (a different number in every row)",
        "email (a different text in every row)",
        "note (a different text in most rows)",
        "site, zero (the same value in all rows)",
        "empty (no values)",
        "pair (neither numbers, text, Booleans nor dates)",
    ):
        assert part in text
    assert list(kinds_of_pipeline(table_pipeline(more, columns=["row", "site"]))) == ["row", "site"]
    with pytest.warns(UserWarning, match="counts the rows"):
        table_pipeline(more, drop=["email"], label="site")


def test_text_that_is_never_frequent_is_left_out():
    table = pd.DataFrame({"x": np.arange(400) % 7, "note": [f"n{i // 2}" for i in range(400)]})
    with pytest.warns(UserWarning, match=r"note \(no text is frequent\)"):
        table_pipeline(table)


def test_identifiers_with_more_digits_than_floats_have():
    ids = 10**17 + np.arange(40) * 10**6
    table = pd.DataFrame({"x": np.arange(40) % 7, "tweet_id": ids})
    with pytest.warns(UserWarning, match=r"tweet_id \(a different number in every row\)"):
        assert list(kinds_of_pipeline(table_pipeline(table))) == ["x"]
    with pytest.raises(AmbiguousColumnError, match="'tweet_id' is named like an identifier"):
        table_pipeline(table.assign(tweet_id=ids[::-1]))


def test_identifiers_that_may_be_features_are_refused():
    table = pd.DataFrame({"x": np.arange(40) % 7, "store_id": np.arange(40) % 5})
    with pytest.raises(AmbiguousColumnError, match="'store_id' is named like an identifier"):
        table_pipeline(table)
    kinds = kinds_of_pipeline(
        table_pipeline(table, columns=["x", "store_id"], kinds={"store_id": "category"})
    )
    assert kinds == {"x": Kind.NUMBER, "store_id": Kind.CATEGORY}
    assert list(kinds_of_pipeline(table_pipeline(table, drop=["store_id"]))) == ["x"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"drop": ["heigth"]}, "drop: the table has no column 'heigth'"),
        ({"impute": "zero"}, "impute='zero' is not accepted"),
        ({"kinds": {"visits": "code"}}, "Column 'visits' has the kind 'code'"),
        ({"columns": []}, "The table has no column that can be a feature"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        table_pipeline(mixed()[0], **arguments)


def test_wrong_tables():
    with pytest.raises(TypeError, match="table must be a dataframe"):
        table_pipeline(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="Names of columns must be text"):
        table_pipeline(pd.DataFrame(np.zeros((3, 2))))
    with pytest.raises(ValueError, match="Column 'x' has the value inf"):
        table_pipeline(pd.DataFrame({"x": [1.0, np.inf, 2.0]}))


def test_numbers_of_dates_and_booleans():
    frame = pd.DataFrame(
        {
            "zone": pd.to_datetime(["1970-01-02 02:00+02:00", None], utc=True),
            "day": [datetime.date(1970, 1, 11), None],
            "span": pd.to_timedelta(["36h", None]),
            "flag": pd.array([True, None], dtype="boolean"),
            "whole": pd.array([3, None], dtype="Int64"),
        }
    )
    expected = [[1, 10, 1.5, 1, 3], [np.nan] * 5]
    np.testing.assert_array_equal(to_numbers(frame), expected)
    assert list(kinds_of(frame).values()) == ["date", "date", "date", "boolean", "number"]


def test_fit_table_says_what_to_use_for_a_table_in_memory():
    table, _ = mixed(20)
    with pytest.raises(TypeError, match="path is a DataFrame, but fit_table reads a file"):
        fit_table(table, "colour")
