"""A comparison document as one self-contained HTML page: formats and draws what the document holds, no more."""

from softgate.lab.report.render import render, write

__all__ = ["render", "write"]
