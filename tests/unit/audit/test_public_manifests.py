"""The list of public manifests, which a script audits again."""

from __future__ import annotations

import re

from public_manifests import PAGE, sources


def test_every_source_has_a_revision_and_a_result() -> None:
    page = PAGE.read_text()
    found = sources(page)
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    results = re.findall(r"^\| (\d+) (?:\| \d+ ){6}\|", page, re.MULTILINE)
    assert [int(each) for each in results] == [each.number for each in found]
    # The page names a commit for each of the files of this one.
    assert {each.repository for each in found if each.commit == "HEAD"} == {"kubernetes/website"}
