"""Sums in feature order, for several rows at once.

The reference adds terms one by one, so each addition waits for the previous one. Here each lane
of a vector holds the sum of one row: the order within a row is kept, and the lanes run in parallel.
"""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

ROWS_AT_ONCE = 8
FEATURES_AT_ONCE = 4  # equal to the rows per vector, so that blocks can be transposed

_types: Any = numba.types
_INDEX = ir.IntType(64)
_DOUBLES = ir.VectorType(ir.DoubleType(), FEATURES_AT_ONCE)


@intrinsic  # type: ignore[untyped-decorator]
def add_squares(
    typing: Any, x: Any, c: Any, rows: Any, points: Any, d: Any, sums: Any
) -> tuple[Any, Callable[..., Any]]:
    """Sum squared differences of `ROWS_AT_ONCE` pairs of rows, each in feature order.

    Parameters
    ----------
    x, c : float
        IN. Only their types matter: those of the numbers of rows and of points.
    rows, points : addresses of ROWS_AT_ONCE addresses of d numbers each
        IN.
    d : int
        Number of features, a multiple of `FEATURES_AT_ONCE`.
    sums : address of ROWS_AT_ONCE numbers of type float64
        OUT.
    """
    whole, address = _types.intp, _types.uintp
    signature = _types.void(x, c, address, address, whole, address)

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        _, _, rows, points, d, sums = args

        def square(x: Any, c: Any) -> Any:
            difference = b.fsub(x, c)
            return b.fmul(difference, difference)

        numbers = [_number(kind) for kind in signature.args[:2]]
        _add_terms(b, list(zip((rows, points), numbers, strict=True)), square, d, sums)
        return context.get_dummy_value()

    return signature, generate


@intrinsic  # type: ignore[untyped-decorator]
def add_products(
    typing: Any, x: Any, rows: Any, middles: Any, directions: Any, d: Any, sums: Any
) -> tuple[Any, Callable[..., Any]]:
    """Sum (row - middle) times direction for `ROWS_AT_ONCE` rows, each in feature order.

    Parameters
    ----------
    x : float
        IN. Only its type matters: that of the numbers of rows.
    rows : address of ROWS_AT_ONCE addresses of d numbers each
        IN.
    middles, directions : addresses of ROWS_AT_ONCE addresses of d numbers of type float64 each
        IN.
    d : int
        Number of features, a multiple of `FEATURES_AT_ONCE`.
    sums : address of ROWS_AT_ONCE numbers of type float64
        OUT.
    """
    whole, address = _types.intp, _types.uintp
    signature = _types.void(x, address, address, address, whole, address)

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        _, rows, middles, directions, d, sums = args

        def product(x: Any, middle: Any, direction: Any) -> Any:
            return b.fmul(b.fsub(x, middle), direction)

        double = ir.DoubleType()
        lists = [(rows, _number(signature.args[0])), (middles, double), (directions, double)]
        _add_terms(b, lists, product, d, sums)
        return context.get_dummy_value()

    return signature, generate


def _number(kind: Any) -> Any:
    return ir.DoubleType() if kind == _types.float64 else ir.FloatType()


def _add_terms(
    b: Any, lists: list[tuple[Any, Any]], term: Callable[..., Any], d: Any, sums: Any
) -> None:
    """Generate a loop over features that sums terms.

    Parameters
    ----------
    b : builder
    lists : list of pairs
        Lists of addresses, and the type of the numbers there.
    term : callable
        Generates the term of one number from each list.
    d, sums : values
    """
    starts = []
    for addresses, number in lists:
        places = b.inttoptr(addresses, _INDEX.as_pointer())
        starts.append(
            [
                b.inttoptr(b.load(b.gep(places, [_INDEX(r)])), number.as_pointer())
                for r in range(ROWS_AT_ONCE)
            ]
        )
    before = b.block
    head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
    b.branch(head)
    b.position_at_end(head)
    feature = b.phi(_INDEX)
    totals = [b.phi(_DOUBLES) for _ in range(ROWS_AT_ONCE // FEATURES_AT_ONCE)]
    feature.add_incoming(_INDEX(0), before)
    b.cbranch(b.icmp_signed("<", feature, d), body, after)
    b.position_at_end(body)
    for i, total in enumerate(totals):
        terms = [
            term(
                *(
                    _load_doubles(b, places[r], feature, number)
                    for places, (_, number) in zip(starts, lists, strict=True)
                )
            )
            for r in range(FEATURES_AT_ONCE * i, FEATURES_AT_ONCE * (i + 1))
        ]
        total.add_incoming(ir.Constant(_DOUBLES, [0.0] * FEATURES_AT_ONCE), before)
        for column in _transpose(b, terms):
            total = b.fadd(total, column)
        totals[i].add_incoming(total, body)
    feature.add_incoming(b.add(feature, _INDEX(FEATURES_AT_ONCE)), body)
    b.branch(head)
    b.position_at_end(after)
    out = b.inttoptr(sums, _DOUBLES.as_pointer())
    for i, total in enumerate(totals):
        b.store(total, b.gep(out, [_INDEX(i)])).align = 8


def _load_doubles(b: Any, start: Any, feature: Any, number: Any) -> Any:
    """Load a vector of numbers as float64."""
    kind = ir.VectorType(number, FEATURES_AT_ONCE)
    value = b.load(b.bitcast(b.gep(start, [feature]), kind.as_pointer()))
    value.align = 8 if isinstance(number, ir.DoubleType) else 4
    return value if isinstance(number, ir.DoubleType) else b.fpext(value, _DOUBLES)


def _transpose(b: Any, rows: list[Any]) -> list[Any]:
    """Transpose a block of four rows and four columns."""

    def mix(x: Any, y: Any, places: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(ir.IntType(32), FEATURES_AT_ONCE), places)
        return b.shuffle_vector(x, y, mask)

    even, odd = [0, 4, 2, 6], [1, 5, 3, 7]
    low, high = [0, 1, 4, 5], [2, 3, 6, 7]
    halves = [[mix(x, y, places) for places in (even, odd)] for x, y in (rows[:2], rows[2:])]
    return [mix(halves[0][i], halves[1][i], places) for places in (low, high) for i in (0, 1)]
