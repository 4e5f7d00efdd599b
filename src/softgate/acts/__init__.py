"""Activation functions as records: plain ones, gated ones, and their names."""

from softgate.acts.registry import aliases, get, names
from softgate.acts.spec import Activation, GatedActivation

__all__ = ["Activation", "GatedActivation", "aliases", "get", "names"]
