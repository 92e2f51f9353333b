"""The whole algorithm, slow and obvious: the oracle for every kernel and for growth.

Nothing is shared with the package. Sums are exact fractions, distances are plain loops.
"""

import math
import struct
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

PATIENCE = 10


def distance(x, c, dtype):
    """Reference: squares summed in order in float64, the root rounded to the type of X."""
    total = 0.0
    for a, b in zip(x, c, strict=True):
        difference = float(a) - float(b)
        total = total + difference * difference
    return float(dtype(math.sqrt(total)))


def unit_vector(vector, dtype):
    """Scale to length one, unless it is that long to rounding, or zero."""
    values = [float(v) for v in vector]
    exponent = math.frexp(max(abs(v) for v in values))[1]
    scaled = [math.ldexp(v, -exponent) for v in values]
    total = 0.0
    for v in scaled:
        total = total + v * v
    length = math.sqrt(total)
    if length > 0 and abs(math.ldexp(length, exponent) - 1) > 4 * float(np.finfo(dtype).eps):
        values = [v / length for v in scaled]
    return [float(dtype(v)) for v in values]


def squared(x, c):
    total = 0.0
    for a, b in zip(x, c, strict=True):
        difference = float(a) - float(b)
        total = total + difference * difference
    return total


def stable(x, c):
    """Squared distance without the bits that depend on the order of its terms."""
    return rounded(squared(x, c), 46 - (len(c) + 3).bit_length())


