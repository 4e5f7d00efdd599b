"""The page in a real headless Chromium. Each check returns what is wrong; the last test breaks a page for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, TimeoutError

from softgate.lab.report import render

Document = dict[str, Any]
Make = Callable[..., Document]


@dataclass
class Opened:
    """A page with everything that it said and asked for since it was opened."""

    page: Page
    url: str
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Check = Callable[[Opened], list[str]]


@contextmanager
def opened(browser: Browser, html: str, folder: Path, **more: Any) -> Iterator[Opened]:
    file = folder / "report.html"
    file.write_text(html, encoding="utf-8")
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **more})
    context.set_default_timeout(10_000)
    try:
        found = Opened(context.new_page(), file.as_uri())

        def refuse(dialog: Dialog) -> None:
            found.messages.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        found.page.on("console", lambda message: found.messages.append(f"{message.type}: {message.text}"))
        found.page.on("pageerror", lambda error: found.messages.append(f"page error: {error}"))
        found.page.on("dialog", refuse)
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto(found.url)
        if more.get("java_script_enabled", True):
            # Two frames: what the script drew is laid out.
            found.page.evaluate("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
        yield found
    finally:
        context.close()


def quiet(found: Opened) -> list[str]:
    """Nothing on the console, no uncaught error, no dialog."""
    return list(found.messages)


def closed(found: Opened) -> list[str]:
    """No request but for the file itself; data in the page is no request."""
    return [url for url in found.requests if url != found.url and not url.startswith("data:")]


def drawn(found: Opened) -> list[str]:
    """Every chart has an SVG with marks in it."""
    bad: list[str] = found.page.evaluate(
        """() => {
          const charts = [...document.querySelectorAll("figure .chart")];
          const marks = ".scatterlayer .point, .barlayer .point, .heatmaplayer image";
          const bad = charts.filter((e) => !e.querySelector(".main-svg") || !e.querySelector(marks)).map((e) => e.id);
          return charts.length ? bad : ["no chart at all"];
        }"""
    )
    return bad


def hovers(found: Opened) -> list[str]:
    """The mouse over a mark of each chart shows a label; tells the first chart where it does not."""
    for chart in found.page.locator("figure .chart").all():
        mark = chart.locator(".scatterlayer .point, .barlayer .point path, .heatmaplayer image").first
        mark.scroll_into_view_if_needed()
        box = mark.bounding_box()
        assert box
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        found.page.mouse.move(x - 2, y - 2)
        found.page.mouse.move(x, y)
        label = chart.locator(".hoverlayer .hovertext").first
        try:
            label.wait_for()
        except TimeoutError:
            return [chart.get_attribute("id") or "a chart without id"]
        if not (label.text_content() or "").strip():
            return ["an empty label"]
    return []


def inert(found: Opened) -> list[str]:
    """Foreign text made no element and ran no script."""
    bad: list[str] = found.page.evaluate(
        """() => {
          const charts = document.querySelectorAll("script[type='application/json']").length;
          const foreign = [...document.querySelectorAll("img, iframe, b, u, i, em, [onerror], a[href^='javascript']")];
          const scripts = document.querySelectorAll("script").length - charts - 2;
          return [
            ...foreign.map((e) => e.outerHTML.slice(0, 80)),
            ...(scripts ? [`${scripts} foreign scripts`] : []),
            ...(window.injected ? ["a foreign script ran"] : []),
          ];
        }"""
    )
    return bad


def fits(found: Opened) -> list[str]:
    """The page does not scroll sideways."""
    page, window = found.page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
    )
    return [] if page <= window else [f"page {page} px wide in a window of {window} px"]


def prints(found: Opened) -> list[str]:
    """On paper every table shows, also those that a reader opens on screen, and nothing is cut off."""
    found.page.set_viewport_size({"width": 680, "height": 960})
    found.page.emulate_media(media="print")
    bad: list[str] = found.page.evaluate(
        """() => {
          const tables = [...document.querySelectorAll("table")];
          const hidden = tables.filter((e) => !e.checkVisibility() || !e.getBoundingClientRect().height);
          const cut = tables.filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
          const name = (what) => (e) => `${what}: ${e.caption ? e.caption.textContent : ""}`;
          return [...hidden.map(name("hidden")), ...cut.map(name("cut"))];
        }"""
    )
    return bad


def accessible(found: Opened) -> list[str]:
    """Language, landmarks, headings in order, names for charts, figures, tables and scrolling boxes."""
    bad: list[str] = found.page.evaluate(
        """() => {
          const bad = [], all = (query) => [...document.querySelectorAll(query)];
          const say = (wrong, what) => { if (wrong) bad.push(what); };
          say(document.documentElement.lang !== "en", "no language");
          for (const one of ["main", "h1", "header", "footer", "nav[aria-label]"]) say(all(one).length !== 1, one);
          const levels = all("h1, h2, h3, h4").map((e) => Number(e.tagName[1]));
          levels.forEach((level, i) => say(i ? level > levels[i - 1] + 1 : level !== 1, `heading ${i} jumps`));
          for (const e of all("figure .chart")) {
            say(e.getAttribute("role") !== "img" || !(e.getAttribute("aria-label") || "").trim(), `${e.id} unnamed`);
          }
          for (const e of all("[aria-labelledby]")) {
            const name = document.getElementById(e.getAttribute("aria-labelledby"));
            say(!name || !name.textContent.trim(), `${e.tagName} points at no name`);
          }
          for (const e of all("figure")) {
            say(!e.querySelector("figcaption") || !e.querySelector("details table"), "figure without caption or table");
          }
          for (const e of all("table")) {
            say(!e.caption || !e.caption.textContent.trim(), "table without caption");
            say([...e.querySelectorAll("th")].some((th) => !th.scope), "header without scope");
          }
          for (const e of all(".scroll")) {
            const name = e.getAttribute("aria-label") || e.getAttribute("aria-labelledby");
            say(e.tabIndex !== 0 || !name, "scrolling box without keyboard or name");
          }
          const ids = all("[id]").map((e) => e.id);
          say(new Set(ids).size !== ids.length, "an id occurs twice");
          return bad;
        }"""
    )
    return bad


def contrasts(found: Opened) -> list[str]:
    """Text on the page itself has a contrast of at least 4.5 (WCAG 2.2, 1.4.3)."""
    bad: list[str] = found.page.evaluate(
        """() => {
          const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
          const light = (colour) => {
            const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            const [r, g, b] = parts(colour).map((v) => linear(v / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const behind = (e) => {
            for (; e; e = e.parentElement) {
              const colour = getComputedStyle(e).backgroundColor;
              if (parts(colour).length === 3) return colour;
            }
            return "rgb(255, 255, 255)";
          };
          const bad = new Set();
          for (const e of document.querySelectorAll("body *")) {
            const written = [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
            if (!written || e.closest("svg, script, style")) continue;
            const [low, high] = [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => a - b);
            const ratio = (high + 0.05) / (low + 0.05);
            if (ratio < 4.5) bad.add(`${e.tagName} ${ratio.toFixed(2)}`);
          }
          return [...bad];
        }"""
    )
    return bad


def skips(found: Opened) -> list[str]:
    """The first tab reaches a link which is then visible and leads to the verdict."""
    found.page.keyboard.press("Tab")
    link = found.page.evaluate(
        """() => {
          const e = document.activeElement, box = e.getBoundingClientRect();
          return [e.className, box.top >= 0 && box.height > 0, getComputedStyle(e).outlineStyle];
        }"""
    )
    found.page.keyboard.press("Enter")
    focus = found.page.evaluate("document.activeElement.id")
    wanted = ["skip", True, "solid"]
    return ([] if link == wanted else [f"first tab: {link}"]) + ([] if focus == "main" else [f"focus on {focus}"])


ON_SCREEN: tuple[Check, ...] = (drawn, hovers, inert, fits, accessible, contrasts, quiet, closed)


def test_on_a_desktop(browser: Browser, document: Document, tmp_path: Path) -> None:
    with opened(browser, render(document), tmp_path) as found:
        assert {check.__name__: wrong for check in ON_SCREEN if (wrong := check(found))} == {}


def test_on_a_phone(browser: Browser, document: Document, tmp_path: Path) -> None:
    small = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    with opened(browser, render(document), tmp_path, **small) as found:
        assert {check.__name__: wrong for check in (drawn, fits, quiet, closed) if (wrong := check(found))} == {}
        found.page.locator("summary").first.click()
        assert found.page.locator("details[open] table").first.is_visible()
        assert fits(found) == []


def test_on_paper(browser: Browser, document: Document, tmp_path: Path) -> None:
    with opened(browser, render(document), tmp_path, color_scheme="dark") as found:
        assert prints(found) == []
        found.page.emulate_media(media="screen", color_scheme="dark")
        found.page.set_viewport_size({"width": 1200, "height": 900})
        screen = _state(found, 1000)
        # Printing in earnest says so to the page, which opens the tables and redraws the charts in light colours and
        # to the width of paper; afterwards the screen is as it was.
        found.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        paper = _state(found)
        assert paper["closed"] == 0
        assert paper["ink"] == "#1b1e23" != screen["ink"]
        assert paper["width"] == 640
        found.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert _state(found, 1000) == screen
        assert len(found.page.pdf(format="A4")) > 20_000
        assert _state(found, 1000) == screen
        assert quiet(found) + closed(found) == []


def _state(found: Opened, least: int = 0) -> dict[str, Any]:
    """What printing changes. Charts follow the window a moment later: `least` is the width to wait for."""
    svg = "document.querySelector('.chart .main-svg')"
    found.page.wait_for_function(f"least => {svg}.clientWidth >= least", arg=least)
    state: dict[str, Any] = found.page.evaluate(
        """() => ({
          closed: document.querySelectorAll("details:not([open])").length,
          ink: document.querySelector(".chart").layout.font.color,
          width: Math.max(...[...document.querySelectorAll(".chart .main-svg")].map((e) => e.clientWidth)),
        })"""
    )
    return state


def test_in_the_dark(browser: Browser, make: Make, tmp_path: Path) -> None:
    with opened(browser, render(make("bare")), tmp_path, color_scheme="dark") as found:
        assert contrasts(found) == []
        ink = found.page.evaluate("document.querySelector('.chart').layout.font.color")
        found.page.emulate_media(color_scheme="light")
        found.page.wait_for_function("ink => document.querySelector('.chart').layout.font.color !== ink", arg=ink)
        assert contrasts(found) + quiet(found) == []


def test_by_keyboard(browser: Browser, make: Make, tmp_path: Path) -> None:
    with opened(browser, render(make("bare")), tmp_path) as found:
        assert skips(found) == []
        found.page.locator("summary").first.focus()
        found.page.keyboard.press("Enter")
        assert found.page.locator("details[open] table").first.is_visible()


def test_hostile_names_are_read_as_they_are(
    browser: Browser, make: Make, hostile_names: tuple[str, ...], tmp_path: Path
) -> None:
    with opened(browser, render(make("hostile")), tmp_path) as found:
        rows = found.page.locator("table").first.locator("tbody th").all_inner_texts()
        assert rows[:4] == list(hostile_names[:4])
        assert rows[5] == hostile_names[5]
        labels = found.page.locator("#chart-forest .ytick text").all_text_contents()
        assert labels[:3] == ["</script><script>…", "{{7*7}}{% raw %}", "--ink"]
        ink = found.page.evaluate("document.querySelector('#chart-forest').data[2].name")
        assert ink == "--ink"


def test_without_scripts_the_tables_remain(browser: Browser, make: Make, tmp_path: Path) -> None:
    with opened(browser, render(make("bare")), tmp_path, java_script_enabled=False) as found:
        assert "The charts need JavaScript" in found.page.locator("noscript").first.inner_text()
        found.page.locator("summary").first.click()
        assert found.page.locator("details[open] table").first.is_visible()


def _without_policy(page: str) -> str:
    return re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)


def _cut(pattern: str, by: str = "") -> Callable[[str], str]:
    def change(page: str) -> str:
        changed = re.sub(pattern, by, page, count=1, flags=re.DOTALL)
        assert changed != page, pattern
        return _without_policy(changed)

    return change


BREAKS: dict[str, tuple[Check, Callable[[str], str]]] = {
    "a script throws": (quiet, _cut("</main>", "</main><script>throw new Error('x')</script>")),
    "a foreign script meets the policy": (quiet, lambda page: page.replace("</main>", "</main><script>1</script>")),
    "a picture from outside": (closed, _cut("</main>", '<img src="http://127.0.0.1:9/x.png" alt="x"></main>')),
    "a figure is empty": (drawn, _cut(r'(data-chart="chart-forest">\{"data":)\[.*?\](,"layout":)', r"\1[]\2")),
    "a figure is no JSON": (drawn, _cut(r'(data-chart="chart-seeds">).*?(</script>)', r"\1{\2")),
    "labels are off": (hovers, lambda page: _without_policy(page.replace('"hoverinfo":"text"', '"hoverinfo":"none"'))),
    "names are not escaped": (inert, lambda page: page.replace("&lt;", "<").replace("&gt;", ">")),
    "a box is too wide": (fits, _cut("<main", '<div style="width: 1300px">x</div><main')),
    "details stay closed on paper": (prints, _cut("details::details-content", "details::nothing")),
    "tables scroll on paper": (prints, _cut("<table>", '<table style="min-width: 900px">')),
    "a heading jumps": (accessible, _cut("<h2([^>]*)>Verdict</h2>", r"<h4\1>Verdict</h4>")),
    "a chart has no name": (accessible, _cut(' aria-label="Forest plot[^"]*"')),
    "a table has no caption": (accessible, _cut("<caption>.*?</caption>")),
    "a scrolling box has no keyboard": (accessible, _cut(' tabindex="0"')),
    "text is too pale": (contrasts, _cut("--muted: #5a6270", "--muted: #9a9fa8")),
    "no skip link": (skips, _cut('<a class="skip".*?</a>')),
    "the skip link stays hidden": (skips, _cut(r"\.skip:focus \{ top: 0\.5rem; \}")),
}


@pytest.mark.parametrize("name", BREAKS)
def test_each_check_notices_a_page_that_is_broken(browser: Browser, make: Make, name: str, tmp_path: Path) -> None:
    check, damage = BREAKS[name]
    page = damage(render(make("hostile" if check is inert else "bare")))
    if check not in (quiet, drawn, hovers, inert):
        # These look at the page without charts, which opens ten times as fast.
        page = _without_policy(re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL))
    with opened(browser, page, tmp_path) as found:
        found.page.set_default_timeout(1500)
        assert check(found) != []
