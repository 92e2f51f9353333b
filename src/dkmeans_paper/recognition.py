"""Face recognition with left-out faces, under all readings of the paper."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold

from dkmeans_paper import jobs
from dkmeans_paper.effort import FOLDS
from dkmeans_paper.faces import Faces
from dkmeans_paper.gram import inner_products
from dkmeans_paper.processes import Arrays
from dkmeans_paper.readings import (
    FEW_WEIGHTS,
    REFINED_FOLDS,
    SEEDS,
    K,
    Reading,
    Repulsions,
    Trial,
)
from dkmeans_paper.representations import REPRESENTATIONS
from dkmeans_paper.rounds import Floats, Indices, Repulsion
from dkmeans_paper.study import Study


class Recognition:
    """The face experiment on one set of faces.

    Parameters
    ----------
    study : Study
        Runs the work and stores results.
    faces : Faces
        Pictures.
    """

    def __init__(self, study: Study, faces: Faces) -> None:
        self.study, self.faces, self.y = study, faces, faces.person
        self.n_people = len(faces.names)
        self._grams: dict[str, Floats] = {}
        self._halves: dict[str, list[Trial]] = {}
        self._pairs: dict[str, dict[Repulsion, list[Arrays]]] = {}
        self._refined: dict[tuple[str, str, Repulsion], Trial] = {}

    def gram(self, representation: str) -> Floats:
        """Return the inner products of all faces in a representation."""
        if representation not in self._grams:
            self._grams.clear()  # keep one at a time, to save memory
            rows = REPRESENTATIONS[representation](self.faces.images)
            self._grams[representation] = inner_products(rows)
        return self._grams[representation]

    def ten_folds(self, n_turns: int = FOLDS) -> Indices:
        """Leave out a tenth of each person's faces at a time, in the first of ten turns."""
        fold = np.full(len(self.y), -1, dtype=np.intp)
        split = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(self.y, self.y)
        for number, (_, left_out) in zip(range(n_turns), split, strict=False):
            fold[left_out] = number
        return fold

    def one_by_one(self, queries: int | None) -> Indices:
        """Leave out one face at a time: all faces, or some that are evenly spaced."""
        n = len(self.y)
        fold = np.full(n, -1, dtype=np.intp)
        asked = n if queries is None else min(queries, n)
        which = np.arange(asked) * n // asked
        fold[which] = which
        return fold

    def compute(
        self,
        representation: str,
        title: str,
        job: Callable[..., Arrays],
        settings: list[dict[str, Any]],
        fold: Indices,
    ) -> list[Arrays]:
        """Run jobs of one kind on one representation."""
        asked = fold[fold >= 0]
        how = "leave-one-out" if len(np.unique(asked)) == len(asked) else "10-fold"
        inputs = {"gram": self.gram(representation), "y": self.y, "fold": fold}
        return self.study.compute(f"{representation}, {how}: {title}", job, settings, inputs)

    def nearest_neighbour_error(self, representation: str, fold: Indices) -> float:
        """Compute the error of the nearest-neighbour classifier, for comparison."""
        gram = self.gram(representation)
        asked = np.flatnonzero(fold >= 0)
        distance = np.diagonal(gram) - 2 * gram[asked]
        distance[fold[asked, None] == fold] = np.inf
        return float((self.y[distance.argmin(axis=1)] != self.y[asked]).mean())

    def k_means(
        self, representation: str, fold: Indices, k: int = K, seeds: tuple[int, ...] = SEEDS
    ) -> list[Trial]:
        """Run k-means on each person's faces; one trial per random start."""
        settings = [{"person": p, "k": k, "seed": s} for s in seeds for p in range(self.n_people)]
        title = f"k-means, {k} per person"
        done = self.compute(representation, title, jobs.classwise, settings, fold)
        return [self._by_person(part) for part in _split(done, self.n_people)]

    def half_k_means(self, representation: str, fold: Indices) -> Trial:
        """Run k-means with half as many centres per person, to compare with models of pairs."""
        if representation not in self._halves:
            self._halves = {representation: self.k_means(representation, fold, K // 2, SEEDS[:1])}
        return self._halves[representation][0]

    def _by_person(self, results: list[Arrays]) -> Trial:
        """Merge the models of all people; the sum of squares is that of the person's own model."""
        stacked = {name: np.stack([r[name] for r in results]) for name in results[0]}
        at = np.arange(len(self.y))
        return Trial(stacked["distance"], stacked["person_ssd"][self.y, at], stacked)

    def one_vs_rest(
        self, reading: Reading, representation: str, fold: Indices, repulsions: Repulsions
    ) -> list[Trial]:
        """Grow each person against the rest; one trial per repulsion."""
        n = self.n_people
        settings = [
            {"person": p, "repulsion": w, **reading.limit} for w in repulsions for p in range(n)
        ]
        done = self.compute(representation, reading.title, jobs.one_vs_rest, settings, fold)
        trials = [self._by_person(part) for part in _split(done, n)]
        if "budget" not in reading.limit:
            return trials
        # With a common budget, compare the whole model, not the person's part of it.
        at = np.arange(len(self.y))
        return [Trial(t.distance, t.notes["ssd"][self.y, at], t.notes) for t in trials]

    def joint(
        self, reading: Reading, representation: str, fold: Indices, repulsions: Repulsions
    ) -> list[Trial]:
        """Grow all people together; one trial per repulsion."""
        chunks = _chunks(np.unique(fold[fold >= 0]).tolist())
        budget = self.n_people * reading.limit["budget"] if reading.limit else None
        settings = [
            {"turns": chunk, "repulsion": w, "budget": budget}
            for w in repulsions
            for chunk in chunks
        ]
        done = self.compute(representation, reading.title, jobs.joint, settings, fold)
        trials = []
        for part in _split(done, len(chunks)):
            together = {name: _merge_known([r[name] for r in part]) for name in part[0]}
            trials.append(Trial(together["distance"], together["person_ssd"], together))
        return trials

    def refine(
        self, readings: Sequence[Reading], representations: Sequence[str], fold: Indices
    ) -> None:
        """Grow all people together and refine, in the first folds; keep the trials.

        These jobs are few and long, so those of all representations share the processes.
        """
        turns = np.unique(fold[fold >= 0])[:REFINED_FOLDS].tolist()
        kinds = [(r, name, w) for name in representations for r in readings for w in r.repulsions]
        settings = [
            {
                "representation": name,
                "turn": turn,
                "repulsion": w,
                "growth": reading.growth,
                "budget": self.n_people * reading.limit["budget"],
            }
            for reading, name, w in kinds
            for turn in turns
        ]
        inputs: Arrays = {"images": self.faces.images, "y": self.y, "fold": fold}
        done = self.study.compute("margin refinement", jobs.refined, settings, inputs)
        for (reading, name, w), part in zip(kinds, _split(done, len(turns)), strict=True):
            together = {key: _merge_known([r[key] for r in part]) for key in part[0]}
            trial = Trial(together["distance"], np.full(len(self.y), np.nan), together)
            self._refined[reading.key, name, w] = trial

    def refined(
        self, reading: Reading, representation: str, fold: Indices, repulsions: Repulsions
    ) -> list[Trial]:
        """Return the trials of `refine`, one per repulsion."""
        return [self._refined[reading.key, representation, w] for w in repulsions]

    def nearest_of_pairs(
        self, reading: Reading, representation: str, fold: Indices, repulsions: Repulsions
    ) -> list[Trial]:
        """Grow pairs of people; predict the person with the nearest centre over all models."""
        return self._from_pairs(_nearest_of_pairs, representation, fold, repulsions)

    def most_pairs_won(
        self, reading: Reading, representation: str, fold: Indices, repulsions: Repulsions
    ) -> list[Trial]:
        """Grow pairs of people; predict the person who wins most pairs."""
        return self._from_pairs(_count_votes, representation, fold, repulsions)

    def _from_pairs(
        self,
        combine: Callable[[list[Arrays], int], Floats],
        representation: str,
        fold: Indices,
        repulsions: Repulsions,
    ) -> list[Trial]:
        found = self.pairs(representation, fold)
        nothing = np.full(len(self.y), np.nan)
        return [Trial(combine(found[w], self.n_people), nothing, {}) for w in repulsions]

    def pairs(self, representation: str, fold: Indices) -> dict[Repulsion, list[Arrays]]:
        """Grow every pair of people, for each repulsion, in ten folds."""
        if representation not in self._pairs:
            self._pairs.clear()
            n = self.n_people - 1
            settings = [
                {"person": p, "repulsion": w, "budget": K} for w in FEW_WEIGHTS for p in range(n)
            ]
            title = "two people, 8 in all"
            done = self.compute(representation, title, jobs.pairs, settings, fold)
            self._pairs[representation] = dict(zip(FEW_WEIGHTS, _split(done, n), strict=True))
        return self._pairs[representation]

    def whole_k_means(self, representation: str, fold: Indices) -> Floats:
        """Compute the sums of squares of k-means on all faces that are not left out in each turn.

        There is one random start per chunk of turns: per person, or per fold.
        """
        title = f"k-means, {K} on all faces"
        turns = np.unique(fold[fold >= 0])
        chunks = _chunks(turns.tolist())
        settings = [{"turns": chunk, "k": K, "seed": seed} for seed, chunk in enumerate(chunks)]
        done = self.compute(representation, title, jobs.whole_k_means, settings, fold)
        return _merge_known([r["ssd"] for r in done])


def _chunks(turns: list[int]) -> list[list[int]]:
    """Split turns into chunks: 64 (the faces of a person) for leave-one-out, single folds else."""
    size = 64 if len(turns) > 10 else 1
    return [turns[i : i + size] for i in range(0, len(turns), size)]


def _split(results: list[Arrays], size: int) -> list[list[Arrays]]:
    return [results[i : i + size] for i in range(0, len(results), size)]


def _nearest_of_pairs(results: list[Arrays], n_people: int) -> Floats:
    distance = np.full((n_people, results[0]["distance"].shape[2]), np.inf)
    for person, result in enumerate(results):
        for rival, pair in zip(result["rivals"], result["distance"], strict=True):
            distance[person] = np.minimum(distance[person], pair[0])
            distance[rival] = np.minimum(distance[rival], pair[1])
    return distance


def _count_votes(results: list[Arrays], n_people: int) -> Floats:
    """Count the pairs that a person loses; relative distances break ties."""
    lost = np.zeros((n_people, results[0]["distance"].shape[2]))
    for person, result in enumerate(results):
        for rival, pair in zip(result["rivals"], result["distance"], strict=True):
            with np.errstate(invalid="ignore"):
                share = pair[0] / pair.sum(axis=0)
            share = np.where(np.isinf(pair[0]), 1.0, np.where(np.isinf(pair[1]), 0.0, share))
            lost[person] += (share >= 0.5) + 1e-6 * share
            lost[rival] += (share < 0.5) + 1e-6 * (1 - share)
    return lost


def _merge_known(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Merge arrays: take the first value that is not NaN."""
    merged = arrays[0].copy()
    for array in arrays[1:]:
        merged = np.where(np.isnan(merged), array, merged)
    return merged


def pair_errors(
    recognition: Recognition, representation: str, fold: Indices, repulsion: Repulsion
) -> tuple[float, float]:
    """Compute the error within pairs: of the pair's own model, and of k-means of equal size."""
    y = recognition.y
    done = recognition.pairs(representation, fold)[repulsion]
    rival_model = recognition.half_k_means(representation, fold).distance
    wrong, wrong_k_means, asked = 0, 0, 0
    for person, result in enumerate(done):
        for rival, pair in zip(result["rivals"], result["distance"], strict=True):
            rows = np.flatnonzero(((y == person) | (y == rival)) & (fold >= 0))
            says_rival = pair[1, rows] < pair[0, rows]
            wrong += int((says_rival != (y[rows] == rival)).sum())
            says_rival = rival_model[rival, rows] < rival_model[person, rows]
            wrong_k_means += int((says_rival != (y[rows] == rival)).sum())
            asked += len(rows)
    return wrong / asked, wrong_k_means / asked
