"""softgate info: what this installation is and runs on; the first thing a bug report needs."""

from __future__ import annotations

import os
import re
from importlib import metadata
from typing import Any

import click

from softgate.cli.output import write_json
from softgate.errors import clean

SCHEMA = "softgate.info/1"
LIBRARIES = ("torch", "numpy", "scipy", "numba", "plotly")
# They change how many threads torch, numpy and numba take, and which code path, and so the timings of a comparison.
VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_PROC_BIND",
    "KMP_AFFINITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ATEN_CPU_CAPABILITY",
)


@click.command(short_help="Say what softgate runs on: versions, processor, threads, extras.")
@click.option("--json", "json_file", metavar="FILE", help="Write it as JSON; - for standard output.")
def info(json_file: str | None) -> None:
    """Say what this installation is and runs on: versions, processor, threads, environment, extras."""
    document = facts()
    if json_file is not None:
        write_json(document, json_file)
    if json_file != "-":
        click.echo(_table(document))


def facts() -> dict[str, Any]:
    """The document, schema softgate.info/1; a library or package that is not installed is null."""
    import torch

    from softgate.lab.environment import environment

    # No text is trained on here, and threads are those of this process, not of a worker.
    here = environment(None)
    return {
        "schema": SCHEMA,
        "versions": {
            "softgate": here["softgate"],
            "python": here["python"],
            **{library: version(library) for library in LIBRARIES},
        },
        "source": here["source"],
        "git": here["git"],
        "platform": here["platform"],
        "cpu": {"model": here["cpu"], "cores": os.cpu_count(), "capability": here["cpu_capability"]},
        "threads": torch.get_num_threads(),
        "variables": {name: os.environ.get(name) for name in VARIABLES},
        "extras": extras(metadata.requires("softgate") or []),
    }


def version(package: str) -> str | None:
    """The installed version of a package, or None.

    >>> version("no-such-package-as-this") is None
    True
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def extras(requirements: list[str]) -> dict[str, dict[str, str | None]]:
    """Extra -> package -> installed version or None, from the requirements in the metadata of a distribution.

    >>> extras(["click>=8.1", "no-such-package-as-this<6; extra == 'hf'"])
    {'hf': {'no-such-package-as-this': None}}
    """
    found: dict[str, dict[str, str | None]] = {}
    for requirement in requirements:
        match = re.match(r"([\w.-]+).*;.*\bextra\s*==\s*['\"]([\w.-]+)['\"]", requirement)
        if match is not None:
            package, extra = match.groups()
            found.setdefault(extra, {})[package] = version(package)
    return found


def _table(document: dict[str, Any]) -> str:
    rows: list[tuple[str, str]] = [(name, found or "not installed") for name, found in document["versions"].items()]
    cpu = document["cpu"]
    rows += [
        ("source", f"{document['source']} (git {document['git'] or 'unknown'})"),
        ("platform", document["platform"]),
        ("processor", f"{cpu['model']}, {cpu['cores']} cores, {cpu['capability']}"),
        ("threads", str(document["threads"])),
    ]
    rows += [(name, clean(value)) for name, value in document["variables"].items() if value is not None]
    for extra, packages in document["extras"].items():
        missing = [package for package, found in packages.items() if found is None]
        state = f"missing {', '.join(missing)}; pip install 'softgate[{extra}]'" if missing else "installed"
        rows.append((f"extra {extra}", state))
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)
