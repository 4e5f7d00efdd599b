"""The error types of softgate. Every message is one line that says what came, what was expected and what to do.

This module imports nothing of softgate, so that anything may raise these errors.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# Terminal sequences go as a whole: without their first byte the rest ("[31m") would stay behind as text.
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
# Cc control, Cf invisible format characters (bidi overrides, zero width), Cs lone surrogates, Zl and Zp line breaks.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def clean(text: object, limit: int = 80) -> str:
    """Text from outside, made safe to show on one line: control characters gone, at most `limit` characters.

    Line breaks and tabs become one space; terminal sequences, bidirectional overrides, zero-width characters and lone
    surrogates are dropped. Text that is too long ends in ``...``, which counts towards `limit`.

    >>> clean("relu\\x1b[31m\\nrelu2")
    'relu relu2'
    >>> clean("a" * 100, limit=8)
    'aaaaa...'
    """
    spaced = re.sub(r"[\t\n\v\f\r\x85\u2028\u2029]+", " ", _ANSI.sub("", str(text)))
    shown = "".join(c for c in spaced if unicodedata.category(c) not in _HIDDEN)
    return shown if len(shown) <= limit else shown[: max(limit - 3, 0)] + "..."[:limit]


class SoftgateError(Exception):
    """Base of every error softgate raises on purpose; the command line prints its text as one line and exits 2."""


class UnknownActivation(SoftgateError, ValueError):  # noqa: N818  (the name is part of the interface)
    """A name that no record has; the message gives names that look like it.

    >>> str(UnknownActivation("gellu", ["gelu", "selu"]))
    "unknown activation 'gellu'; did you mean gelu, selu?"
    >>> str(UnknownActivation("zzz", []))
    "unknown activation 'zzz'; softgate.names() lists those that exist"
    """

    def __init__(self, name: object, near: Sequence[str]) -> None:
        self.name = clean(name)
        self.near = tuple(near)
        hint = f"did you mean {', '.join(self.near)}?" if self.near else "softgate.names() lists those that exist"
        super().__init__(f"unknown activation '{self.name}'; {hint}")

    def __reduce__(self) -> tuple[type[UnknownActivation], tuple[str, tuple[str, ...]]]:
        """Rebuild from the two arguments: the default, from the message alone, would fail between processes."""
        return (UnknownActivation, (self.name, self.near))


class BadInput(SoftgateError, ValueError):  # noqa: N818  (the name is part of the interface)
    """Text, a specification or an option that cannot be used as it came."""


class RecordError(SoftgateError, ValueError):
    """An activation record whose parts contradict each other; raised while it is being made."""


class StudyError(SoftgateError):
    """A study file that cannot be used: locked, corrupt, written by a newer version, or of another specification."""


class TrialError(SoftgateError):
    """A user's trial function that breaks its contract."""
