"""Sums of squares in the order of the features, for several rows side by side.

The reference adds one square after the other, so an addition must wait for the one before it. Here
each lane of a vector holds the sum of another row: the order within a row stays, and the processor
is busy all the same.
"""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

ABREAST = 8  # rows at a time
FEATURES = 4  # at a time: as many as rows share a vector, so that a block can be turned over

_types: Any = numba.types
_INDEX = ir.IntType(64)
_WIDE = ir.VectorType(ir.DoubleType(), FEATURES)


@intrinsic  # type: ignore[untyped-decorator]
def add_squares(
    typing: Any, kind: Any, rows: Any, points: Any, d: Any, sums: Any
) -> tuple[Any, Callable[..., Any]]:
    """Sum up squared differences between `ABREAST` pairs of rows, each in the order of features.

    Parameters
    ----------
    kind : float
        IN. Its type is that of all numbers.
    rows, points : addresses of ABREAST addresses of d numbers each
        IN.
    d : int
        Number of features, a multiple of `FEATURES`.
    sums : address of ABREAST numbers of type float64
        OUT.
    """
    whole, address = _types.intp, _types.uintp
    signature = _types.void(kind, address, address, whole, address)
    return signature, _write


def _write(context: Any, b: Any, signature: Any, args: Any) -> Any:
    """Write the code where it is called for."""
    _, rows, points, d, sums = args
    number = ir.DoubleType() if signature.args[0] == _types.float64 else ir.FloatType()
    lists = [b.inttoptr(address, _INDEX.as_pointer()) for address in (rows, points)]
    starts = [
        [
            b.inttoptr(b.load(b.gep(addresses, [_INDEX(r)])), number.as_pointer())
            for addresses in lists
        ]
        for r in range(ABREAST)
    ]
    before = b.block
    head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
    b.branch(head)
    b.position_at_end(head)
    feature = b.phi(_INDEX)
    totals = [b.phi(_WIDE) for _ in range(ABREAST // FEATURES)]
    feature.add_incoming(_INDEX(0), before)
    b.cbranch(b.icmp_signed("<", feature, d), body, after)
    b.position_at_end(body)
    for i, total in enumerate(totals):
        squares = []
        for pair in starts[FEATURES * i : FEATURES * (i + 1)]:
            x, c = (_four(b, start, feature, number) for start in pair)
            difference = b.fsub(x, c)
            squares.append(b.fmul(difference, difference))
        total.add_incoming(ir.Constant(_WIDE, [0.0] * FEATURES), before)
        for column in _turned(b, squares):
            total = b.fadd(total, column)
        totals[i].add_incoming(total, body)
    feature.add_incoming(b.add(feature, _INDEX(FEATURES)), body)
    b.branch(head)
    b.position_at_end(after)
    out = b.inttoptr(sums, _WIDE.as_pointer())
    for i, total in enumerate(totals):
        b.store(total, b.gep(out, [_INDEX(i)])).align = 8
    return context.get_dummy_value()


def _four(b: Any, start: Any, feature: Any, number: Any) -> Any:
    """Read four numbers, as float64."""
    kind = ir.VectorType(number, FEATURES)
    value = b.load(b.bitcast(b.gep(start, [feature]), kind.as_pointer()))
    value.align = 8 if isinstance(number, ir.DoubleType) else 4
    return value if isinstance(number, ir.DoubleType) else b.fpext(value, _WIDE)


def _turned(b: Any, rows: list[Any]) -> list[Any]:
    """Turn four rows of four into four columns."""

    def mix(x: Any, y: Any, places: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(ir.IntType(32), FEATURES), places)
        return b.shuffle_vector(x, y, mask)

    even, odd = [0, 4, 2, 6], [1, 5, 3, 7]
    low, high = [0, 1, 4, 5], [2, 3, 6, 7]
    halves = [[mix(x, y, places) for places in (even, odd)] for x, y in (rows[:2], rows[2:])]
    return [mix(halves[0][i], halves[1][i], places) for places in (low, high) for i in (0, 1)]
