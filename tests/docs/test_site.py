"""The site as ``make docs`` built it: what can be clicked, and where alerts and links lead."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from harness.documents import ROOT
from harness.every import every
from release.addresses import Addresses
from winpool import __version__

SITE: Final = ROOT / "dist" / "site"
PAGES: Final = SITE / __version__
FIRST: Final = PAGES / "index.html"
RULES: Final = ROOT / "deploy" / "alerts" / "winpool.rules.yaml"
HTML: Final = sorted(path for path in PAGES.rglob("*.html") if "_static" not in path.parts)
SPHINX: Final = ROOT / ".venv-docs" / "bin" / "sphinx-build"


@dataclass
class Page(HTMLParser):
    """A page of the site: its links, those of its own text apart, its anchors and what can be read."""

    links: list[str] = field(default_factory=list)
    own_links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    text: str = ""
    in_article: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "article":
            self.in_article = True
        if anchor := values.get("id"):
            self.anchors.add(anchor)
        if tag == "a" and (target := values.get("href")):
            self.links.append(target)
            if self.in_article:
                self.own_links.append(target)

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.in_article = False

    def handle_data(self, data: str) -> None:
        if self.in_article:
            self.text += data


@cache
def page(path: Path) -> Page:
    read = Page()
    read.feed(path.read_text())
    return read


def clicked(path: Path, link: str) -> tuple[Path, str] | None:
    """Return the file and the anchor that a link of a page leads to; None where it leaves the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    return target, unquote(parts.fragment)


def reached() -> set[Path]:
    """Return the pages that someone reaches who clicks on everything, from the first page on."""
    found, ahead = {FIRST}, [FIRST]
    while ahead:
        path = ahead.pop()
        for link in page(path).links:
            leads = clicked(path, link)
            if leads and leads[0].suffix == ".html" and leads[0] not in found and leads[0].exists():
                found.add(leads[0])
                ahead.append(leads[0])
    return found


def built(source: Path) -> Path:
    """Return the file of the site that a page of ``docs`` has become."""
    relative = source.relative_to(ROOT / "docs").with_suffix(".html")
    return FIRST if relative == Path("README.html") else PAGES / relative


def alerts() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["annotations"]["runbook_url"]


def test_every_page_is_reached_by_clicking() -> None:
    pages = {built(path) for path in (ROOT / "docs").rglob("*.md")}
    assert len(pages) > 100
    assert not pages - reached()


@every("path", HTML, ids=lambda path: str(path.relative_to(PAGES)))
def test_every_link_inside_leads_to_a_page_and_to_a_place_on_it(path: Path) -> None:
    leads = [(link, found) for link in page(path).links if (found := clicked(path, link))]
    assert leads
    assert not [link for link, (target, _) in leads if not target.exists()]
    assert not [
        link
        for link, (target, anchor) in leads
        if anchor and target.suffix == ".html" and anchor not in page(target).anchors
    ]


@every("alert, url", sorted(set(alerts())))
def test_the_runbook_of_an_alert_is_where_its_address_says_and_leads_on(alert: str, url: str) -> None:
    docs = Addresses.read().docs
    assert url.startswith(f"{docs}/")
    path = SITE / url.removeprefix(f"{docs}/")
    assert path.is_file()
    read = page(path)
    assert read.text.strip().startswith(alert)
    assert [link for link in read.own_links if (leads := clicked(path, link)) and leads[0] != path]


@dataclass(frozen=True, slots=True)
class Night:
    """A question of someone whom an alert has woken, and the way to its answer."""

    alert: str
    reads: str
    """On the runbook: the command that names the object."""
    clicks: tuple[tuple[str, str], ...]
    """In turn: the end of a link in the text of a page, and what the next page says."""


NIGHTS: Final = {
    "which pod and which budget keep a node": Night(
        "WindowsNodeDrainBlocked",
        "kubectl winpool why NODE names every pod that is left with the reason",
        (("upgrades/blocked.html#a-drain-is-blocked", "it demands as many healthy pods as there are"),),
    ),
    "why no operator runs": Night(
        "WinPoolOperatorDown",
        "kubectl -n winpool-system logs POD",
        (
            ("troubleshooting.html#by-message", "is older than this operator: it lacks"),
            ("operator/upgrade.html", "kubectl apply -k crds"),
        ),
    ),
    "which pod fills a node": Night(
        "WindowsNodeMemoryPressure",
        "kubectl winpool memory node/",
        (
            ("cli/memory.html#the-pods-of-a-node", "by how much what it uses grows in a minute"),
            ("memory-evictions.html#limits-of-evictions", "A pod is evicted only if it has grown"),
        ),
    ),
}


@pytest.mark.parametrize("night", NIGHTS.values(), ids=NIGHTS)
def test_from_the_alert_to_the_cause_by_clicking(night: Night) -> None:
    path = SITE / dict(alerts())[night.alert].removeprefix(f"{Addresses.read().docs}/")
    assert night.reads in spoken(path)
    for end, says in night.clicks:
        links = [link for link in page(path).own_links if link.endswith(end)]
        assert links, f"{path.name} has no link to {end}"
        leads = clicked(path, links[0])
        assert leads
        path = leads[0]
        assert leads[1] in {"", *page(path).anchors}
        assert says in spoken(path)


def spoken(path: Path) -> str:
    return " ".join(page(path).text.split())


def test_the_search_knows_every_page_and_what_is_on_it() -> None:
    index = json.loads(
        (PAGES / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")")
    )
    pages = {str(built(path).relative_to(PAGES).with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
    assert set(index["docnames"]) == pages
    found = {index["docnames"][at] for at in index["terms"]["poddisruptionbudget"]}
    assert {"upgrades/blocked", "taints"} <= found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gone](gone.md)", "target not found: 'gone.md'"),
        ("[gone](#gone)", "target not found: 'gone'"),
        ("[gone](index.md#gone)", "local id not found in doc 'index': 'gone'"),
        ("[gone](../gone.txt)", "target not found: '../gone.txt'"),
    ],
)
def test_a_link_that_leads_nowhere_fails_the_build(text: str, said: str, tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    (source / "index.md").write_text(f"# Page\n\n{text}\n")
    done = build(source, tmp_path)
    assert said in done.stderr
    assert done.returncode != 0


def test_a_page_that_no_list_names_fails_the_build(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    for name in ("index", "lonely"):
        (source / f"{name}.md").write_text("# Page\n")
    done = build(source, tmp_path)
    assert "lonely.md" in done.stderr
    assert done.returncode != 0


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build with the configuration of docs, as ``make docs`` does."""
    return subprocess.run(
        [SPHINX, "--quiet", "--fail-on-warning", "--conf-dir", ROOT / "docs", source, out / "site"],
        env=os.environ | {"PYTHONPATH": "operator:tests:tools", "WINPOOL_DOCS_VERSION": "1.2.3"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
