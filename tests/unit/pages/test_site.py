"""What the site makes of the pages: where links lead, which lists name them, which versions there are."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest

from harness.documents import ROOT
from pages import versions
from pages.links import Repository
from pages.navigation import listed

DOCS = ROOT / "docs"
FILES = "https://repository.invalid/winpool/blob/v1.2.3"
REPOSITORY = Repository(root=ROOT, files=FILES)


@pytest.mark.parametrize(
    ("source", "text", "shown"),
    [
        ("docs/pools.md", "[a](taints.md#noexecute)", "[a](taints.md#noexecute)"),
        ("docs/pools.md", "[a](README.md#what-it-costs)", "[a](index.md#what-it-costs)"),
        ("docs/adr/0011-guard.md", "[a](../README.md)", "[a](../index.md)"),
        ("docs/adr/0011-guard.md", "[a](README.md)", "[a](README.md)"),
        ("docs/adr/0011-guard.md", "[a](../../README.md)", "[a](../project/readme.md)"),
        ("docs/pools.md", "[a](../CONTRIBUTING.md#the-rules)", "[a](project/contributing.md#the-rules)"),
        ("docs/pools.md", "[a](../deploy/samples)", f"[a]({FILES}/deploy/samples)"),
        (
            "docs/upgrades/actors.md",
            "[a](examples/ask.sh)",
            f"[a]({FILES}/docs/upgrades/examples/ask.sh)",
        ),
        (
            "docs/pools.md",
            "[a](../tests/testbed/README.md#honest-limits)",
            f"[a]({FILES}/tests/testbed/README.md#honest-limits)",
        ),
        ("docs/memory-benchmark.md", "![a](memory-benchmark/a.svg)", "![a](memory-benchmark/a.svg)"),
        # A file that is included as a page is linked from where it is, and shown elsewhere.
        ("CONTRIBUTING.md", "[a](docs/pools.md#x), [b](SECURITY.md)", "[a](../pools.md#x), [b](security.md)"),
        ("README.md", "[a](docs/README.md)", "[a](../index.md)"),
        # What is no link of ours, or leads nowhere, stays as it is.
        ("docs/pools.md", "[a](https://kubernetes.io/README.md)", "[a](https://kubernetes.io/README.md)"),
        ("docs/pools.md", "[a](#pause)", "[a](#pause)"),
        ("docs/pools.md", "[a](../gone.txt)", "[a](../gone.txt)"),
        ("docs/pools.md", "`[a](../README.md)` ``b`c [a](README.md)``", None),
        ("docs/pools.md", "```\n[a](../README.md)\n```\n", None),
    ],
)
def test_a_link_leads_to_the_page_or_else_to_the_file(source: str, text: str, shown: str | None) -> None:
    assert REPOSITORY.linked(text, source=PurePosixPath(source)) == (text if shown is None else shown)


def test_a_link_behind_code_is_one() -> None:
    text = "`a` ```b``` [c](../README.md)\n\n```\n[d](../README.md)\n```\n[e](../README.md)"
    assert REPOSITORY.linked(text, source=PurePosixPath("docs/pools.md")) == (
        "`a` ```b``` [c](project/readme.md)\n\n```\n[d](../README.md)\n```\n[e](project/readme.md)"
    )


def test_the_navigation_has_each_page_once() -> None:
    """docs/index.md begins with docs/README.md, so that this is no page of its own."""
    pages = Counter(str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md"))
    named = Counter([*listed(DOCS), "index", "README"])
    assert list(pages - named) == [], "name it in docs/index.md"
    assert list(named - pages) == [], "it is twice in docs/index.md, or has no file"


def test_the_newest_release_is_first_and_a_site_begins_with_it(tmp_path: Path) -> None:
    for name in ("0.9.0", "0.10.0", "0.11.0-rc.1", "0.2.0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    (tmp_path / "other").mkdir()
    assert versions.main(tmp_path, "https://docs.invalid/w") == 0
    found = json.loads((tmp_path / "versions.json").read_text())
    assert [each["version"] for each in found] == ["0.10.0", "0.9.0", "0.2.0", "0.11.0-rc.1"]
    assert found[0] == {"version": "0.10.0", "url": "https://docs.invalid/w/0.10.0/", "preferred": True}
    assert [each["preferred"] for each in found[1:]] == [False] * 3
    assert 'url=0.10.0/"' in (tmp_path / "index.html").read_text()
    assert (tmp_path / ".nojekyll").exists()
