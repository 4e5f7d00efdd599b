"""What a command leaves behind besides its words: a document."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from softgate.files import atomic_write

STDOUT = "-"


def write_json(document: Any, target: str | os.PathLike[str]) -> None:
    """Write a document as JSON to a file, or, for ``-``, to standard output, where nothing else then belongs.

    Raises ValueError for a number that JSON does not have (NaN, an infinity), BadInput for a file that cannot be
    written.

    >>> write_json({"schema": "softgate.example/1", "loss": 2.5}, "-")
    {
     "schema": "softgate.example/1",
     "loss": 2.5
    }
    """
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    if target == STDOUT:
        click.echo(text, nl=False)
    else:
        atomic_write(target, text)