def rounded(value, bits=36):
    """To so many bits; costs that tie but for rounding do tie in 36."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)


def nearest(X, centers, dtype):
    """Index of the nearest centre of each row, the lowest on a tie."""
    labels = []
    for x in X:
        distances = [distance(x, c, dtype) for c in centers]
        labels.append(distances.index(min(distances)))
    return labels


def mean_of(groups):
    """Weighted mean of groups as exact fractions."""
    weight = sum(g.weight for g in groups)
    return [sum(column) / weight for column in zip(*(g.sums for g in groups), strict=True)]


def majority_labels(X, y, w):
    """Give identical rows the label of their heaviest class, the lowest on a tie."""
    groups = {}
    for i, x in enumerate(X):
        if w[i] > 0:
            groups.setdefault(tuple(float(v) + 0.0 for v in x), []).append(i)
    labels, conflicts = list(y), []
    for rows in groups.values():
        weights = {}
        for i in rows:
            weights[y[i]] = weights.get(y[i], 0) + Fraction(w[i])
        if len(weights) > 1:
            conflicts.append(rows)
        winner = min(weights, key=lambda c: (-weights[c], c))
        for i in rows:
            labels[i] = winner
    return labels, conflicts


@dataclass
class Proto:
    center: list
    cls: int
    id: int
    parent: int = -1  # the prototype it was in the round before


@dataclass
class Group:
    """Rows of one class in one cell (or half of them), and earlier rows that are remembered."""

    cls: int
    rows: list
    weight: Fraction
    sums: list
    old: bool = False

    @property
    def mean(self):
        return mean_of([self])


@dataclass
class Result:
    protos: list
    labels: list
    converged: bool
    rounds: int
    inertia: float
    tree: list
    phases: list = field(default_factory=list)


class Naive:
    def __init__(
        self,
        X,
        y,
        w,
        *,
        repulsion,
        max_clusters=None,
        min_size=None,
        max_iter=300,
        unit=False,
    ):
        self.X, self.dtype, self.unit = X, X.dtype.type, unit
        if unit:
            self.X = np.array([unit_vector(x, self.dtype) for x in X], dtype=X.dtype)
        self.w = [1] * len(X) if w is None else list(w)
        self.y, self.conflicts = majority_labels(self.X, list(y), self.w)
        self.repulsion, self.k = repulsion, max_clusters
        self.min_size, self.max_iter = min_size, max_iter
        self.tree = []  # (parent, class, round born)
        self.others = False  # whether the rows are others than in the last round
        self.active = [i for i in range(len(X)) if self.w[i] > 0]

    # The state: self.protos, and self.labels, which are indices into it.

    def begin(self):
        everything = self.group(0, self.active)
        center = self.cast([float(v) for v in everything.mean])
        weights = {}
        for i in self.active:
            weights[self.y[i]] = weights.get(self.y[i], 0) + Fraction(self.w[i])
        cls = min(weights, key=lambda c: (-weights[c], c))
        self.tree.append((-1, cls, 0))
        self.protos = [Proto(center, cls, 0)]
        self.labels = nearest(self.X, [center], self.dtype)

    def fit(self):
        self.begin()
        self.round, self.converged, self.cut_short, self.phases = 0, False, False, []

        self.grow()
        for _ in range(3):
            self.freeze()
            self.settle()
            if self.over():
                break
        else:
            self.freeze()
            self.converged = not self.unfinished()
        self.fill()
        while self.restore_round():
            self.fill()
        inertia = self.inertia()
        if any(label is None for label in self.labels):
            self.labels = nearest(self.X, [p.center for p in self.protos], self.dtype)
        return Result(
            self.protos, self.labels, self.converged, self.round, inertia, self.tree, self.phases
        )

    # One round of each kind

    def grow(self):
        least, stale = math.inf, 0
        while stale < PATIENCE:
            self.paper_round()
            self.converged = not self.mixed() and self.moved == 0
            if self.over():
                break
            stale = 0 if self.excess() < least else stale + 1
            least = min(least, self.excess())

    def paper_round(self):
        cells = [self.halved(i, groups) for i, groups in enumerate(self.cells())]
        wanted = []  # (cell, group, centre) of mixed cells
        children = []
        for i, groups in enumerate(cells):
            large = [g for g in groups if self.is_large(g)]
            if len({g.cls for g in large}) < 2 or self.is_still(i):
                cls, center = self.heaviest(groups).cls, self.cast(map(float, mean_of(groups)))
                if self.is_still(i):
                    cls, center = self.protos[i].cls, self.protos[i].center
                children.append((i, cls, center))
            else:
                wanted += [(i, g) for g in large]
        keepers = []
        for i in sorted({i for i, _ in wanted}):
            own = [g for j, g in wanted if j == i and g.cls == self.protos[i].cls]
            mine = own or [g for j, g in wanted if j == i]
            keepers.append((i, min(mine, key=lambda g: (-g.weight, g.cls, mine.index(g)))))
        rivals = [(i, g) for i, g in wanted if not any(g is h for _, h in keepers)]
        room = math.inf if self.k is None else self.k - len(self.protos)
        if len(rivals) > room:
            self.cut_short = True
            there = {p.cls for p in self.protos}
            first = sorted(
                rivals,
                key=lambda ig: (
                    ig[1].cls in there,
                    -ig[1].weight,
                    ig[1].cls,
                    self.protos[ig[0]].id,
                ),
            )
            served = first[: int(room)]
            rivals = [ig for ig in rivals if any(ig[1] is g for _, g in served)]
        for i, g in keepers + rivals:
            alone = sum(j == i for j, _ in keepers + rivals) == 1
            if alone and g.cls != self.protos[i].cls:
                children.append((i, self.protos[i].cls, self.protos[i].center))
            else:
                children.append((i, g.cls, self.repelled(cells[i], g)))
        self.advance("grow", children)

    def repelled(self, groups, group):
        others = [g for g in groups if g.cls != group.cls]
        w = self.repulsion
        if w == "size":
            w = float(sum(g.weight for g in others)) / float(sum(g.weight for g in groups))
        m, r = ([float(v) for v in mean_of(part)] for part in ([group], others))
        return self.cast([a - w * (b - a) for a, b in zip(m, r, strict=True)])

    def halved(self, i, groups):
        """Cut the classes of a mixed cell in two if their means coincide."""
        large = [g for g in groups if self.is_large(g)]
        if len({g.cls for g in large}) < 2:
            return groups
        middle, *means = (
            [float(v) for v in mean_of(part)] for part in (large, *([g] for g in large))
        )
        if self.unit:
            middle, *means = (unit_vector(m, float) for m in (middle, *means))
        apart = max(abs(v - m) for mean in means for v, m in zip(mean, middle, strict=True))
        squares = sum(self.squares_of(i, g) for g in large)
        extent = math.sqrt(float(squares) / float(sum(g.weight for g in large)))
        eps = float(np.finfo(self.dtype).eps)
        if apart > max(1e-6 * extent, 4 * eps * max(abs(m) for m in middle)):
            return groups
        result = []
        for g in groups:
            if g not in large or g.old:
                result.append(g)
                continue
            result += self.sides(g)
        return result

    def sides(self, g):
        """Cut a group in two across the direction to its farthest row."""
        m = [float(v) for v in g.mean]
        far = min((tuple(map(float, self.X[r])) for r in g.rows), key=lambda x: (-squared(x, m), x))
        sides = ([], [])
        for r in g.rows:
            dot = 0.0
            for x, f, c in zip(self.X[r], far, m, strict=True):
                dot = dot + (float(x) - c) * (f - c)
            sides[dot > 0].append(r)
        return [self.group(g.cls, side) for side in sides if side]

    def freeze(self):
        changed = set()
        while self.unfinished() and not self.over():
            self.freeze_round(changed)

    def freeze_round(self, changed):
        children, claims, unfinished = [], [], self.unfinished()
        for i, groups in enumerate(self.cells()):
            proto = self.protos[i]
            cls, place = proto.cls, (tuple(proto.center), proto.cls)
            large = [g for g in groups if self.is_large(g)]
            if i in unfinished and len({g.cls for g in large}) < 2 and place not in changed:
                cls = self.heaviest(groups).cls
            elif i in unfinished:
                for g in large:
                    if g.cls == proto.cls:
                        continue
                    away = [r for r in g.rows if squared(self.X[r], proto.center) > 0]
                    if away:
                        m = [float(v) for v in g.mean]
                        rows = (tuple(map(float, self.X[r])) for r in away)
                        x = min(rows, key=lambda x: (squared(x, m), x))
                        claims.append((-g.weight, g.cls, proto.id, i, list(x)))
                    elif place not in changed:
                        cls = g.cls
            children.append((i, cls, proto.center))
            if cls != proto.cls:
                changed.add(place)
        self.add(children, claims)
        self.advance("freeze", children)

    def unfinished(self):
        result = set(self.mixed())
        for i, groups in enumerate(self.cells()):
            heaviest = self.heaviest(groups)
            other = self.is_large(heaviest) and heaviest.cls != self.protos[i].cls
            if other and not self.is_still(i):
                result.add(i)
        return result

    def fill(self):
        while self.cut_short and self.room() > 0 and self.round < self.max_iter:
            if not self.fill_round():
                break

    def fill_round(self):
        loose = []
        for i, groups in enumerate(self.cells()):
            for g in groups:
                squares = self.squares_of(i, g)
                loose.append((-float(squares), i, g.cls, g))
        loose.sort(key=lambda entry: entry[:3])
        claims = []
        for _, i, _, g in loose:
            c = self.protos[i].center
            away = [r for r in g.rows if squared(self.X[r], c) > 0]
            if away and len(claims) < self.room():
                rows = (tuple(map(float, self.X[r])) for r in away)
                x = min(rows, key=lambda x: (-squared(x, c), x))
                claims.append((-g.weight, g.cls, self.protos[i].id, i, list(x)))
        if not claims:
            return False
        children = [(i, p.cls, p.center) for i, p in enumerate(self.protos)]
        self.add(children, claims)
        self.advance("fill", children)
        self.converged = False
        return True

    def restore_round(self):
        """Put a prototype on a row of each class that has none."""
        cells = self.cells()
        everything = {}  # groups by class, the heaviest first
        for i, groups in enumerate(cells):
            for g in groups:
                everything.setdefault(g.cls, []).append((-g.weight, self.protos[i].id, i, g))
        classes, claims = [p.cls for p in self.protos], []
        for cls in sorted(everything.keys() - set(classes)):
            weight = -sum(w for w, *_ in everything[cls])
            if self.min_size is not None and weight < self.min_size:
                continue
            on_centers, away = [], []
            for *_, i, g in sorted(everything[cls], key=lambda entry: entry[:2]):
                on_centers += [i] if g.rows else []
                c, m = self.protos[i].center, [float(v) for v in g.mean]
                rows = [tuple(map(float, self.X[r])) for r in g.rows if squared(self.X[r], c) > 0]
                if rows:
                    away.append((i, cls, list(min(rows, key=lambda x: (squared(x, m), x)))))
            if away:
                claims.append(away[0])
            elif on_centers:
                classes[on_centers[0]] = cls
        if not claims and classes == [p.cls for p in self.protos]:
            return False
        own = [
            sum(g.weight for g in groups if g.cls == classes[i]) for i, groups in enumerate(cells)
        ]
        left = list(range(len(classes)))
        for i in sorted(left, key=lambda i: own[i]):
            several = sum(classes[j] == classes[i] for j in left) > 1
            if len(claims) > (math.inf if self.k is None else self.k - len(left)) and several:
                left.remove(i)
        self.advance("restore", [(i, classes[i], self.protos[i].center) for i in left] + claims)
        self.converged = self.converged and not self.unfinished()
        return True

    def add(self, children, claims):
        claims.sort(key=lambda claim: claim[:3])
        if len(claims) > self.room():
            self.cut_short = True
            claims = claims[: int(self.room())]
        children += [(i, cls, x) for _, cls, _, i, x in claims]

    def settle(self):
        pinned = set()
        while not self.mixed() and not self.over():
            children = []
            for i, groups in enumerate(self.cells()):
                proto = self.protos[i]
                stays = proto.id in pinned or self.is_still(i)
                center = proto.center if stays else self.cast(map(float, mean_of(groups)))
                children.append((i, proto.cls, center))
            if all(list(c) == list(self.protos[i].center) for i, _, c in children):
                self.converged = not self.unfinished()
                return
            before, cost = self.snapshot(), self.cost()
            self.advance("settle", children)
            lower = self.cost() < cost * (1 - 1e-12) or self.moved == 0
            if not self.mixed() and lower:
                continue
            culprits = set()
            if self.mixed():
                for r in self.active:
                    if self.protos[self.labels[r]].cls != self.y[r]:
                        culprits |= {self.protos[self.labels[r]].id, self.previous[r]}
                culprits &= {p.id for p in self.protos}
            culprits -= pinned
            vars(self).update(before)
            pinned |= culprits or {p.id for p in self.protos}

    def advance(self, phase, children):
        """Hand out ids, assign rows, drop prototypes that own none."""
        self.round += 1
        self.previous = [
            self.protos[label].id if label is not None else None for label in self.labels
        ]
        if self.others:  # all of these rows are where they were at the start
            self.previous, self.others = [0] * len(self.X), False
        kept, new = set(), []
        protos = []
        for i, cls, center in children:
            parent = self.protos[i]
            if cls == parent.cls and parent.id not in kept:
                kept.add(parent.id)
                protos.append(Proto([v + 0.0 for v in center], cls, parent.id, parent.id))
            else:
                new.append((cls, parent.id, [v + 0.0 for v in center]))
        for cls, parent, center in sorted(new, key=lambda entry: entry[:2]):
            protos.append(Proto(center, cls, len(self.tree), parent))
            self.tree.append((parent, cls, self.round))
        protos.sort(key=lambda p: (p.cls, p.id))
        labels = nearest(self.X, [p.center for p in protos], self.dtype)
        self.moved = sum(protos[labels[r]].id != self.previous[r] for r in self.active)
        self.hand_down(children, protos)
        alive = sorted({labels[r] for r in self.active} | self.remembered(protos))
        self.labels = [alive.index(label) if label in alive else None for label in labels]
        self.protos = [protos[i] for i in alive]
        self.phases.append((phase, len(self.protos), len(self.mixed()), self.moved))

    def hand_down(self, children, protos):
        """Pass on what is remembered of earlier rows; here there is none."""

    def remembered(self, protos):
        """Indices of prototypes that earlier rows speak for."""
        return set()

    # Questions about the state

    def cells(self):
        cells = []
        for i in range(len(self.protos)):
            rows = {}
            for r in self.active:
                if self.labels[r] == i:
                    rows.setdefault(self.y[r], []).append(r)
            cells.append([self.group(cls, rows[cls]) for cls in sorted(rows)])
        return cells

    def group(self, cls, rows):
        weight = sum(Fraction(self.w[r]) for r in rows)
        columns = range(self.X.shape[1])
        sums = [
            sum(Fraction(self.w[r]) * Fraction(float(self.X[r][j])) for r in rows) for j in columns
        ]
        return Group(cls, rows, weight, sums)

    def squares_of(self, i, group):
        """Weighted squared distances of a group's rows to the centre of its cell."""
        center = self.protos[i].center
        return sum(Fraction(self.w[r]) * Fraction(stable(self.X[r], center)) for r in group.rows)

    def is_still(self, i):
        """Whether nothing has changed in a cell since an earlier fit."""
        return False

    def snapshot(self):
        """What a trial may change and has to be put back."""
        names = ("protos", "labels", "round")
        lists = ("tree", "phases")
        return {n: getattr(self, n) for n in names} | {n: list(getattr(self, n)) for n in lists}

    def cost(self):
        return self.inertia()

    def is_large(self, group):
        return self.min_size is None or group.weight >= self.min_size

    def heaviest(self, groups):
        return min(groups, key=lambda g: (not self.is_large(g), -g.weight, g.cls))

    def mixed(self):
        return [
            i
            for i, groups in enumerate(self.cells())
            if len({g.cls for g in groups if self.is_large(g)}) > 1 and not self.is_still(i)
        ]

    def excess(self):
        total = Fraction(0)
        for groups in self.cells():
            weights = [g.weight for g in groups if self.is_large(g)]
            total += sum(weights) - max(weights, default=0)
        return total

    def inertia(self):
        return float(
            sum(
                Fraction(self.w[r])
                * Fraction(stable(self.X[r], self.protos[self.labels[r]].center))
                for r in self.active
            )
        )

    def room(self):
        return math.inf if self.k is None else self.k - len(self.protos)

    def over(self):
        return self.converged or self.room() <= 0 or self.round >= self.max_iter

    def cast(self, center):
        if self.unit:
            return unit_vector(list(center), self.dtype)
        return [float(self.dtype(v)) for v in center]

    def remembers(self):
        """Weight and sums of each prototype's rows of each class."""
        cells = zip(self.protos, self.cells(), strict=True)
        return {(p.id, g.cls): (g.weight, g.sums) for p, groups in cells for g in groups}


