"""The whole algorithm, slow and obvious: the oracle for every kernel and the engine.

Nothing is shared with the package. Sums are exact fractions, distances are plain loops.
"""

import math
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


def squared(x, c):
    total = 0.0
    for a, b in zip(x, c, strict=True):
        difference = float(a) - float(b)
        total = total + difference * difference
    return total


def nearest(X, centers, dtype):
    """Index of the nearest centre of each row, the lowest on a tie."""
    labels = []
    for x in X:
        distances = [distance(x, c, dtype) for c in centers]
        labels.append(distances.index(min(distances)))
    return labels


def mean(X, w, rows):
    """Weighted mean of rows as exact fractions."""
    weight = sum(Fraction(w[i]) for i in rows)
    return [
        sum(Fraction(w[i]) * Fraction(float(X[i][j])) for i in rows) / weight
        for j in range(len(X[0]))
    ]


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


@dataclass
class Group:
    """Rows of one class in one cell (or half of them)."""

    cls: int
    rows: list
    weight: Fraction
    mean: list


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
    def __init__(self, X, y, w, *, repulsion, max_clusters=None, min_size=None, max_iter=300):
        self.X, self.dtype = X, X.dtype.type
        self.w = [1] * len(X) if w is None else list(w)
        self.y, self.conflicts = majority_labels(X, list(y), self.w)
        self.repulsion, self.k = repulsion, max_clusters
        self.min_size, self.max_iter = min_size, max_iter
        self.tree = []  # (parent, class, round born)
        self.active = [i for i in range(len(X)) if self.w[i] > 0]

    # The state: self.protos, and self.labels, which are indices into it.

    def fit(self):
        center = self.cast([float(v) for v in mean(self.X, self.w, self.active)])
        weights = {}
        for i in self.active:
            weights[self.y[i]] = weights.get(self.y[i], 0) + Fraction(self.w[i])
        cls = min(weights, key=lambda c: (-weights[c], c))
        self.tree.append((-1, cls, 0))
        self.protos = [Proto(center, cls, 0)]
        self.labels = nearest(self.X, [center], self.dtype)
        self.round, self.converged, self.cut_short, self.phases = 0, False, False, []

        least, stale = math.inf, 0
        while stale < PATIENCE:
            self.paper_round()
            self.converged = not self.mixed() and self.moved == 0
            if self.over():
                break
            stale = 0 if self.excess() < least else stale + 1
            least = min(least, self.excess())
        for _ in range(3):
            self.freeze()
            self.settle()
            if self.over():
                break
        else:
            self.freeze()
            self.converged = not self.unfinished()
        while self.cut_short and self.room() > 0 and self.round < self.max_iter:
            if not self.fill_round():
                break
        inertia = self.inertia()
        if any(label is None for label in self.labels):
            self.labels = nearest(self.X, [p.center for p in self.protos], self.dtype)
        return Result(
            self.protos, self.labels, self.converged, self.round, inertia, self.tree, self.phases
        )

    # One round of each kind

    def paper_round(self):
        cells = [self.halved(groups) for groups in self.cells()]
        wanted = []  # (cell, group, centre) of mixed cells
        children = []
        for i, groups in enumerate(cells):
            large = [g for g in groups if self.is_large(g)]
            if len({g.cls for g in large}) < 2:
                rows = [r for g in groups for r in g.rows]
                center = self.cast([float(v) for v in mean(self.X, self.w, rows)])
                children.append((i, self.heaviest(groups).cls, center))
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
            first = sorted(rivals, key=lambda ig: (-ig[1].weight, ig[1].cls, self.protos[ig[0]].id))
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
        others = [r for g in groups if g.cls != group.cls for r in g.rows]
        everyone = [r for g in groups for r in g.rows]
        w = self.repulsion
        if w == "size":
            w = float(self.weight(others)) / float(self.weight(everyone))
        m = [float(v) for v in group.mean]
        r = [float(v) for v in mean(self.X, self.w, others)]
        return self.cast([a - w * (b - a) for a, b in zip(m, r, strict=True)])

    def halved(self, groups):
        """Cut the classes of a mixed cell in two if their means coincide."""
        large = [g for g in groups if self.is_large(g)]
        if len({g.cls for g in large}) < 2:
            return groups
        rows = [r for g in large for r in g.rows]
        middle = [float(v) for v in mean(self.X, self.w, rows)]
        apart = max(abs(float(v) - m) for g in large for v, m in zip(g.mean, middle, strict=True))
        cell = self.labels[rows[0]]
        squares = sum(
            Fraction(self.w[r]) * Fraction(squared(self.X[r], self.protos[cell].center))
            for r in rows
        )
        extent = math.sqrt(float(squares) / float(self.weight(rows)))
        eps = float(np.finfo(self.dtype).eps)
        if apart > max(1e-6 * extent, 4 * eps * max(abs(m) for m in middle)):
            return groups
        result = []
        for g in groups:
            if g not in large:
                result.append(g)
                continue
            m = [float(v) for v in g.mean]
            far = min(
                (tuple(map(float, self.X[r])) for r in g.rows), key=lambda x: (-squared(x, m), x)
            )
            sides = ([], [])
            for r in g.rows:
                dot = 0.0
                for x, f, c in zip(self.X[r], far, m, strict=True):
                    dot = dot + (float(x) - c) * (f - c)
                sides[dot > 0].append(r)
            result += [self.group(g.cls, side) for side in sides if side]
        return result

    def freeze(self):
        changed = set()
        while self.unfinished() and not self.over():
            self.freeze_round(changed)

    def freeze_round(self, changed):
        children, claims, unfinished = [], [], self.unfinished()
        for i, groups in enumerate(self.cells()):
            proto = self.protos[i]
            cls, place = proto.cls, tuple(proto.center)
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
            if self.is_large(heaviest) and heaviest.cls != self.protos[i].cls:
                result.add(i)
        return result

    def fill_round(self):
        loose = []
        for i, groups in enumerate(self.cells()):
            for g in groups:
                squares = sum(
                    Fraction(self.w[r]) * Fraction(squared(self.X[r], self.protos[i].center))
                    for r in g.rows
                )
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
                rows = [r for g in groups for r in g.rows]
                center = self.cast([float(v) for v in mean(self.X, self.w, rows)])
                proto = self.protos[i]
                children.append((i, proto.cls, proto.center if proto.id in pinned else center))
            if all(list(c) == list(self.protos[i].center) for i, _, c in children):
                self.converged = not self.unfinished()
                return
            before = (self.protos, self.labels, list(self.tree), self.round, list(self.phases))
            inertia = self.inertia()
            self.advance("settle", children)
            lower = self.inertia() < inertia * (1 - 1e-12) or self.moved == 0
            if not self.mixed() and lower:
                continue
            culprits = set()
            if self.mixed():
                for r in self.active:
                    if self.protos[self.labels[r]].cls != self.y[r]:
                        culprits |= {self.protos[self.labels[r]].id, self.previous[r]}
                culprits &= {p.id for p in self.protos}
            culprits -= pinned
            self.protos, self.labels, self.tree, self.round, self.phases = before
            pinned |= culprits or {p.id for p in self.protos}

    def advance(self, phase, children):
        """Hand out ids, assign rows, drop prototypes that own none."""
        self.round += 1
        self.previous = [
            self.protos[label].id if label is not None else None for label in self.labels
        ]
        kept, new = set(), []
        protos = []
        for i, cls, center in children:
            parent = self.protos[i]
            if cls == parent.cls and parent.id not in kept:
                kept.add(parent.id)
                protos.append(Proto([v + 0.0 for v in center], cls, parent.id))
            else:
                new.append((cls, parent.id, [v + 0.0 for v in center]))
        for cls, parent, center in sorted(new, key=lambda entry: entry[:2]):
            protos.append(Proto(center, cls, len(self.tree)))
            self.tree.append((parent, cls, self.round))
        protos.sort(key=lambda p: (p.cls, p.id))
        labels = nearest(self.X, [p.center for p in protos], self.dtype)
        self.moved = sum(protos[labels[r]].id != self.previous[r] for r in self.active)
        alive = sorted({labels[r] for r in self.active})
        self.labels = [alive.index(label) if label in alive else None for label in labels]
        self.protos = [protos[i] for i in alive]
        self.phases.append((phase, len(self.protos), len(self.mixed()), self.moved))

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
        return Group(cls, rows, self.weight(rows), mean(self.X, self.w, rows))

    def weight(self, rows):
        return sum(Fraction(self.w[r]) for r in rows)

    def is_large(self, group):
        return self.min_size is None or group.weight >= self.min_size

    def heaviest(self, groups):
        return min(groups, key=lambda g: (not self.is_large(g), -g.weight, g.cls))

    def mixed(self):
        return [
            i
            for i, groups in enumerate(self.cells())
            if len({g.cls for g in groups if self.is_large(g)}) > 1
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
                * Fraction(squared(self.X[r], self.protos[self.labels[r]].center))
                for r in self.active
            )
        )

    def room(self):
        return math.inf if self.k is None else self.k - len(self.protos)

    def over(self):
        return self.converged or self.room() <= 0 or self.round >= self.max_iter

    def cast(self, center):
        return [float(self.dtype(v)) for v in center]
