"""Training rows whose label is in doubt."""

from typing import Any

from dkmeans.model.table import Table


class Suspects(Table):
    """Rows whose label fights their neighbourhood, the most suspicious first.

    Attributes
    ----------
    row : int
        Number of the row, from 0.
    label : class label
        The label it has.
    suggested : class label
        The heaviest of the other classes nearby.
    cluster : int
        Id of its cluster, an entry of `cluster_ids_`.
    score : float
        How much the neighbourhood disputes the label: from 0, amid rows of its class, to 1, amid
        rows of other classes.
    reason : str
        "conflict": identical rows have other labels. "only one of its class". "cell of another
        class". "small foreign cell": its cluster has a weight of up to three rows. "nearer to
        others": none of these. "none": the score is 0.5 or less.
    """

    def plot(self, X: Any, *, image_shape: tuple[int, ...], n: int = 24) -> Any:
        """Draw the first of them as images (matplotlib must be installed).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The training rows.
        image_shape : (height, width) or (height, width, 3)
            How the features make up an image, line by line.
        n : int
            Most images.

        Returns
        -------
        display : SuspectImagesDisplay
            It has the attributes `figure_` and `axes_`.
        """
        from dkmeans.plots.suspects import SuspectImagesDisplay

        return SuspectImagesDisplay.from_suspects(self, X, image_shape=image_shape, n=n).plot()

    def _headline(self) -> str:
        return f"{len(self)} suspect{'s' * (len(self) != 1)}"
