"""Generalised learning vector quantisation as textbooks have it: a reference to compare with."""

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import pairwise_distances_argmin, pairwise_distances_argmin_min


class GLVQ(ClassifierMixin, BaseEstimator):
    """Move labelled prototypes down the gradient of the GLVQ cost (Sato & Yamada, NIPS 1995).

    With d+ the squared distance of a row to the nearest prototype of its class and d- to the
    nearest of any other class, the cost is the sum over rows of
    sigmoid(steepness * (d+ - d-) / (d+ + d-)). Classes share the prototypes as evenly as they go;
    each starts with its mean and random rows of its own. Plain stochastic gradient descent
    follows, over shuffled mini-batches for a fixed number of epochs, at a learning rate that
    falls linearly to zero. The rate is in units of the mean d+ at the start, so that the scale of
    the data and the number of prototypes do not matter to it.

    The steepness matters most: 1 gives 9 % on the digits at 10 prototypes, 10 gives 5 %. It and
    the rate were picked by held-out error on the digits and a part of letter, in favour of this
    method.
    """

    def __init__(
        self,
        n_prototypes,
        *,
        steepness=10,
        learning_rate=0.1,
        n_epochs=30,
        batch_size=32,
        random_state=0,
    ):
        self.n_prototypes = n_prototypes
        self.steepness = steepness
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X, y):
        """Place the prototypes and descend."""
        rng = np.random.default_rng(self.random_state)
        self.classes_ = np.unique(y)
        W, labels = self._start(X, y, rng)
        near = [pairwise_distances_argmin_min(X[y == c], W[labels == c])[1] for c in self.classes_]
        rate = self.learning_rate * np.mean(np.concatenate(near) ** 2)
        for epoch in range(self.n_epochs):
            order = rng.permutation(len(X))
            for first in range(0, len(X), self.batch_size):
                batch = order[first : first + self.batch_size]
                left = 1 - (epoch + first / len(X)) / self.n_epochs
                # The factor takes the type of X, lest float32 become float64.
                W += X.dtype.type(rate * left) * self._descent(X[batch], y[batch], W, labels)
        self.cluster_centers_, self.cluster_classes_ = W, labels
        return self

    def predict(self, X):
        """Predict the class of the nearest prototype."""
        return self.cluster_classes_[pairwise_distances_argmin(X, self.cluster_centers_)]

    def _start(self, X, y, rng):
        """Give each class its mean, and random rows of its own for the rest of its share."""
        shares = np.full(len(self.classes_), self.n_prototypes // len(self.classes_))
        shares[: self.n_prototypes % len(self.classes_)] += 1
        W, labels = [], []
        for label, share in zip(self.classes_, shares, strict=True):
            rows = X[y == label]
            k = min(int(share), len(rows))
            W += [rows.mean(axis=0, keepdims=True), rng.permutation(rows)[: k - 1]]
            labels += [label] * k
        return np.concatenate(W), np.array(labels)

    def _descent(self, X, y, W, labels):
        """Sum the negative gradients of a batch's costs; one row per prototype."""
        D = (X**2).sum(axis=1)[:, None] - 2 * X @ W.T + (W**2).sum(axis=1)
        same = y[:, None] == labels
        own = np.where(same, D, np.inf).argmin(axis=1)
        other = np.where(same, np.inf, D).argmin(axis=1)
        rows = np.arange(len(X))
        # Rounding may leave a distance a little below zero, and equal rows may leave both at zero.
        d_own, d_other = np.maximum(D[rows, own], 0), np.maximum(D[rows, other], 0)
        total = np.maximum(d_own + d_other, 1e-12)
        cost = expit(self.steepness * (d_own - d_other) / total)
        slope = 4 * self.steepness * cost * (1 - cost) / total
        # How strongly each row (first axis) pulls each prototype (second axis), or pushes it.
        pull = np.zeros_like(D)
        pull[rows, own] = slope * d_other / total
        pull[rows, other] = -slope * d_own / total
        return pull.T @ X - pull.sum(axis=0)[:, None] * W
