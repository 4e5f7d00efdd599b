"""softgate compare: train the same model with each activation and say what differs."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

import click

from softgate.cli.output import write_json


@click.command(short_help="Train the same model with each activation and say, with an interval, what differs.")
@click.argument("arms", nargs=-1)
@click.option(
    "--text",
    default="stdlib",
    show_default=True,
    metavar="PATH|NAME",
    help="A file or folder of text, or stdlib, topics, shakespeare, torch.",
)
@click.option("--budget", metavar="TIME", help="Wall time to plan for: 90s, 4m, 2h. [default: 3m]")
@click.option(
    "--study", metavar="DIR", help="Folder of the study. [default: softgate-studies/, named after the settings]"
)
@click.option("--preset", help="Model: tiny, small or base. [default: tiny, from a budget of 10m small]")
@click.option("--baseline", metavar="ARM", help="The arm that the others are compared with. [default: the first]")
@click.option("--steps", type=int, help="Training steps of a final run; overrides the plan.")
@click.option("--seeds", type=int, help="Pairs of runs an arm; overrides the plan.")
@click.option("--lr", type=float, help="One learning rate for every arm; no pilot.")
@click.option("--workers", type=int, help="Single-threaded worker processes. [default: one a core]")
@click.option(
    "--margin",
    type=float,
    default=0.01,
    show_default=True,
    help="Differences below this count as equivalent, in the unit of the loss.",
)
@click.option("--d-model", type=int, help="Width of the model.")
@click.option("--layers", type=int, help="Blocks of the model.")
@click.option("--heads", type=int, help="Attention heads.")
@click.option("--context", type=int, help="Bytes a window.")
@click.option("--norm", type=click.Choice(["layer", "rms"]), help="LayerNorm or RMSNorm.")
@click.option("--positions", type=click.Choice(["learned", "rotary"]), help="Position embedding.")
@click.option(
    "--init", type=click.Choice(["0.02", "he", "xavier", "own"]), help="Initialisation of the linear weights."
)
@click.option("--dropout", type=float, help="Dropout in attention, FFN and residual branches.")
@click.option(
    "--residual-scale/--no-residual-scale", default=None, help="Divide residual projections by sqrt(2 layers)."
)
@click.option(
    "--trial", metavar="MODULE:FUNCTION", help="Your own function (arm, seed, steps, report) -> {'loss': ...}."
)
@click.option("--dry-run", is_flag=True, help="Measure speed, print the plan, train nothing.")
@click.option("--json", "json_file", metavar="FILE", help="Write the comparison as JSON; - for standard output.")
def compare(arms: tuple[str, ...], dry_run: bool, json_file: str | None, **options: Any) -> int:
    """Train the same model with each of ARMS under equal conditions; say, with an interval, what differs.

    ARMS are activation names (softgate show lists one); the first is the baseline. Default: relu gelu swiglu.
    A killed run is finished by the same command.
    """
    from softgate.cli.progress import progress
    from softgate.lab import study as lab
    from softgate.lab.settings import Request
    from softgate.lab.words import closing, table

    if options["trial"] is not None:
        sys.path.insert(0, os.getcwd())  # a console script does not look for modules where the user is
    names = ("d_model", "layers", "heads", "context", "norm", "positions", "init", "dropout", "residual_scale")
    model = {name: value for name in names if (value := options.pop(name)) is not None}
    request = Request(arms=arms or ("relu", "gelu", "swiglu"), folder=options.pop("study"), model=model, **options)
    with progress() as watch:
        if dry_run:
            plan = lab.dry_run(request, watch)
            if json_file is not None:
                import msgspec

                write_json({"schema": "softgate.plan/1", "plan": msgspec.to_builtins(plan)}, json_file)
            return 0
        study = lab.run(request, command=_command(sys.argv[1:], json_file), watch=watch)
    report = study.to_html()
    # With the document on standard output, people read on standard error.
    to_stderr = json_file == "-"
    lines = ["", table(study.document), "", *study.document["headline"], closing(study.document)]
    click.echo("\n".join(lines), err=to_stderr)
    if json_file is not None:
        write_json(study.document, json_file)
    click.echo(f"report: {report.resolve()}", err=to_stderr)
    # Single failures are part of a study; one in which every final run failed has no answer.
    return int(all(arm["failed"] == arm["planned"] for arm in study.document["arms"]))


def _command(words: list[str], json_file: str | None) -> str:
    """The command line that makes this study again; where its JSON went is no part of that."""
    kept = [w for w in words if json_file is None or w not in ("--json", json_file, f"--json={json_file}")]
    return shlex.join(["softgate", *kept])
