"""Documents to draw, and a real browser to draw them in."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

Document = dict[str, Any]
NAMES = ("example", "hostile", "bare")
FLAGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def _load() -> ModuleType:
    # In importlib mode a test folder is on no path: the module beside this one is found by its file.
    name, path = "softgate_report_example", Path(__file__).with_name("example.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_EXAMPLE = _load()


@pytest.fixture
def make() -> Callable[..., Document]:
    """`make("example", seeds=4)`: a fresh document of that kind."""
    return lambda kind, *args, **more: getattr(_EXAMPLE, kind)(*args, **more)


@pytest.fixture(params=NAMES)
def document(request: pytest.FixtureRequest) -> Document:
    """Each kind of document in turn."""
    made: Document = getattr(_EXAMPLE, request.param)()
    return made


@pytest.fixture(scope="session")
def hostile_names() -> tuple[str, ...]:
    names: tuple[str, ...] = _EXAMPLE.HOSTILE
    return names


def find_browser() -> str | None:
    """The Chromium to test with: the one named by SOFTGATE_CHROMIUM, else the first that is installed."""
    if named := os.environ.get("SOFTGATE_CHROMIUM"):
        return named
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return "/usr/bin/chromium" if Path("/usr/bin/chromium").exists() else None


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        advice = (
            "no Chromium found: install one (Debian: apt-get install --no-install-recommends chromium) "
            "or name one in SOFTGATE_CHROMIUM"
        )
        if os.environ.get("CI") or os.environ.get("SOFTGATE_REQUIRE_BROWSER"):
            pytest.fail(advice)
        pytest.skip(advice)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()
