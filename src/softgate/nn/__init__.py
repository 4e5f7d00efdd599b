"""Modules and functions built on the records: activations, feed-forward networks, their initialisation."""

from softgate.nn import functional, init
from softgate.nn.ffn import FFN, hidden_width
from softgate.nn.modules import Activation

__all__ = ["FFN", "Activation", "functional", "hidden_width", "init"]
