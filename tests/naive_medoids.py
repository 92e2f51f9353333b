"""Discriminative k-medoids, slow and obvious: every cost is summed over all rows, every time."""

from dkmeans.medoids import grow
from dkmeans.medoids.grow import CANDIDATES_PER_MEDOID, MAX_STAGE_GROWTH, SWAP_PASSES
from dkmeans.medoids.swaps import BLOCK_ROWS, PROMISING_SHARE

INFINITY = float("inf")


class NaiveMedoids:
    """The search as lists of numbers: `D[x][i]` is the distance from a candidate x to a row i."""

    def __init__(self, D, y, weights):
        self.D = [[float(d) for d in row] for row in D]
        self.y, self.weights = [int(c) for c in y], [int(w) for w in weights]
        self.candidates = [i for i, w in enumerate(self.weights) if w > 0]
        self.largest = max(map(max, self.D))

    def row_cost(self, medoids, i):
        own = min((self.D[m][i] for m in medoids if self.y[m] == self.y[i]), default=INFINITY)
        rival = min((self.D[m][i] for m in medoids if self.y[m] != self.y[i]), default=INFINITY)
        own, rival = own * own, rival * rival
        if INFINITY in (own, rival):
            margin = float((own == INFINITY) - (rival == INFINITY))
        else:
            margin = (own - rival) / (own + rival) if own + rival else 0.0
        return int(min(max(0.5 + 2.5 * margin, 0.0), 1.0) * 2**20 + 0.5)

    def cost(self, medoids):
        return sum(self.weights[i] * self.row_cost(medoids, i) for i in self.candidates)

    def class_medoids(self):
        found = []
        for c in sorted({self.y[i] for i in self.candidates}):
            members = [i for i in self.candidates if self.y[i] == c]
            found.append(min(members, key=lambda x, m=members: (self.spread(x, m), x)))
        return found

    def spread(self, x, members):
        if not self.largest:
            return 0
        return sum(self.weights[i] * round(self.D[x][i] / self.largest * 2**20) for i in members)

    def best_swap(self, medoids, x):
        """Return the change of the cost and the slot."""
        now, best = self.cost(medoids), (0, -1)
        if x in medoids:
            return best
        for slot, m in enumerate(medoids):
            others = medoids[:slot] + medoids[slot + 1 :]
            if self.y[m] not in {self.y[o] for o in [*others, x]}:
                continue
            change = self.cost([*medoids[:slot], x, *medoids[slot + 1 :]]) - now
            if best[1] < 0 or change < best[0]:
                best = change, slot
        return best

    def go_over(self, medoids, candidates):
        swaps, changes = 0, []
        for start in range(0, len(candidates), BLOCK_ROWS):
            block = candidates[start : start + BLOCK_ROWS]
            found = [self.best_swap(medoids, x)[0] for x in block]
            changes += found
            for _, x in sorted((c, x) for c, x in zip(found, block, strict=True) if c < 0):
                change, slot = self.best_swap(medoids, x)
                if change < 0:
                    medoids[slot] = x
                    swaps += 1
        return swaps, changes

    def run_pass(self, medoids, candidates):
        """Return the number of swaps, and whether the candidates at large had any."""
        swaps, changes = self.go_over(medoids, candidates)
        total = more = swaps
        order = sorted(range(len(candidates)), key=lambda at: (changes[at], at))
        promising = sorted(order[: int(PROMISING_SHARE * len(candidates))])
        while more and promising:
            more, _ = self.go_over(medoids, [candidates[at] for at in promising])
            total += more
        return total, swaps == 0 and len(candidates) == len(self.candidates)

    def proposals(self, medoids, candidates, room):
        now, best = self.cost(medoids), {}
        for x in candidates:
            own = [(self.D[m][x], s) for s, m in enumerate(medoids) if self.y[m] == self.y[x]]
            gain = self.cost([*medoids, x]) - now
            slot = min(own)[1]
            best[slot] = min(best.get(slot, (0, 0)), (gain, x))
        want = max(1, int(len(medoids) * (MAX_STAGE_GROWTH - 1)))
        return [x for gain, x in sorted(best.values()) if gain < 0][: min(room, want)]

    def sample_rows(self, limit):
        """Every so many-th row of each class."""
        step = len(self.candidates) // max(grow.MIN_SAMPLE, grow.ROWS_PER_MEDOID * limit)
        if step < 2:
            return None
        classes = {self.y[i] for i in self.candidates}
        return sorted(
            i for c in classes for i in [j for j in self.candidates if self.y[j] == c][::step]
        )

    def fit(self, max_medoids, max_rounds):
        """Return the medoids after each round."""
        limit = len(self.candidates) if max_medoids is None else max_medoids
        rows = self.sample_rows(limit)
        at = self
        if rows is None:
            rows = list(range(len(self.y)))
        else:
            part = [[self.D[i][j] for j in rows] for i in rows]
            at = NaiveMedoids(part, [self.y[i] for i in rows], [self.weights[i] for i in rows])
            at.largest = self.largest
        medoids = at.class_medoids()

        def now():
            return sorted(rows[m] for m in medoids)

        rounds, settled, passes = [now()], False, 0
        while len(rounds) < max_rounds:
            room = limit - len(medoids)
            if at is not self and (settled or not room):
                medoids, at, settled = [rows[m] for m in medoids], self, False
                rows = list(range(len(self.y)))
            some = at.candidates
            if room and not settled:
                step = max(1, len(some) // (CANDIDATES_PER_MEDOID * len(medoids)))
                some = some[len(medoids) % step :: step]
            _, optimal = at.run_pass(medoids, some)
            passes += 1
            added = []
            over = optimal or (room > 0 and not settled and passes >= SWAP_PASSES)
            if over and room > 0:
                added = at.proposals(medoids, some, room)
            rounds.append(now())
            if optimal and not added and at is self:
                break
            if over:
                settled, passes = not added, 0
                if added and len(rounds) < max_rounds:
                    medoids += added
                    rounds.append(now())
        return rounds
