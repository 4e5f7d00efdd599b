"""The rules of the tree that no other tool checks; for every rule, proof that it can fail."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
Check = Callable[[Path], list[str]]

# Imports point to lower ranks. Parts of one rank are alternatives, which know nothing of each other.
RANKS = {
    "errors": 0,
    "files": 1,
    "jit": 1,
    "acts": 2,
    "numerics": 3,
    "kernels": 3,
    "theory": 3,
    "nn": 4,
    "swap": 5,
    "doctor": 5,
    "lab": 5,
    "claims": 6,
    "advise": 7,
    "cli": 8,
    "__main__": 9,
}
LONGEST = 400
# Each takes from a tenth of a second to seconds to load.
HEAVY = ("torch", "numpy", "scipy", "numba", "mpmath", "ray", "plotly", "jinja2")


def sources(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """Every source file of the package as (path within it, syntax tree)."""
    package = root / "src" / "softgate"
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imported(name: str, tree: ast.Module) -> Iterator[str]:
    """The modules a file imports, anywhere in it, as absolute dotted names down to the name imported."""
    package = ["softgate", *name.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = [*above, *((node.module or "").split(".") if node.module else [])]
            yield from (".".join([*module, alias.name]) for alias in node.names)


def import_direction(root: Path) -> list[str]:
    """Parts of the package import only what is below them."""
    problems = []
    for name, tree in sources(root):
        part = name.split("/")[0].removesuffix(".py")
        if part == "__init__":
            continue  # the lazy table of everything
        if part not in RANKS:
            problems.append(f"{name}: '{part}' has no rank")
            continue
        for module in imported(name, tree):
            top, _, rest = module.partition(".")
            other = rest.split(".")[0]
            if top != "softgate" or other == part:
                continue
            if other not in RANKS:
                problems.append(f"{name}: imports {module}, which is no part with a rank")
            elif RANKS[other] >= RANKS[part]:
                problems.append(f"{name}: imports {module}, which is not below it")
    return problems


def file_size(root: Path) -> list[str]:
    """No source file is longer than a reader keeps in mind."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (root / "src").rglob("*.py")}
    return [f"{path.name}: {length} lines" for path, length in lengths.items() if length > LONGEST]


def lean_import(root: Path) -> list[str]:
    """`import softgate` and `softgate --help` load none of the large libraries."""
    problems = []
    for what in ("import softgate", "from softgate.cli import main; main(['--help'])"):
        code = f"import sys; {what}; print(*sorted(set({HEAVY!r}) & set(sys.modules)), sep=' ', file=sys.stderr)"
        environment = os.environ | {"PYTHONPATH": str(root / "src")}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        if done.stderr.strip():
            problems.append(f"{what}: loads {done.stderr.strip()}")
    return problems


def report_computes_nothing(root: Path) -> list[str]:
    """The report formats and draws what the comparison document says."""
    banned = ("numpy", "scipy", "torch", "statistics", "softgate.lab.stats")
    return [
        f"{name}: imports {module}"
        for name, tree in sources(root)
        if name.startswith("lab/report/")
        for module in imported(name, tree)
        if any(f"{module}.".startswith(f"{ban}.") for ban in banned)
    ]


