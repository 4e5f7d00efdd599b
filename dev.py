#!/usr/bin/env python3
"""Set up and use this checkout with nothing but Python: `python3 dev.py run|test|check [arguments]`.

run    compare activations (softgate compare, arguments passed on)
test   run the tests (pytest, arguments passed on)
check  ruff, mypy and the links of the documents, then the tests

The first call makes .venv and installs softgate into it; later ones only look at a stamp there.
"""

# An old Python must get as far as the message that says so. Hence the syntax of 3.6: annotations of newer forms are
# quoted, and nothing newer is imported.
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
OLDEST = (3, 11)
EXTRAS = {"run": (), "test": ("test",), "check": ("test", "dev")}
BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: "list[str]", root: str = ROOT, version: "tuple[int, ...]" = tuple(sys.version_info[:3])) -> int:
    """Run one verb and return its exit status."""
    if version < OLDEST:
        shown, oldest = ".".join(map(str, version)), ".".join(map(str, OLDEST))
        say(f"Error: softgate needs Python {oldest} or newer, this is {shown}; try: make run PYTHON=python{oldest}")
        return BAD_INPUT
    if not arguments or arguments[0] not in EXTRAS:
        say((__doc__ or "").strip())
        return 0 if arguments[:1] in (["-h"], ["--help"]) else BAD_INPUT
    verb, rest = arguments[0], arguments[1:]
    try:
        status = set_up(root, EXTRAS[verb])
        if verb == "check" and not status:
            status = check_links(root)
        for command in () if status else commands(verb, rest, root):
            status = call(command, root)
            if status:
                break
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        say(f"Error: {error}")
        return BAD_INPUT
    # A program that a signal ended: as a shell reports it.
    return 128 - status if status < 0 else status


def commands(verb: str, rest: "list[str]", root: str) -> "list[list[str]]":
    """What a verb runs, in order; the first that fails ends it."""
    python = [venv_python(root), "-m"]
    if verb == "run":
        return [[*python, "softgate", "compare", *rest]]
    tests = [*python, "pytest", *rest]
    if verb == "test":
        return [tests]
    return [[*python, "ruff", "check"], [*python, "ruff", "format", "--check"], [*python, "mypy"], tests]


def venv_python(root: str, windows: bool = os.name == "nt") -> str:
    """The interpreter of the environment."""
    return os.path.join(root, ".venv", *(("Scripts", "python.exe") if windows else ("bin", "python")))


def fingerprint(root: str) -> str:
    """What the environment must be made anew for: the packages asked for, and the folder, which it names."""
    sha = hashlib.sha256(root.encode("utf-8", "surrogateescape"))
    for name in ("pyproject.toml", "constraints.txt"):
        with open(os.path.join(root, name), "rb") as file:
            content = file.read()
        sha.update(b"\0%d\0" % len(content) + content)
    return sha.hexdigest()


def read_stamp(path: str) -> "tuple[str, set[str]]":
    """The fingerprint and the extras of the last finished set-up; empty when there is none, or it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            stamp = json.load(file)
        return stamp["fingerprint"], set(stamp["extras"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", set()


def set_up(root: str, extras: "tuple[str, ...]") -> int:
    """Make the environment what the project asks for; does nothing when it is. Returns an exit status.

    Two files in .venv: the stamp is written when everything is installed; "unfinished" is there while something is
    being installed, so that after a kill the next call starts over instead of trusting half an installation.
    """
    folder, python = os.path.join(root, ".venv"), venv_python(root)
    stamp, unfinished = os.path.join(folder, "softgate-stamp.json"), os.path.join(folder, "softgate-unfinished")
    wanted = fingerprint(root)
    found, installed = read_stamp(stamp)
    alive = os.path.exists(python) and not os.path.exists(unfinished)
    if alive and found == wanted and installed.issuperset(extras):
        return 0
    say("setting up .venv; this takes about a minute, once")
    # An environment without a stamp is somebody's own, and is used as it is. It may lack pip, which venv then adds.
    if not alive or (not found and call([python, "-c", "import pip"], root, quiet=True)):
        missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
        if missing:
            package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
            say(f"Error: this Python has no {missing[0]}; on Debian and Ubuntu: apt-get install {package}")
            return BAD_INPUT
        if not alive and os.path.isdir(folder):
            shutil.rmtree(folder)
        os.makedirs(folder, exist_ok=True)
        touch(unfinished)
        status = call([sys.executable, "-m", "venv", folder], root)
        if status:
            say("Error: could not make .venv; the lines above say why")
            return status
        installed = set()
    touch(unfinished)
    if os.path.exists(stamp):
        os.remove(stamp)
    # Extras once installed stay: whoever alternates between `test` and `check` installs once.
    extras = tuple(sorted({*extras, *installed}))
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # pip refuses ".[]".
    project = ".[{}]".format(",".join(extras)) if extras else "."
    status = call([*pip, "-c", "constraints.txt", "-e", project], root)
    if status < 0:
        return status
    # pip that ended by itself has put back what it could not finish.
    os.remove(unfinished)
    if status:
        say("Error: could not install the packages; the lines above say why, and the same command tries again")
        return status
    with open(stamp, "w", encoding="utf-8") as file:
        json.dump({"fingerprint": wanted, "extras": extras}, file)
    return 0


def call(command: "list[str]", root: str, quiet: bool = False) -> int:
    """Run a program in `root` and return its status; on Ctrl-C let it end in its own way, then raise.

    A program never outlives this one: what else ends the wait, such as SIGTERM, ends the program, too.
    """
    interrupted = False
    nowhere = subprocess.DEVNULL if quiet else None
    with subprocess.Popen(command, cwd=root, stdout=nowhere, stderr=nowhere) as process:
        while True:
            # subprocess.call would kill the program a quarter of a second after Ctrl-C, in the middle of its clean-up.
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                interrupted = True
            except BaseException:
                process.terminate()
                raise
    if interrupted:
        raise KeyboardInterrupt
    return status


def check_links(root: str) -> int:
    """Name the broken links of the documents; 1 when there are any."""
    broken = broken_links(root)
    for line in broken:
        say(line)
    return 1 if broken else 0


def broken_links(root: str) -> "list[str]":
    """Links and pictures in the documents that name a file which is not there, one line each."""
    documents = [name for name in sorted(os.listdir(root)) if name.endswith(".md")]
    for folder, _, names in os.walk(os.path.join(root, "docs")):
        documents += [os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(".md")]
    broken = []
    for document in documents:
        with open(os.path.join(root, document), encoding="utf-8") as file:
            text = re.sub(r"^```.*?^```|`[^`\n]*`", "", file.read(), flags=re.DOTALL | re.MULTILINE)
        for pair in re.findall(r"\]\(\s*<?([^)>\s]+)|\b(?:src|href)=\"([^\"]+)\"", text):
            target = "".join(pair)
            path = target.split("#")[0]
            outside = re.match(r"[a-z][a-z0-9+.-]*:|//", target, flags=re.IGNORECASE)
            if path and not outside and not os.path.exists(os.path.join(root, os.path.dirname(document), path)):
                broken.append(f"{document}: no such file: {target}")
    return broken


def touch(path: str) -> None:
    """Make an empty file."""
    with open(path, "w", encoding="utf-8"):
        pass


def end_on_sigterm() -> None:
    """Let SIGTERM, which `make` passes on when it is killed, unwind instead of ending this program on the spot."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def say(text: str) -> None:
    """One message for people; standard output belongs to the program that is run."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    end_on_sigterm()
    sys.exit(main(sys.argv[1:]))
