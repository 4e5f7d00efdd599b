"""The document in plain words, and as a table for the terminal and for notebooks."""

from __future__ import annotations

import html
from typing import Any

from softgate.errors import clean

Document = dict[str, Any]


def headline(document: Document) -> list[str]:
    """Verdict first: one sentence an arm, then the noise floor, then what could have been seen.

    Every sentence with a difference carries its interval and the number of pairs.
    """
    unit, base = document["metric"]["unit"], clean(document["baseline"])
    lines = []
    if not document["complete"]:
        done = sum(t["phase"] != "pilot" for t in document["trials"])
        lines.append(f"This study is not finished ({done} final runs so far); repeat its command to complete it.")
    lines += [_sentence(arm, base, unit) for arm in document["arms"] if arm["role"] == "arm"]
    floor = document["noise_floor"]
    if floor is not None:
        low, high = floor["interval"]
        again = "with other seeds" if document["model"] is None else "in another order"
        inside = (
            "includes zero, as it should" if floor["inside"] else "does not include zero: chance, in 5 % of studies"
        )
        lines.append(
            f"Noise floor: {base} against itself {again} differs by {floor['difference']:+.4f} {unit} "
            f"(95 % interval {low:+.4f} to {high:+.4f}, n = {floor['n']}), which {inside}."
        )
    diverged = [f"{clean(a['arm'])} {a['diverged']} of {a['planned']}" for a in document["arms"] if a["diverged"]]
    failed = [f"{clean(a['arm'])} {a['failed']} of {a['planned']}" for a in document["arms"] if a["failed"]]
    if diverged:
        lines.append(f"Diverged final runs, left out of the means and counted here: {', '.join(diverged)}.")
    if failed:
        lines.append(f"Failed final runs: {', '.join(failed)}; repeating the command tries them again.")
    ngrams = (document["data"] or {}).get("ngrams")
    losses = [a["loss"] for a in document["arms"] if a["loss"] is not None]
    if ngrams and losses and min(losses) > ngrams["bigram"]:
        lines.append(
            f"No arm got below the bigram baseline ({ngrams['bigram']:.3f} {unit}): these models have hardly "
            "learnt more than which byte follows which, and say nothing about trained ones; give a larger budget."
        )
    edges = [clean(a["arm"]) for a in document["arms"] if a["lr_on_edge"] and a["role"] != "aa"]
    if edges:
        lines.append(
            f"The best learning rate is on the edge of the widened grid for {', '.join(edges)}: an upper bound."
        )
    return lines


def _sentence(arm: dict[str, Any], base: str, unit: str) -> str:
    name = clean(arm["arm"])
    if arm["difference"] is None:
        return f"{name} against {base}: undecided, {arm['reason']}."
    low, high = arm["interval"]
    figures = f"{arm['difference']:+.4f} {unit}, 95 % interval {low:+.4f} to {high:+.4f}, {arm['n']} pairs"
    ratio = arm["perplexity_ratio"]
    if ratio is not None:
        percent = [100 * (ratio[k] - 1) for k in ("estimate", "low", "high")]
        figures += f"; perplexity per byte {percent[0]:+.2f} %, interval {percent[1]:+.2f} to {percent[2]:+.2f} %"
    verb = {"better": f"better than {base}", "worse": f"worse than {base}"}.get(arm["verdict"])
    if verb is not None:
        extra = arm["words"].removeprefix(arm["verdict"])
        return f"{name} is {verb}{extra}: {figures}."
    return f"{name} against {base}: {arm['words']}: {figures}."


def closing(document: Document) -> str:
    """How many trials there are, how long they took and how busy the workers were; one line.

    >>> run = {"wall_seconds": 120.4, "busy_share": 0.987, "workers": 2}
    >>> closing({"trials": [{}, {}], "execution": run})
    '2 trials in 120 s of wall time, 2 worker(s) busy 98.7 % of it'
    """
    run = document["execution"]
    if run["busy_share"] is None:
        return f"{len(document['trials'])} trials"
    return (
        f"{len(document['trials'])} trials in {run['wall_seconds']:.0f} s of wall time, "
        f"{run['workers']} worker(s) busy {100 * run['busy_share']:.1f} % of it"
    )


_COLUMNS = ("arm", "lr", "parameters", "loss", "difference", "95 % interval", "n", "tokens/s", "verdict")


def rows(document: Document) -> list[tuple[str, ...]]:
    """The cells of the table, a row an arm."""
    out: list[tuple[str, ...]] = []
    for arm in document["arms"]:
        interval = arm["interval"]
        speed = arm["speed"]["tokens_per_second"]
        out.append((
            clean(arm["arm"], 40),
            "-" if arm["lr"] is None else f"{arm['lr']:g}",
            "-" if arm["parameters"] is None else f"{arm['parameters']:,}",
            "-" if arm["loss"] is None else f"{arm['loss']:.4f}",
            "-" if arm["difference"] is None else f"{arm['difference']:+.4f}",
            "-" if interval is None else f"{interval[0]:+.4f} to {interval[1]:+.4f}",
            f"{arm['n']}" + (f" (+{arm['diverged']} diverged)" if arm["diverged"] else ""),
            "-" if speed is None else f"{speed:,.0f}",
            arm["words"],
        ))  # fmt: skip
    return out


def table(document: Document) -> str:
    """The arms as aligned text.

    >>> print(table({"arms": []}))
    arm  lr  parameters  loss  difference  95 % interval  n  tokens/s  verdict
    """
    cells = [_COLUMNS, *rows(document)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_COLUMNS))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def table_html(document: Document) -> str:
    """The same as an HTML table, for notebooks; every cell is escaped."""
    head = "".join(f"<th>{html.escape(c)}</th>" for c in _COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows(document))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
