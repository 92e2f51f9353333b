"""The experiments of the paper, which `dkmeans reproduce` runs: data, figures and a report."""
