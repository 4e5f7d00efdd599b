"""softgate report: the table and the HTML report of a study that exists."""

from __future__ import annotations

import click

from softgate.cli.output import write_json


@click.command(short_help="Write the HTML report of a study, finished or not.")
@click.argument("study", metavar="STUDY")
@click.option("--html", "html_file", metavar="FILE", help="Where to write the report. [default: STUDY/report.html]")
@click.option("--json", "json_file", metavar="FILE", help="Write the comparison as JSON; - for standard output.")
def report(study: str, html_file: str | None, json_file: str | None) -> None:
    """Show the table of STUDY and write its report; trains nothing and changes nothing in the study."""
    from softgate.lab.study import load
    from softgate.lab.words import closing, table

    found = load(study)
    path = found.to_html(html_file)
    to_stderr = json_file == "-"
    lines = [table(found.document), "", *found.document["headline"], closing(found.document)]
    click.echo("\n".join(lines), err=to_stderr)
    if json_file is not None:
        write_json(found.document, json_file)
    click.echo(f"report: {path.resolve()}", err=to_stderr)
