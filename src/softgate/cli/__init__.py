"""The command line. A verb's module is imported when the verb is used, so that `softgate --help` loads no torch."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from softgate.errors import SoftgateError, clean

# Verb -> where its command is, and the line that --help shows without importing it. A test compares the two.
VERBS: dict[str, tuple[str, str]] = {
    "compare": (
        "softgate.cli.compare:compare",
        "Train the same model with each activation and say, with an interval, what differs.",
    ),
    "report": ("softgate.cli.report:report", "Write the HTML report of a study, finished or not."),
    "show": ("softgate.cli.show:show", "Show one activation: its record, moments and curve."),
    "info": ("softgate.cli.info:info", "Say what softgate runs on: versions, processor, threads, extras."),
}
BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 1  # click's own answer where it meets one


class LazyGroup(click.Group):
    """A group that knows its commands by a table and imports one when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb, imported now; None for an unknown verb."""
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs in --help, from the table: click would import every one."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="softgate", message="%(prog)s %(version)s")
def softgate() -> None:
    """Which activation for a Transformer's FFN? Measured, with intervals."""


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's own) and return its exit status.

    0 fine; 1 the answer is bad; 2 bad input, with one line on standard error that says why; 130 interrupted.
    """
    try:
        status = softgate.main(args, prog_name="softgate", standalone_mode=False)
        # Here, not at exit, where Python would tell of a full disk behind standard output in its own way.
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; the same command continues", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except SoftgateError as error:
        click.echo(f"Error: {error}", err=True)
        return BAD_INPUT
    except OSError as error:
        _drop_output()
        where = "" if error.filename is None else f": {clean(error.filename, 200)}"
        click.echo(f"Error: {clean(error.strerror or error, 200)}{where}", err=True)
        return BAD_INPUT
    return status if isinstance(status, int) else 0


def _drop_output() -> None:
    """Send what standard output cannot take nowhere: Python would fail on it a second time at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        # A test runner's standard output is no file, and has nothing to lose.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
