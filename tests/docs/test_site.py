"""The site builds without a warning, holds together, and opens without network."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

REPOSITORY = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """What a page loads, where it links to, and the places that others can link to."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.ids = [], [], {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        said = dict(attrs)
        self.ids |= {said[key] for key in ("id", "name") if said.get(key)}
        if tag == "a" and said.get("href"):
            self.links.append(said["href"])
        elif tag == "link" and said.get("href"):
            self.loads.append(said["href"])
        elif said.get("src"):
            self.loads.append(said["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(  # not --quiet: it hides warnings from --strict
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WARNING" not in built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html")}


def outside(address):
    return bool(urlsplit(address).netloc) or urlsplit(address).scheme in ("http", "https")


def test_pages_load_nothing_from_outside(site, pages):
    wrong = [f"{path.relative_to(site)}: {src}" for path, page in pages.items() for src in page.loads if outside(src)]
    for path in site.rglob("*.css"):
        found = re.findall(r"url\(['\"]?((?:https?:)?//[^)]+)|@import\s+['\"]?(https?://[^'\";]+)", path.read_text())
        wrong += [f"{path.relative_to(site)}: {address}" for pair in found for address in pair if address]
    assert not wrong, "\n".join(wrong)


def test_links_and_files_inside_the_site_exist(site, pages):
    wrong = []
    for path, page in pages.items():
        if path.name == "404.html":  # it is shown at any address, so its links start at the root
            continue
        for address in page.links + page.loads:
            split = urlsplit(address)
            if outside(address) or split.scheme:
                continue
            target = (path.parent / unquote(split.path)).resolve() if split.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                wrong.append(f"{path.relative_to(site)}: there is no {address}")
            elif target in pages and unquote(split.fragment) not in pages[target].ids:
                wrong.append(f"{path.relative_to(site)}: {address} has no such place")
    assert not wrong, "\n".join(wrong)


def test_the_reference_is_filled(site, pages):
    assert "holdfast.methods.method.Method" in pages[site / "reference/methods.html"].ids
    commands = (site / "reference/commands.html").read_text()
    assert "--replay.frequency" in commands
    assert "the help of every command" not in commands


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["index.html", "design.html", "reference/methods.html"])
def test_pages_open_from_the_file_system_and_fit(site, browser, name, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    complaints, requests = [], []
    tab.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda e: complaints.append(str(e)))
    tab.on("request", lambda r: requests.append(r.url))
    tab.goto((site / name).as_uri())
    tab.wait_for_load_state("load")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert complaints == []
    assert [r for r in requests if not r.startswith(("file:", "data:"))] == []
    context.close()


@pytest.mark.browser
def test_search_works_without_network(site, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.goto((site / "index.html").as_uri())
    tab.click("[data-md-component=search-query]")
    tab.keyboard.type("wilson")
    found = tab.locator(".md-search-result__item h1", has_text="Evaluation and report").first
    found.wait_for()
    assert found.is_visible()
    context.close()
