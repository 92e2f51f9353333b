"""Model files as commands see them: a classifier, with or without steps before it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dkmeans.cli.errors import InputError, check_exists
from dkmeans.files.scaler import is_scaled
from dkmeans.tables.pipeline import kinds_of_pipeline


@dataclass(frozen=True)
class LoadedModel:
    """A fitted model: `whole` may be a pipeline, whose last step is `core`."""

    whole: Any

    @property
    def core(self) -> Any:
        """The `DiscriminativeKMeans` or `DiscriminativeKMedoids`."""
        return self.whole[-1] if hasattr(self.whole, "steps") else self.whole

    @property
    def is_medoids(self) -> bool:
        """Whether prototypes are rows."""
        return hasattr(self.core, "medoid_indices_")

    @property
    def takes_distances(self) -> bool:
        """Whether rows to predict are distances."""
        return self.is_medoids and self.core.metric == "precomputed"

    @property
    def metric(self) -> str:
        """Name of the metric that compares rows, also if the fit has chosen it."""
        metric = self.core.metric if self.is_medoids else self.core.metric_
        return metric if isinstance(metric, str) else repr(metric)

    @property
    def noun(self) -> str:
        """What a prototype is called."""
        return "medoid" if self.is_medoids else "cluster"

    @property
    def prototype_classes(self) -> Any:
        """Class label of each prototype."""
        return self.core.medoid_classes_ if self.is_medoids else self.core.cluster_classes_

    @property
    def prototype_ids(self) -> Any:
        """Id of each prototype; of medoids, the training row."""
        return self.core.medoid_indices_ if self.is_medoids else self.core.cluster_ids_

    @property
    def prototype_sizes(self) -> Any:
        """Weight of the training rows of each prototype."""
        return self.core.medoid_sizes_ if self.is_medoids else self.core.cluster_sizes_

    @property
    def has_steps(self) -> bool:
        """Whether there are steps before the classifier."""
        return self.core is not self.whole

    @property
    def names(self) -> list[str] | None:
        """Names of its features, if it has them."""
        names = getattr(self.whole, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    @property
    def template(self) -> Any:
        """What labelled rows for the model must be like."""
        from dkmeans.cli.labelled_rows import Template

        n_features = int(getattr(self.whole, "n_features_in_", self.core.n_features_in_))
        text = self.core.classes_.dtype.kind in "UO"
        return Template(self.names, n_features, text, self.kinds)

    @property
    def kinds(self) -> Mapping[str, Any] | None:
        """Kinds of columns that it takes; empty if it takes any, None if it takes numbers."""
        if not self.has_steps or self.names is None or is_scaled(self.whole):
            return None
        return kinds_of_pipeline(self.whole) or {}

    def scaled(self, X: Any) -> Any:
        """Do what comes before the classifier."""
        return self.whole[:-1].transform(X) if self.has_steps else X


def load_model(path: Path) -> LoadedModel:
    """Load a model file."""
    import dkmeans
    from dkmeans.cli.table_input import is_data_file

    check_exists(path)
    if is_data_file(path):
        raise InputError(f"{path.name} is a table, where a model (.dkm) is needed.")
    return LoadedModel(dkmeans.load(path))
