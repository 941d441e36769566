"""The manual as a site: mkdocs builds it without a warning, and no link or picture of it leads nowhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support.command_line import ROOT

for module in ("material", "mkdocstrings_handlers"):
    pytest.importorskip(module, reason="the manual needs: pip install -e '.[docs]'")


class Page(HTMLParser):
    """The ids and the addresses of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.addresses: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list) -> None:
        found = dict(attributes)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        self.addresses += [found[name] for name in ("href", "src") if found.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", place]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return place


def test_every_page_is_built_and_its_links_and_pictures_lead_somewhere(site):
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) == len(list((ROOT / "docs").glob("*.md")))
    for path, page in pages.items():
        for address in page.addresses:
            if re.match(r"\w+:|//", address):
                continue
            place, _, anchor = unquote(address).partition("#")
            target = (path.parent / place).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path}: {address}"
            if anchor and target in pages:
                assert anchor in pages[target].ids, f"{path}: {address}"
