"""From where on rows are too strange to be of a known class."""

from dkmeans.model.table import Table


class Rejection(Table):
    """One row per prototype, in the order of `cluster_centers_`.

    Attributes
    ----------
    id : int
        Which prototype.
    label : class label
        Its class.
    threshold : float
        Rows that are nearest to it are rejected if they are stranger than this.
    rows : int
        How many held-out rows the threshold comes from.
    rate : float
        Share of rows of known classes that it rejects, in expectation at most; at most what was
        asked for.
    per : str
        Whose rows they were: of this "prototype" alone, of several of its "class", or of several
        classes ("all").
    """

    def _headline(self) -> str:
        return f"Rejection: at most {self.rate.max():.2%} of rows of known classes"
