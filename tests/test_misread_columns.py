"""Columns that are not read as what they are: dates, amounts with a unit, postcodes."""

import json

import numpy as np
import pytest
from commands import run
from hypothesis import given
from hypothesis import strategies as st

import dkmeans
from dkmeans.tables import statistics
from dkmeans.tables.kinds import Kind
from dkmeans.tables.shapes import hints, misread_text
from dkmeans.tables.statistics import LevelColumn, NumberColumn, TableStatistics

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")

DATES = pd.date_range("2019-01-01", periods=40, freq="17D")
N = np.arange(40)


def told_of(texts):
    column = LevelColumn("c")
    column.add(np.array(texts, dtype=object))
    return misread_text(column)


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%y", "%d-%m-%Y %H:%M"]
)
def test_dates_in_other_forms(form):
    texts = [date.strftime(form) for date in DATES]
    assert told_of(texts) == f"text such as {texts[0]!r}: convert it to dates such as 2024-12-31"
    assert told_of(["unknown", *texts]) == told_of(texts)
    assert told_of([*texts, *(f"n{i}" for i in range(10))]) is None


@pytest.mark.parametrize(
    "write", ["{} EUR", "{} %", "{}kg", "$ {}", "{:.2f} €", "-1,{:03d} km/h", "EUR {}", "{} m²"]
)
def test_amounts_with_a_unit(write):
    texts = [write.format(i + 5) for i in N.tolist()]
    assert told_of(texts) == f"text such as {texts[0]!r}: remove the unit, to make it numbers"


@pytest.mark.parametrize(
    "texts",
    [
        [f"A{i}" for i in range(40)],
        [f"{i}{'abcdefgh'[i % 8]}" for i in range(40)],  # numbers of houses
        [f"192.168.0.{i}" for i in range(40)],
        [f"{i}-{i + 40}-1234" for i in range(40)],
        [f"{i + 13}/{i + 13}/2024" for i in range(40)],  # neither can be a month
        [f"{i} Main Street" for i in range(40)],
        ["1 %", "2 %"],
        [],
    ],
)
def test_other_texts_are_not_taken_for_them(texts):
    assert told_of(texts) is None


@given(st.lists(st.text(max_size=12), max_size=20))
def test_any_text_can_be_looked_at(texts):
    assert told_of(texts) is None or "such as" in told_of(texts)


def test_texts_of_many_different_values_are_recognised(monkeypatch):
    monkeypatch.setattr(statistics, "MAX_LEVELS", 20)
    column = LevelColumn("c")
    for part in np.array_split(np.array([f"{i} EUR" for i in range(60)], dtype=object), 4):
        column.add(part)
    assert column.has_too_many
    assert "remove the unit" in misread_text(column)


@pytest.mark.parametrize(
    ("name", "values", "are_codes"),
    [
        ("zip", [10115, 20095], True),
        ("PLZ", [1067, 10115], True),
        ("home_postcode", [2000, 3121], True),
        ("Postal Code", [2000, 3121], True),
        ("product_code", [1001, 2002], True),
        ("plz", [10115.5, 20095], False),
        ("plz", [1, 200], False),  # neither four nor five digits
        ("code", [1001, 123456], False),
        ("barcode", [1001, 2002], False),
        ("salary", [2000, 3121], False),
        ("zipped", [2000, 3121], False),
    ],
)
def test_numbers_that_may_be_codes(name, values, are_codes):
    found = TableStatistics({name: Kind.NUMBER})
    found.add(pd.DataFrame({name: values}))
    assert isinstance(found.numbers[name], NumberColumn)
    assert (name in hints(found.kinds, found)) == are_codes
    assert not hints(found.kinds, found, sure=[name])


@pytest.fixture
def shop(place):
    """A table as spreadsheets write it."""
    frame = pd.DataFrame({"height": np.sin(N), "kind": np.where(np.sin(N) > 0, "a", "b")})
    frame = frame.assign(
        bought=DATES.strftime("%d.%m.%Y"),
        price=[f"{i}.45 EUR" for i in N],
        share=[f"{i % 3} %" for i in N],
        plz=np.where(N % 2, 1067, 10115),
    )
    frame.to_csv(place / "shop.csv", index=False)
    return frame


def test_a_fit_says_what_to_do(shop):
    told = run("fit shop.csv --label kind --max-clusters 3")
    assert "bought (text such as '01.01.2019': convert it to dates such as 2024-12-31)" in told
    assert "price (text such as '0.45 EUR': remove the unit, to make it numbers)" in told
    assert "Column share has text such as '0 %': remove the unit, to make it numbers." in told
    assert "Column plz has numbers that may be codes: if so, add --category plz." in told
    told = run("fit shop.csv --label kind --max-clusters 3 --category plz,share --force")
    assert "Column" not in told
    with pytest.warns(UserWarning, match=r"bought \(text such as '01.01.2019': convert it to date"):
        dkmeans.fit_table("shop.csv", "kind")


def test_columns_without_a_label(shop, place):
    uses = {}
    shop.set_index(pd.Index(N[::-1] ** 2, name="key")).to_parquet(place / "shop.parquet")
    for name in ("shop.csv", "shop.parquet"):
        labelled = json.loads(run(f"columns {name} --label kind --json"))
        found = json.loads(run(f"columns {name} --json"))
        assert found["rows"] == 40
        uses[name] = {column["name"]: column for column in found["columns"]}
        for column in labelled["columns"]:
            if column["name"] != "kind":
                assert uses[name][column["name"]] == column
        assert uses[name]["kind"]["use"] == "feature"
    assert uses["shop.csv"]["plz"]["use"].endswith("if so, add --category plz")
    assert uses["shop.parquet"]["key"]["use"] == "left out: index"
    text = run("columns shop.csv --drop bought,price --category plz")
    assert "40 rows, 4 columns." in text
    assert "plz category 2: " in text
    assert "has no column 'zzz'" in run("columns shop.csv --drop zzz", code=1)
