"""n-gram models of bytes: what a trained model has to beat, so that a broken run is visible."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from torch import Tensor

from softgate.lab.data import Corpus

_ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3}
_BYTES = 256
# n-grams counted at a time: each needs a machine word on the way.
_CHUNK = 4_000_000


def baselines(corpus: Corpus) -> dict[str, float]:
    """Nats per held-out byte of interpolated n-gram models (Witten-Bell) fitted on the training bytes.

    p(c | h) = (count(hc) + T(h) p(c | h')) / (count(h) + T(h)), T(h) the number of different bytes seen after h, h' the
    context without its first byte; the unigram's p(c | h') is 1/256, and an unseen h leaves p(c | h'). The mean is
    over the held-out bytes that have their whole context. A model that does not pass the bigram is broken; below the
    trigram it has learnt from context.

    >>> from softgate.lab.data import load
    >>> found = baselines(load("topics", context=64))
    >>> found["unigram"] > found["bigram"] > found["trigram"]
    True

    Source: Witten and Bell 1991, method C, interpolated.
    """
    losses = {}
    lower: npt.NDArray[np.float64] = np.full(1, 1 / _BYTES)  # [contexts of the last order * 256], but for the first
    for name, order in _ORDERS.items():
        seen = _counts(corpus.train, order).reshape(-1, _BYTES)  # [contexts, 256]
        asked = _counts(corpus.held_out, order)  # [contexts * 256]
        cells = np.flatnonzero(asked)
        # Only the contexts that are asked for: 256^2 rows of float64 would be 134 MB.
        contexts, row = np.unique(cells // _BYTES, return_inverse=True)
        rows = seen[contexts]
        total, kinds = rows.sum(axis=1, dtype=np.float64), np.count_nonzero(rows, axis=1)
        below = lower[cells % lower.size]
        weight = total + kinds
        with np.errstate(invalid="ignore"):
            p = (rows[row, cells % _BYTES] + kinds[row] * below) / weight[row]
        p = np.where(weight[row] > 0, p, below)
        losses[name] = -math.fsum(asked[cells] * np.log(p)) / int(asked.sum(dtype=np.int64))
        # Every lower cell that the next order can ask for is the tail of a held-out n-gram, so it is among `cells`.
        lower = np.full(asked.size, np.nan)
        lower[cells] = p
    return losses


def _counts(text: Tensor, order: int) -> npt.NDArray[np.int32]:
    """Occurrences of each n-gram, at its bytes read as a number to base 256; text [n] uint8 -> [256^order] int32."""
    data = text.numpy()
    counts = np.zeros(_BYTES**order, dtype=np.int32)
    for start in range(0, len(data) - order + 1, _CHUNK):
        part = data[start : start + _CHUNK + order - 1].astype(np.int64)
        length = len(part) - order + 1
        code = np.zeros(length, dtype=np.int64)
        for i in range(order):
            code = code * _BYTES + part[i : i + length]
        counts += np.bincount(code, minlength=counts.size).astype(np.int32)
    return counts
