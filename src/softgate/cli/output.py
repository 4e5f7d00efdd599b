"""What a command leaves behind: documents and files that are whole at every moment."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import click

from softgate.errors import BadInput, clean

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
        atomic_write_text(target, text)


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 file that readers find whole: the old one or the new one, never a part.

    A link stays a link to the file that is replaced; a pipe or a device (/dev/null) is written to as it is.

    Raises BadInput when the folder is missing or not writable, or the disk is full; an old file then stays as it was.
    """
    fresh: Path | None = None
    try:
        if _is_stream(Path(path)):
            with open(path, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            return
        target = Path(os.path.realpath(path))
        # In the same folder: os.replace is atomic only within one file system.
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
        fresh = Path(name)
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        fresh.chmod(_mode(target))
        os.replace(fresh, target)
    except OSError as error:
        reason = clean(error.strerror or type(error).__name__)
        raise BadInput(f"cannot write {clean(path, 200)}: {reason}; give another path or make room") from error
    finally:
        if fresh is not None:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)


def _is_stream(path: Path) -> bool:
    """Whether something is there that is no file: replacing it would take the pipe or device away."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those open() gives: mkstemp's are for the owner alone."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        # The only way to read the mask is to set it.
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