def margins(X, y, rows, centers, classes, dtype):
    """Own and rival prototype, both squared distances, and the winner, of each row."""
    found = {}
    for r in rows:
        if y[r] not in classes:
            continue
        sides = []
        for mine in (True, False):
            distances = {
                i: distance(X[r], c, dtype)
                for i, c in enumerate(centers)
                if (classes[i] == y[r]) == mine
            }
            best = min(distances, key=lambda i: (distances[i], i))
            sides.append((best, distances[best], stable(X[r], centers[best])))
        (own, d_own, near), (rival, d_rival, far) = sides
        winner = min((d_own, own), (d_rival, rival))[1]
        found[r] = (own, rival, near, far, winner)
    return found


def relative(near, far):
    return (near - far) / (near + far) if near + far > 0 else 0.0


def scramble(z):
    """The last step of splitmix64, a bijection of 64 bits."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def sampling_hash(x, largest, salt):
    """Hash the values of a row, in units of a power of two near the largest of each column."""
    golden, total = 0x9E3779B97F4A7C15, 0
    for j, (value, most) in enumerate(zip(x, largest, strict=True)):
        if abs(float(value)) > 2.0**-480:
            (bits,) = struct.unpack("<Q", struct.pack("<d", float(value)))
            bits = (bits - (math.frexp(most)[1] << 52)) % 2**64
            bits = (bits ^ (bits >> 32)) * (scramble((j + 1) * golden % 2**64) | 1) % 2**64
            bits = (bits ^ (bits >> 32)) * 0xD6E8FEB86659FD93 % 2**64
            total += bits ^ (bits >> 32)
    return scramble(total % 2**64 ^ (salt + 1) * golden % 2**64)


def robust_cost(near, far, gap, slope, variance, n_features, least):
    """Cost of a row, averaged over noise of a variance in each feature."""
    sums = max(near + far + 2 * n_features * variance, least)
    root = math.sqrt(sums**2 + math.pi / 2 * variance * slope**2 * gap)
    return 1 / (1 + math.exp(-slope * (near - far) / root))


class NaiveRefinement:
    """Descent on the robust margin cost; Euclidean.

    `batches` holds, for each pass, the batch of each row; `n_more` is how many numbers are learned
    beside the centres.
    """

    def __init__(self, X, y, w, centers, classes, batches, dtype, n_more=0):
        self.X, self.y, self.w, self.classes = X, y, w, classes
        self.active = [r for r in range(len(y)) if w[r] > 0]
        self.batches, self.dtype = batches, dtype
        self.weight = math.fsum(w[r] for r in self.active)
        k, d = np.shape(centers)
        self.d = d
        rows = np.array([X[r] for r in self.active], dtype=float)
        weights = np.array([w[r] for r in self.active])
        middle = (rows * weights[:, None]).sum(axis=0) / self.weight
        self.spread = (np.square(rows - middle).sum(axis=1) * weights).sum() / self.weight
        self.low = rows.min(axis=0) - np.ptp(rows, axis=0) / 2
        self.high = rows.max(axis=0) + np.ptp(rows, axis=0) / 2
        self.least = 1e-4 * self.spread
        found = self.margins(centers, self.active)
        own = {r: found[r][0] for r in found}
        scatter = 0.0
        for i in set(own.values()):
            cell = [r for r in own if own[r] == i]
            mean = np.average([X[r] for r in cell], axis=0, weights=[w[r] for r in cell])
            scatter += math.fsum(w[r] * squared(X[r], mean) for r in cell) / self.weight
        n_distinct = len({tuple(row) for row in rows.tolist()})
        noise = 0.5 * min(1, (k * d + n_more) / (0.4 * n_distinct))
        self.variance = noise**2 * scatter / d

    def margins(self, centers, rows):
        stored = [[float(self.dtype(v)) for v in c] for c in centers]
        return margins(self.X, self.y, rows, stored, self.classes, self.dtype)

    def cost(self, centers, rows, slope):
        """Sum of the costs of some rows, over the weight of all; without prototype it is 1."""
        found, total = self.margins(centers, rows), 0.0
        for r in rows:
            cost = 1.0
            if r in found:
                own, rival, near, far, _ = found[r]
                gap = squared(centers[own], centers[rival])
                about = slope, self.variance, self.d, self.least
                cost = robust_cost(near, far, gap, *about)
            total += self.w[r] * cost
        return total / self.weight

    def gradient(self, centers, rows, slope):
        result = np.zeros(np.shape(centers))
        for r, (own, rival, near, far, _) in self.margins(centers, rows).items():
            x, w_own, w_rival = (
                np.array(v, dtype=float) for v in (self.X[r], centers[own], centers[rival])
            )
            gap = squared(w_own, w_rival)
            f = robust_cost(near, far, gap, slope, self.variance, self.d, self.least)
            sums = max(near + far + 2 * self.d * self.variance, self.least)
            tau = math.pi / 2 * self.variance * slope**2
            root = math.sqrt(sums**2 + tau * gap)
            g = self.w[r] * slope * f * (1 - f)
            by_near = g * (1 / root - (near - far) * sums / root**3)
            by_far = g * (-1 / root - (near - far) * sums / root**3)
            by_gap = -g * (near - far) * tau / (2 * root**3)
            result[own] += by_near * (w_own - x) + by_gap * (w_own - w_rival)
            result[rival] += by_far * (w_rival - x) + by_gap * (w_rival - w_own)
        return result / self.weight

    def run(self, centers, n_batches):
        """Yield the cost that the rows have seen in each pass, and the centres after it."""
        place = np.array(centers, dtype=float)
        good, mean, size, steps = place.copy(), np.zeros_like(place), np.zeros(len(place)), 0
        n_steps = len(self.batches) * n_batches
        for batch_of in self.batches:
            cost, won = 0.0, set()
            for batch in range(n_batches):
                rows = [r for r in self.active if batch_of[r] == batch]
                stored = place.astype(self.dtype).astype(float)
                share = steps / n_steps
                gradient = self.gradient(stored, rows, 10 + share * 30)
                cost += self.cost(stored, rows, 40)
                winners = {w for *_, w in self.margins(stored, rows).values()}
                won |= winners
                good[list(winners)] = place[list(winners)]
                steps += 1
                mean = 0.9 * mean + 0.1 * gradient
                size = 0.99 * size + 0.01 * np.square(gradient).mean(axis=1)
                scale = np.sqrt(size / (1 - 0.99**steps))
                scale[scale == 0] = np.inf
                step = mean / (1 - 0.9**steps) / scale[:, None]
                length = 0.3 * math.sqrt(self.spread / self.d) * (1 - share)
                place = np.clip(place - length * step, self.low, self.high)
            idle = [i for i in range(len(place)) if i not in won]
            place[idle], mean[idle] = good[idle], 0.0
            yield cost, place.astype(self.dtype)


class NaiveBest(Naive):
    """Growth that makes the most of a budget."""

    per_prototype, sample_rows = 12, 8192  # rows of a sample
    least_sample, per_class = 1024, 200  # if it is a quarter of the rows
    on_sample = False
    checks = None  # rows that tell whether a stage gains, and their weights; None for all

    def grow(self):
        (groups,) = self.cells()
        large = [g for g in groups if self.is_large(g)] or [self.heaviest(groups)]
        means = [(0, g.cls, self.cast(map(float, g.mean))) for g in large]
        noisy, whole = False, (self.active, self.w, self.min_size, self.k, self.max_iter)
        n_classes, drawn = len({cls for _, cls, _ in means}), False
        if self.k is not None and n_classes > 1:
            size = min(max(self.sample_rows // self.per_prototype, len(means)), self.k)
            enough = max(self.least_sample, self.per_class * n_classes)
            drawn = self.draw(size, means)
            while not drawn and size // 2 > len(means) and self.per_prototype * size > enough:
                size //= 2
                drawn = self.draw(size, means)
        while drawn:
            self.k, self.max_iter, self.on_sample = size, self.max_iter - 1, True
            if self.round:
                means = self.settled_on_more(means, noisy)
            noisy = self.stages("sample", means, noisy)
            means = [(i, p.cls, p.center) for i, p in enumerate(self.protos)]
            self.active, self.w, self.min_size, self.k, self.max_iter = whole
            self.checks, self.others, self.on_sample = None, True, False
            if size == self.k:
                break
            size = min(2 * size, self.k)
            drawn = self.draw(size, means)
        if self.round:
            means = self.settled_on_more(means, noisy)
        self.stages("grow", means, noisy)

    def settled_on_more(self, children, noisy):
        return self.settled_warily(children, 2) if noisy else self.settled(children, 6, 1.5)

    def draw(self, size, means):
        """Keep only a sample of the rows, unless it would be most of them, or rounds are over."""
        if self.round >= self.max_iter - 1:
            return False
        largest = [max(abs(float(v)) for v in column) for column in self.X[self.active].T]
        hashes = {r: Fraction(sampling_hash(self.X[r], largest, 1), 2**64) for r in self.active}

        def distinct(share, cls=None):
            those = {hashes[r] for r in self.active if cls is None or self.y[r] == cls}
            return sum(h < share for h in those)

        wanted, most = max(self.sample_rows, self.per_prototype * size), Fraction(1, 4)
        shares = [Fraction(m, 2**e) for e in range(64, 3, -1) for m in range(8, 16)]
        enough = [s for s in shares if s <= most and distinct(s) >= wanted]
        n_classes = len({cls for _, cls, _ in means})
        least = max(self.least_sample, self.per_prototype * size, self.per_class * n_classes)
        if not enough and distinct(most) < least:
            return False
        share, taken = (enough or [most])[0], {}
        for cls in {self.y[r] for r in self.active}:
            taken[cls] = share
            while taken[cls] < 1 and distinct(taken[cls], cls) < self.per_prototype:
                taken[cls] = min(Fraction(1), 2 * taken[cls])
        n_drawn = sum(distinct(t, cls) for cls, t in taken.items())
        n_about = sum(
            distinct(share, cls) / share if t == share else distinct(1, cls)
            for cls, t in taken.items()
        )
        if n_drawn > 0.75 * n_about:
            return False
        checks = [(r, self.w[r]) for r in self.active if hashes[r] >= 1 - share / 2]
        self.checks = checks or None
        self.active = [r for r in self.active if hashes[r] < taken[self.y[r]]]
        self.w = [
            w * float(share / taken[cls]) if cls in taken else w
            for w, cls in zip(self.w, self.y, strict=True)
        ]
        if self.min_size is not None:
            self.min_size = self.min_size * float(share)
        self.others = True
        return True

    def stages(self, phase, children, noisy):
        self.advance(phase, self.revived(children))
        least, stale = math.inf, 0
        while stale < 5 and self.round < self.max_iter:
            if self.room() <= 0 or (self.k is None and not self.mixed()):
                break
            if len({p.cls for p in self.protos}) < 2:
                break
            cost = self.margin_cost([(0, p.cls, p.center) for p in self.protos])
            children = self.stage()
            if children is None:
                break
            if self.k is not None and (noisy or not self.margin_cost(children) < (1 - 1e-9) * cost):
                wary = self.stage(wary=True)
                limit = (1 - 1e-9) * self.margin_cost(children)
                if wary is not None and self.margin_cost(wary) < limit:
                    children, noisy = wary, True
            children = self.revived(children)
            before = len(self.protos)
            self.advance(phase, children)
            gained = self.excess() < least or len(self.protos) > before
            stale = 0 if gained else stale + 1
            least = min(least, self.excess())
        return noisy

    def stage(self, wary=False):
        children = self.split(wary)
        if children is None:
            return None
        last = self.k is not None and len(children) >= self.k and not self.on_sample
        if not wary:
            return self.settled(children, 30 if last else 3)
        return self.without_harmful(self.settled_warily(children, 10 if last else 3))

    def margins_of(self, children, rows=None):
        classes, centers = [cls for _, cls, _ in children], [c for *_, c in children]
        rows = self.active if rows is None else rows
        return margins(self.X, self.y, rows, centers, classes, self.dtype)

    def margin_cost(self, children):
        weights = dict(self.checks or [(r, self.w[r]) for r in self.active])
        paid = sum(
            Fraction(weights[r]) * Fraction(1 / (1 + math.exp(40 * relative(near, far))))
            for r, (_, _, near, far, _) in self.margins_of(children, weights).items()
        )
        return 1 - float(paid / sum(map(Fraction, weights.values())))

    def settled_warily(self, children, times):
        for _ in range(times):
            shares = {}
            for r, (own, _, near, far, _) in self.margins_of(children).items():
                share = Fraction(round(64 / (1 + math.exp(5 * relative(near, far)))), 64)
                if share:
                    shares.setdefault(own, []).append((r, share * Fraction(self.w[r])))
            moved = []
            for i, (p, cls, c) in enumerate(children):
                if i in shares:
                    total = sum(w for _, w in shares[i])
                    columns = range(self.X.shape[1])
                    rows = [(w, [Fraction(float(v)) for v in self.X[r]]) for r, w in shares[i]]
                    c = self.cast(float(sum(w * x[j] for w, x in rows) / total) for j in columns)
                moved.append((p, cls, c))
            if moved == children:
                break
            children = moved
        return children

    def without_harmful(self, children):
        cells = [{} for _ in children]
        for r, (*_, winner) in self.margins_of(children).items():
            cells[winner][self.y[r]] = cells[winner].get(self.y[r], 0) + Fraction(self.w[r])
        harm = []
        for (_, cls, _), cell in zip(children, cells, strict=True):
            other = max((w for c, w in cell.items() if c != cls), default=0)
            harm.append(other - cell.get(cls, 0))
        harmful = [i for i, h in enumerate(harm) if h >= 0]
        for cls in {cls for _, cls, _ in children}:
            mine = [i for i, (_, c, _) in enumerate(children) if c == cls]
            if set(mine) <= set(harmful):
                harmful = [i for i in harmful if i not in mine]
        most = (len(children) - len(self.protos)) // 2
        gone = sorted(harmful, key=lambda i: (-rounded(float(harm[i])), i))[:most]
        return [child for i, child in enumerate(children) if i not in gone]

    def split(self, wary=False):
        centers, classes = [p.center for p in self.protos], [p.cls for p in self.protos]
        found = margins(self.X, self.y, self.active, centers, classes, self.dtype)
        cost, loses = [0.0] * len(centers), set()
        for i in range(len(centers)):
            terms = []
            for r, (own, _, near, far, winner) in found.items():
                if own == i:
                    f = 1 / (1 + math.exp(-5 * relative(near, far)))
                    terms.append(self.w[r] * (f * (1 - f) if wary else f))
                    if classes[winner] != classes[i]:
                        loses.add(i)
            cost[i] = math.fsum(terms)
        rows = self.own_rows(centers, classes)
        if wary:  # rows that their class loses take no part where there are others
            for i, mine in rows.items():
                won = [r for r in mine if classes[found[r][4]] == classes[i]]
                rows[i] = won or mine
        eligible = [i for i in rows if cost[i] > 0 and (self.k is not None or i in loses)]
        want = int(min(self.room(), max(1, int(len(centers) * (1.6 - 1)))))
        queue = sorted(eligible, key=lambda i: (-rounded(cost[i]), i))[: 2 * want]
        halves = {}
        for i in queue:
            sides = self.sides(self.group(classes[i], rows[i]))
            if len(sides) == 2 and all(self.is_large(g) for g in sides):
                halves[i] = sides
        chosen = [i for i in queue if i in halves][:want]
        if not chosen:
            return None
        self.cut_short = self.k is not None
        children = []
        for i in sorted(rows):
            parts = halves[i] if i in chosen else [self.group(classes[i], rows[i])]
            children += [
                (half, (i, classes[i], self.cast(map(float, g.mean))))
                for half, g in enumerate(parts)
            ]
        children.sort(key=lambda child: (child[1][1], child[0], child[1][0]))
        return [child for _, child in children]

    def own_rows(self, centers, classes):
        """Rows of each prototype when every row goes to the nearest of its class."""
        rows = {}
        for r in self.active:
            mine = [i for i in range(len(centers)) if classes[i] == self.y[r]]
            if mine:
                best = min(mine, key=lambda i: (distance(self.X[r], centers[i], self.dtype), i))
                rows.setdefault(best, []).append(r)
        return rows

    def settled(self, children, times, step=1.0):
        for time in range(times):
            rows = self.own_rows([c for *_, c in children], [cls for _, cls, _ in children])
            moved = []
            for i, (p, cls, c) in enumerate(children):
                if i in rows:
                    mean = [float(v) for v in self.group(cls, rows[i]).mean]
                    if time < times - 1 and step != 1:
                        pairs = zip(mean, map(float, c), strict=True)
                        mean = [here + step * (m - here) for m, here in pairs]
                    c = self.cast(mean)
                moved.append((p, cls, c))
            if moved == children:
                break
            children = moved
        return children

    def revived(self, children):
        classes, centers = [cls for _, cls, _ in children], [c for *_, c in children]
        if len(set(classes)) < 2:
            return children
        found = margins(self.X, self.y, self.active, centers, classes, self.dtype)
        wins = {winner for *_, winner in found.values()}
        lost = [i for i in range(len(children)) if i not in wins]
        for cls in set(classes):
            mine = [i for i in lost if classes[i] == cls]
            places = {}
            for r, (_, _, near, far, _) in found.items():
                if self.y[r] == cls and near > 0 and far > 0:
                    places[tuple(float(v) + 0.0 for v in self.X[r])] = relative(near, far)
            # Rows that tie with the last that is needed are ordered by value.
            order = sorted(places, key=lambda x: (-places[x], x))
            for i, place in zip(mine, order, strict=False):
                children[i] = (children[i][0], cls, list(place))
        return children


class NaiveContinued(Naive):
    """The same with new rows only, earlier ones being remembered.

    `memory` maps (id, class) to the weight and the sums of earlier rows.
    """

    def __init__(self, X, y, w, *, protos, memory, tree, **options):
        super().__init__(X, y, w, **options)
        self.protos, self.memory, self.tree = protos, dict(memory), list(tree)
        self.start = {p.id: list(p.center) for p in protos}

    def begin(self):
        self.labels = nearest(self.X, [p.center for p in self.protos], self.dtype)
        self.y = list(self.y)
        yielding = {}
        for r in self.active:
            proto = self.protos[self.labels[r]]
            if squared(self.X[r], proto.center) == 0 and self.y[r] != proto.cls:
                yielding.setdefault((self.labels[r], self.y[r]), []).append(r)
        for (i, cls), rows in yielding.items():
            proto = self.protos[i]
            old = self.memory.get((proto.id, proto.cls), (0, None))[0]
            if (-old, proto.cls) < (-sum(Fraction(self.w[r]) for r in rows), cls):
                for r in rows:
                    self.y[r] = proto.cls
                self.conflicts.append(rows)
        self.drop_unspoken_for()

    def drop_unspoken_for(self):
        alive = sorted({self.labels[r] for r in self.active} | self.remembered(self.protos))
        self.labels = [alive.index(label) if label in alive else None for label in self.labels]
        self.protos = [self.protos[i] for i in alive]

    def remembered(self, protos):
        owners = {i for i, _ in self.memory}
        return {i for i, p in enumerate(protos) if p.id in owners}

    def is_still(self, i):
        proto = self.protos[i]
        in_place = self.start.get(proto.id) == list(proto.center)
        has_rows = any(self.labels[r] == i for r in self.active)
        return not has_rows and (in_place or (proto.id, proto.cls) not in self.memory)

    def cells(self):
        cells = super().cells()
        for i, groups in enumerate(cells):
            proto = self.protos[i]
            has_own = (proto.id, proto.cls) in self.memory
            for (owner, cls), (weight, sums) in self.memory.items():
                if owner != proto.id:
                    continue
                met = [g for g in groups if g.cls == cls and g.rows]
                if not (met or cls == proto.cls or not (has_own or any(g.rows for g in groups))):
                    continue
                if met:
                    group = met[0]
                    group.weight += weight
                    group.sums = [a + b for a, b in zip(group.sums, sums, strict=True)]
                    group.old = True
                else:
                    groups.append(Group(cls, [], weight, list(sums), old=True))
            groups.sort(key=lambda g: g.cls)
        return cells

    def squares_of(self, i, group):
        squares = super().squares_of(i, group)
        entry = self.memory.get((self.protos[i].id, group.cls))
        return squares + (self.old_squares(i, entry) if entry and group.old else 0)

    def old_squares(self, i, entry):
        weight, sums = float(entry[0]), [float(v) for v in entry[1]]
        return Fraction(weight * squared([v / weight for v in sums], self.protos[i].center))

    def cost(self):
        groups = ((i, g) for i, groups in enumerate(self.cells()) for g in groups)
        return float(sum(self.squares_of(i, g) for i, g in groups))

    def snapshot(self):
        return super().snapshot() | {"memory": dict(self.memory)}

    def hand_down(self, children, protos):
        """To the child of its class, else to the prototype itself, else to its first child."""
        memory = {}
        for (owner, cls), (weight, sums) in self.memory.items():
            mine = [p for p in protos if p.parent == owner]
            heirs = [p for p in mine if p.cls == cls] or [p for p in mine if p.id == owner]
            classes = [c for i, c, _ in children if self.protos[i].id == owner]
            heirs = heirs or [p for p in mine if p.cls == classes[0]]
            heir = min(heirs, key=lambda p: (p.id != owner, p.id)).id
            before = memory.get((heir, cls), (0, [0] * len(sums)))
            added = [a + b for a, b in zip(before[1], sums, strict=True)]
            memory[heir, cls] = (before[0] + weight, added)
        self.memory = memory

    def remembers(self):
        """What all rows so far leave behind."""
        now = dict(self.memory)
        for proto, groups in zip(self.protos, self.cells(), strict=True):
            now |= {(proto.id, g.cls): (g.weight, g.sums) for g in groups}
        return now
