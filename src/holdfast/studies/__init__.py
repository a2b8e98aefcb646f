"""Studies: many runs with different settings and seeds, trained, tried and reported together."""

from holdfast.studies.study import Study, StudyRun, load_study, shipped

__all__ = ["Study", "StudyRun", "load_study", "shipped"]
