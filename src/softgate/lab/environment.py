"""What a result depends on besides its settings: versions, processor, source."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent
# The files that decide what a trial computes. The report or the store may change without making old trials stale.
SOURCES = ("acts/*.py", "nn/*.py", "theory.py", "lab/model.py", "lab/train.py", "lab/probes.py", "lab/trials.py")


def source_hash() -> str:
    """SHA-256 (first 16 hex digits) over the source files that decide what a trial computes."""
    sha = hashlib.sha256()
    for path in sorted(p for pattern in SOURCES for p in PACKAGE.glob(pattern)):
        sha.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:16]


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def git_commit() -> str | None:
    """The commit of the checkout that holds this package, with "+" when it has changes; None outside one."""
    if not (PACKAGE.parent.parent / ".git").exists():
        return None
    try:
        commit, changes = (
            subprocess.run(["git", *words], cwd=PACKAGE, capture_output=True, text=True, timeout=10, check=True).stdout
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "."])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return commit.strip()[:12] + ("+" if changes.strip() else "")


def environment(text_hash: str | None) -> dict[str, Any]:
    """Everything a record of a trial says about where it ran; threads is that of a worker."""
    import torch

    return {
        "softgate": metadata.version("softgate"),
        "source": source_hash(),
        "git": git_commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": metadata.version("numpy"),
        "scipy": metadata.version("scipy"),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": 1,
        "text_hash": text_hash,
    }