def tables_of_contents(root: Path) -> list[str]:
    """A package's __init__ says what it is and what it offers; the work is elsewhere."""
    return [
        f"{name}, line {node.lineno}: {type(node).__name__}"
        for name, tree in sources(root)
        if name.endswith("/__init__.py") and name != "cli/__init__.py"
        for i, node in enumerate(tree.body)
        if not (
            isinstance(node, ast.Import | ast.ImportFrom)
            or (i == 0 and ast.get_docstring(tree) is not None)
            or (isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"])
        )
    ]


def texts(root: Path) -> Iterator[tuple[str, str]]:
    """Every text file that people write, as (path, text)."""
    paths = [
        path for path in root.iterdir() if path.suffix in {".py", ".md", ".toml", ".txt"} or path.name == "Makefile"
    ]
    for folder in ("src", "tests", "docs", ".ci"):
        paths += [
            p for p in (root / folder).rglob("*") if p.suffix in {".py", ".md", ".json", ".j2", ".css", ".js", ""}
        ]
    for path in sorted(paths):
        if path.is_file():
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def found(root: Path, pattern: str) -> list[str]:
    return [
        f"{name}, line {i}: {match.group()}"
        for name, text in texts(root)
        for i, line in enumerate(text.splitlines(), 1)
        for match in re.finditer(pattern, line)
    ]


# Both patterns are written so that they do not match themselves.
def nothing_left_to_do(root: Path) -> list[str]:
    """What is not done is not noted in the tree."""
    return found(root, r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")


def no_machine_paths(root: Path) -> list[str]:
    """No path of the machine that somebody happened to work on."""
    return found(root, r"(?<![\w.])/(?:work|home|root)[/]")


CHECKS: list[Check] = [
    import_direction,
    file_size,
    lean_import,
    report_computes_nothing,
    tables_of_contents,
    nothing_left_to_do,
    no_machine_paths,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_tree_keeps_the_rule(check: Check) -> None:
    assert check(ROOT) == []


INIT = "src/softgate/__init__.py"
CLI = "src/softgate/cli/__init__.py"
PLANTED: list[tuple[Check, dict[str, str], str]] = [
    (import_direction, {"src/softgate/acts/a.py": "from softgate.nn import FFN"}, "not below"),
    (import_direction, {"src/softgate/theory.py": "import softgate.numerics.ulp"}, "not below"),
    (import_direction, {"src/softgate/lab/a.py": "def f():\n    from ..doctor import b"}, "not below"),
    (import_direction, {"src/softgate/errors.py": "from . import acts"}, "not below"),
    (import_direction, {"src/softgate/nn/a.py": "if x:\n    from softgate import lab"}, "not below"),
    (import_direction, {"src/softgate/nn/a.py": "import softgate"}, "no part"),
    (import_direction, {"src/softgate/extra.py": ""}, "no rank"),
    (file_size, {"src/softgate/a.py": "x = 1\n" * (LONGEST + 1)}, "401 lines"),
    (lean_import, {INIT: "import jinja2", CLI: "main = print"}, "import softgate: loads jinja2"),
    (lean_import, {INIT: "", CLI: "def main(args):\n    import mpmath"}, "loads mpmath"),
    (report_computes_nothing, {"src/softgate/lab/report/a.py": "def f():\n    import numpy.linalg"}, "numpy.linalg"),
    (report_computes_nothing, {"src/softgate/lab/report/a.py": "from softgate.lab import stats"}, "lab.stats"),
    (report_computes_nothing, {"src/softgate/lab/report/a.py": "from ..stats import t"}, "lab.stats.t"),
    (tables_of_contents, {"src/softgate/nn/__init__.py": '"""Doc."""\ndef f(): pass'}, "line 2: FunctionDef"),
    (tables_of_contents, {"src/softgate/nn/__init__.py": "print('loaded')"}, "line 1: Expr"),
    (tables_of_contents, {"src/softgate/nn/__init__.py": '"""Doc."""\nX = 1'}, "line 2: Assign"),
    (nothing_left_to_do, {"src/softgate/a.py": "# TO" + "DO: later"}, "line 1"),
    (nothing_left_to_do, {"docs/a.md": "FIX" + "ME"}, "docs/a.md"),
    (no_machine_paths, {"docs/a.md": "see `/ho" + "me/someone/notes`"}, "docs/a.md"),
    (no_machine_paths, {".ci/run": "cd /ro" + "ot/tree"}, ".ci/run"),
    (no_machine_paths, {"docs/study.json": '"/wo' + 'rk/tree"'}, "docs/study.json"),
]


def plant(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("check", "files", "message"), PLANTED)
def test_rule_can_fail(check: Check, files: dict[str, str], message: str, tmp_path: Path) -> None:
    plant(tmp_path, files)
    problems = check(tmp_path)
    assert len(problems) >= 1
    assert message in problems[0]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_good_tree_passes(check: Check, tmp_path: Path) -> None:
    """The rules fail on the planted faults, not on whatever is planted."""
    files = {
        INIT: "import json",
        CLI: "def main(args): pass",
        "src/softgate/cli/verb.py": "from softgate import acts, lab\nfrom .output import x",
        "src/softgate/errors.py": "b = 1",
        "src/softgate/acts/c.py": "",
        "src/softgate/acts/a.py": "import numpy\nfrom softgate.errors import b\nfrom . import c",
        "src/softgate/nn/__init__.py": '"""Doc."""\nfrom softgate.nn.a import b\n__all__ = ["b"]',
        "src/softgate/lab/report/a.py": "from softgate.lab.statsword import x\nimport plotly",
        "docs/a.md": "https://example.org/home/page, a framework/work/x, mastodon",
    }
    plant(tmp_path, files)
    assert check(tmp_path) == []
