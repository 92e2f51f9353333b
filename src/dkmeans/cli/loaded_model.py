"""Model files as commands see them: a classifier, with or without stored scaling before it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dkmeans.cli.errors import InputError, check_exists


@dataclass(frozen=True)
class Model:
    """A fitted model: `whole` may be a pipeline, whose last step is `core`."""

    whole: Any

    @property
    def core(self) -> Any:
        """The `DiscriminativeKMeans`."""
        return self.whole[-1] if hasattr(self.whole, "steps") else self.whole

    @property
    def is_scaled(self) -> bool:
        """Whether it standardises rows first."""
        return self.core is not self.whole

    @property
    def names(self) -> list[str] | None:
        """Names of its features, if it has them."""
        names = getattr(self.whole, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    @property
    def like(self) -> Any:
        """No rows, but with the features and the kind of label that the model knows."""
        import numpy as np
        import pyarrow as pa

        from dkmeans.cli.rows import Labelled, named

        width = self.core.n_features_in_
        X: Any = np.zeros((0, width))
        if self.names is not None:
            X = named([pa.array([], pa.float64())] * width, self.names)
        return Labelled(X, self.core.classes_[:0], None, [])

    def scaled(self, X: Any) -> Any:
        """Do what comes before the classifier."""
        return self.whole[:-1].transform(X) if self.is_scaled else X


def load_model(path: Path) -> Model:
    """Load a model file."""
    import dkmeans

    check_exists(path)
    if path.suffix.lower() in (".csv", ".tsv", ".parquet", ".feather", ".npz"):
        raise InputError(f"{path.name} is a table, where a model (.dkm) is needed.")
    return Model(dkmeans.load(path))
