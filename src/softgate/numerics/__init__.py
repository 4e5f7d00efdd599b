"""References and error measures: the mpmath oracle, rounded once, and units in the last place."""

from softgate.numerics.oracle import derivatives, gated_derivatives, reference, round_to
from softgate.numerics.ulp import distance, unit

__all__ = ["derivatives", "distance", "gated_derivatives", "reference", "round_to", "unit"]
