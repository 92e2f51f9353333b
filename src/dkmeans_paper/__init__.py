"""Experiments of the paper, run by `dkmeans reproduce`: data, figures and a report."""
