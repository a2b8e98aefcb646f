"""The Python API: the functions behind `holdfast record`, `train` and `evaluate`, and trained runs as objects."""
