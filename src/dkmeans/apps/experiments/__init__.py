"""The experiments of the paper: data, measurements, figures and the report."""
