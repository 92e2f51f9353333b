"""Innermost loop of the full scan, in LLVM code that the optimiser does not find by itself.

The scores of six rows and two vectors of centres stay in registers during the loop over features;
then they are compared with the two smallest scores of each lane so far. Scores are never written to
memory, and the processor spends nearly all its time on multiply-adds.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.extending import intrinsic

ROWS = 6  # ROWS * VECTORS sums take 12 of the 16 vector registers of most processors
VECTORS = 2
ACCUMULATORS = 4  # independent partial sums for the values of a CSR row
UNROLLED_FEATURES = 8  # features per loop iteration
VECTOR_BYTES = 64 if llvm.get_host_cpu_features().get("avx512f") else 32

_types: Any = numba.types
_INDEX = ir.IntType(64)


def lanes(itemsize: int) -> int:
    """Return how many numbers of `itemsize` bytes a vector holds."""
    return VECTOR_BYTES // itemsize


@intrinsic  # type: ignore[untyped-decorator]
def update_two_least(
    typing: Any,
    kind: Any,
    rows: Any,
    d: Any,
    panel: Any,
    offsets: Any,
    number: Any,
    least: Any,
    next_least: Any,
    where: Any,
) -> tuple[Any, Callable[..., Any]]:
    """Score `ROWS` rows against `VECTORS` vectors of centres, and keep the two least per lane.

    All but the first three arguments are addresses.

    Parameters
    ----------
    kind : float
        IN. Only its type matters: that of all numbers.
    rows : address of (ROWS, d) numbers
        IN.
    d : int
        Number of features, at least 1.
    panel : address of (d, VECTORS * lanes) numbers
        IN. Negated centres, feature by feature.
    offsets : address of VECTORS * lanes numbers
        IN. Added to the products.
    number : int
        IN. Number of the first vector of centres.
    least, next_least : addresses of (ROWS, lanes) numbers
        INOUT. Smallest and second smallest score of each lane.
    where : address of (ROWS, lanes) integers of the same size
        INOUT. Number of the vector that holds the smallest score.
    """
    whole, address = _types.intp, _types.uintp
    signature = _types.void(kind, address, whole, address, address, whole, *3 * [address])
    double = kind == _types.float64
    return signature, _DoubleTile() if double else _SingleTile()


@intrinsic  # type: ignore[untyped-decorator]
def update_two_least_sparse(
    typing: Any,
    scale: Any,
    data: Any,
    columns: Any,
    count: Any,
    panel: Any,
    offsets: Any,
    number: Any,
    least: Any,
    next_least: Any,
    where: Any,
) -> tuple[Any, Callable[..., Any]]:
    """Do the same for one row of a CSR matrix with `count` stored values.

    Parameters
    ----------
    scale : float
        IN. Factor of the values.
    data : address of `count` numbers
        IN.
    columns : address of `count` 32-bit integers
        IN. Features of the values.
    """
    whole, address = _types.intp, _types.uintp
    rest = [address, address, whole, *3 * [address]]
    signature = _types.void(scale, address, address, whole, *rest)
    double = scale == _types.float64
    return signature, _DoubleSparse() if double else _SingleSparse()


class _Tile:
    """Generates the code for one type of number."""

    number: Any
    bits: int

    def __call__(self, context: Any, builder: Any, _: Any, args: Any) -> Any:
        """Generate the code at the place of the call."""
        self.builder = builder
        self.integer = ir.IntType(self.bits)
        self.n_lanes = lanes(self.bits // 8)
        self.vector = ir.VectorType(self.number, self.n_lanes)
        self.zeros = ir.Constant(self.vector, [self.number(0.0)] * self.n_lanes)
        self.kind, *factors, offsets, number, least, next_least, where = args
        sums = self.products(*factors)
        # Add the offset last: the error bound assumes a product and one more addition.
        last = [self.load(offsets, self.vector, _INDEX(v)) for v in range(VECTORS)]
        sums = [[builder.fadd(row[v], last[v]) for v in range(VECTORS)] for row in sums]
        self.compare(sums, number, least, next_least, where)
        return context.get_dummy_value()

    def products(self, *factors: Any) -> list[list[Any]]:
        """Sum products over the features; one vector per row and vector of centres."""
        b = self.builder
        rows, d, panel = factors
        scalars = b.inttoptr(rows, self.number.as_pointer())
        row_at = [b.gep(scalars, [b.mul(d, _INDEX(r))]) for r in range(ROWS)]
        even = b.and_(d, _INDEX(-UNROLLED_FEATURES))
        sums = [[self.zeros] * VECTORS for _ in range(ROWS)]
        sums = self.add_products(row_at, panel, _INDEX(0), even, UNROLLED_FEATURES, sums)
        return self.add_products(row_at, panel, even, d, 1, sums)

    def add_products(
        self, row_at: list[Any], panel: Any, start: Any, stop: Any, step: int, sums: list[list[Any]]
    ) -> list[list[Any]]:
        """Add the products of a range of features to the sums, `step` features per iteration."""
        b = self.builder
        before = b.block
        head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        feature = b.phi(_INDEX)
        feature.add_incoming(start, before)
        here = [[b.phi(self.vector) for _ in range(VECTORS)] for _ in range(ROWS)]
        b.cbranch(b.icmp_signed("<", feature, stop), body, after)
        b.position_at_end(body)
        results = [list(row) for row in here]
        for i in range(step):
            now = b.add(feature, _INDEX(i))
            at = b.mul(now, _INDEX(VECTORS))
            centers = [self.load(panel, self.vector, b.add(at, _INDEX(v))) for v in range(VECTORS)]
            for r in range(ROWS):
                value = self.splat(b.load(b.gep(row_at[r], [now])), self.vector)
                for v in range(VECTORS):
                    # "contract" allows a fused multiply-add.
                    term = b.fmul(value, centers[v], flags=("contract",))
                    results[r][v] = b.fadd(term, results[r][v], flags=("contract",))
        for r in range(ROWS):
            for v in range(VECTORS):
                here[r][v].add_incoming(sums[r][v], before)
                here[r][v].add_incoming(results[r][v], body)
        feature.add_incoming(b.add(feature, _INDEX(step)), body)
        b.branch(head)
        b.position_at_end(after)
        return here

    def compare(
        self, sums: list[list[Any]], number: Any, least: Any, next_least: Any, where: Any
    ) -> None:
        """Update the two smallest scores of each lane. NaN compares false and is ignored."""
        b = self.builder
        wholes = ir.VectorType(self.integer, self.n_lanes)
        first = number if self.bits == _INDEX.width else b.trunc(number, self.integer)
        numbers = [self.splat(b.add(first, self.integer(v)), wholes) for v in range(VECTORS)]
        for r in range(len(sums)):
            low = self.load(least, self.vector, _INDEX(r))
            second = self.load(next_least, self.vector, _INDEX(r))
            source = self.load(where, wholes, _INDEX(r))
            for v in range(VECTORS):
                is_less = b.fcmp_ordered("<", sums[r][v], low)
                greater = b.select(is_less, low, sums[r][v])
                second = b.select(b.fcmp_ordered("<", greater, second), greater, second)
                low = b.select(is_less, sums[r][v], low)
                source = b.select(is_less, numbers[v], source)
            for values, address in ((low, least), (second, next_least), (source, where)):
                self.store(values, address, _INDEX(r))

    def load(self, address: Any, kind: Any, index: Any) -> Any:
        """Load a vector with the alignment of its numbers."""
        pointer = self.builder.inttoptr(address, kind.as_pointer())
        value = self.builder.load(self.builder.gep(pointer, [index]))
        value.align = self.bits // 8
        return value

    def store(self, value: Any, address: Any, index: Any) -> None:
        """Store a vector with the alignment of its numbers."""
        pointer = self.builder.inttoptr(address, value.type.as_pointer())
        written = self.builder.store(value, self.builder.gep(pointer, [index]))
        written.align = self.bits // 8

    def splat(self, value: Any, kind: Any) -> Any:
        """Broadcast one number to all lanes."""
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.n_lanes), None)
        return self.builder.shuffle_vector(one, nothing, zeros)


class _SparseTile(_Tile):
    """Generates the code for one row of a CSR matrix."""

    def products(self, *factors: Any) -> list[list[Any]]:
        """Sum products over the stored values, in four interleaved partial sums.

        An addition then need not wait for the previous one.
        """
        b = self.builder
        data, columns, count, panel = factors
        values = b.inttoptr(data, self.number.as_pointer())
        features = b.inttoptr(columns, ir.IntType(32).as_pointer())
        even = b.and_(count, _INDEX(-ACCUMULATORS))
        sums = [[self.zeros] * VECTORS for _ in range(ACCUMULATORS)]
        sums = self.add_stored(values, features, panel, _INDEX(0), even, sums)
        first = self.add_stored(values, features, panel, even, count, sums[:1])
        sums = first + sums[1:]
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [
                [b.fadd(x, y) for x, y in zip(*pair, strict=True)]
                for pair in zip(sums[:half], sums[half:], strict=True)
            ]
        return sums

    def add_stored(
        self, values: Any, features: Any, panel: Any, start: Any, stop: Any, sums: list[list[Any]]
    ) -> list[list[Any]]:
        """Add the products of a range of values to the sums, one value per sum and iteration."""
        b = self.builder
        before = b.block
        head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        at = b.phi(_INDEX)
        at.add_incoming(start, before)
        here = [[b.phi(self.vector) for _ in range(VECTORS)] for _ in sums]
        b.cbranch(b.icmp_signed("<", at, stop), body, after)
        b.position_at_end(body)
        for i, row in enumerate(here):
            now = b.add(at, _INDEX(i))
            feature = b.sext(b.load(b.gep(features, [now])), _INDEX)
            value = self.splat(b.fmul(self.kind, b.load(b.gep(values, [now]))), self.vector)
            for v in range(VECTORS):
                place = b.add(b.mul(feature, _INDEX(VECTORS)), _INDEX(v))
                term = b.fmul(value, self.load(panel, self.vector, place), flags=("contract",))
                row[v].add_incoming(sums[i][v], before)
                row[v].add_incoming(b.fadd(term, row[v], flags=("contract",)), body)
        at.add_incoming(b.add(at, _INDEX(len(sums))), body)
        b.branch(head)
        b.position_at_end(after)
        return here


class _SingleSparse(_SparseTile):
    number, bits = ir.FloatType(), 32


class _DoubleSparse(_SparseTile):
    number, bits = ir.DoubleType(), 64


class _SingleTile(_Tile):
    number, bits = ir.FloatType(), 32


class _DoubleTile(_Tile):
    number, bits = ir.DoubleType(), 64
