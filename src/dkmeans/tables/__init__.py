"""Tables with columns of all kinds: from a dataframe, or from blocks of one, to a pipeline."""

from dkmeans.tables.on_disk import fit_table
from dkmeans.tables.pipeline import table_pipeline
from dkmeans.tables.roles import AmbiguousColumnError
from dkmeans.tables.units import in_original_units
from dkmeans.tables.values import to_levels, to_numbers

__all__ = [
    "AmbiguousColumnError",
    "fit_table",
    "in_original_units",
    "table_pipeline",
    "to_levels",
    "to_numbers",
]
