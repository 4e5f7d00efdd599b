"""The lab: controlled, paired comparisons of activations, from training to the report."""

from softgate.lab import stats
from softgate.lab.study import Study, Watch, compare, load

__all__ = ["Study", "Watch", "compare", "load", "stats"]
