"""Files that readers find whole: the old one or the new one, never a part."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from softgate.errors import BadInput, clean


def atomic_write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file, text as UTF-8, in one step: whoever reads meanwhile finds the old content or the new.

    A link stays a link to the file that is replaced; a pipe or a device (/dev/null) is written to as it is.

    Raises BadInput when the folder is missing or not writable, or the disk is full; an old file then stays as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    fresh: Path | None = None
    try:
        if _is_stream(Path(path)):
            with open(path, "wb") as stream:
                stream.write(data)
            return
        target = Path(os.path.realpath(path))
        # In the same folder: os.replace is atomic only within one file system.
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
        fresh = Path(name)
        with open(handle, "wb") as file:
            file.write(data)
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
