"""Every release in every minor is judged as the sources say. This table is written by hand, not read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from harness.every import every
from winpool.api.matrix import Verdict
from winpool.support.judge import judge_node
from winpool.support.matrix import Matrix, built_in
from winpool.support.rows import layered
from winpool.support.servicing import class_reason
from winpool.support.versions import Minor

# D documented, L documented later, R release notes only, V vendor only, C documented with caution,
# S documented but stale, x dropped, ? unknown, . not listed.
RELEASES = ["2016", "1709", "1803", "2019", "1809", "1903", "1909", "2004", "20H2", "2022", "23H2", "2025"]
TABLE = """
1.14   .    x    x    D    D    .    .    .    .    .    .    .
1.15   .    .    .    D    D    .    .    .    .    .    .    .
1.16   .    .    .    D    D    .    .    .    .    .    .    .
1.17   .    .    .    D    D    R    .    .    .    .    .    .
1.18   .    .    .    D    D    L    L    .    .    .    .    .
1.19   .    .    .    D    x    x    D    D    .    .    .    .
1.20   .    .    .    D    .    .    D    D    .    .    .    .
1.21   .    .    .    D    .    .    x    D    D    .    .    .
1.22   .    .    .    D    .    .    .    D    D    .    .    .
1.23   .    .    .    D    .    .    .    x    D    D    .    .
1.24   .    .    .    D    .    .    .    .    D    D    .    .
1.25   .    .    .    D    .    .    .    .    S    D    .    .
1.26   .    .    .    D    .    .    .    .    S    D    .    .
1.27   .    .    .    D    .    .    .    .    S    D    .    .
1.28   .    .    .    D    .    .    .    .    S    D    V    .
1.29   .    .    .    D    .    .    .    .    S    D    V    .
1.30   .    .    .    D    .    .    .    .    S    D    V    .
1.31   .    .    .    D    .    .    .    .    S    D    V    .
1.32   .    .    .    C    .    .    .    .    S    D    V    V
1.33   .    .    .    C    .    .    .    .    S    D    V    V
1.34   .    .    .    C    .    .    .    .    S    D    .    V
1.35   .    .    .    V    .    .    .    .    x    D    .    D
1.36   .    .    .    V    .    .    .    .    .    D    .    D
1.37   .    .    .    ?    .    .    .    .    .    D    .    D
1.38   ?    ?    ?    ?    ?    ?    ?    ?    ?    ?    ?    ?
1.13   ?    ?    ?    ?    ?    ?    ?    ?    ?    ?    ?    ?
"""
CELLS = [
    (Minor(1, int(line.split()[0].removeprefix("1."))), release, letter)
    for line in TABLE.strip().splitlines()
    for release, letter in zip(RELEASES, line.split()[1:], strict=True)
]
MEANING = {
    "D": ("Documented", Verdict.SUPPORTED),
    "L": ("DocumentedLater", Verdict.SUPPORTED),
    "C": ("DocumentedWithCaution", Verdict.WARNED),
    "R": ("ReleaseNotesOnly", Verdict.WARNED),
    "V": ("VendorOnly", Verdict.WARNED),
    "S": ("DocumentedStale", Verdict.UNSUPPORTED),
    "x": ("Dropped", Verdict.UNSUPPORTED),
    ".": ("NotListed", Verdict.UNSUPPORTED),
    "?": ("ReleaseUnknown", Verdict.UNKNOWN),
}
HOSTS = {
    "2016": "10.0.14393.7000",
    "1709": "10.0.16299.1087",
    "1803": "10.0.17134.1130",
    "2019": "10.0.17763.2452",
    "1903": "10.0.18362.116",
    "1909": "10.0.18363.1556",
    "2004": "10.0.19041.804",
    "20H2": "10.0.19042.1889",
    "2022": "10.0.20348.1607",
    "23H2": "10.0.25398.1",
    "2025": "10.0.26100.32995",
}
"""1809 has none of its own: nodes of its build are judged as 2019."""

ENDS = {
    "2016": date(2027, 1, 12),
    "1709": date(2019, 4, 9),
    "1803": date(2019, 11, 12),
    "2019": date(2029, 1, 9),
    "1903": date(2020, 12, 8),
    "1909": date(2021, 5, 11),
    "2004": date(2021, 12, 14),
    "20H2": date(2022, 8, 9),
    "2022": date(2031, 10, 14),
    "23H2": date(2026, 5, 12),
    "2025": date(2034, 11, 14),
}


def test_a_row_that_changes_changes_one_cell(edited: Callable[[str, str], Matrix]) -> None:
    """One line of the data, one letter of the table above."""
    row = '- {kubernetes: "1.36", release: "2022", status: documented,'
    changed = edited(row, row.replace("documented", "dropped"))
    differ = [
        (str(minor), release)
        for minor, release, _ in CELLS
        if class_reason(minor, release, layers=layered(changed))
        != class_reason(minor, release, layers=layered(built_in()))
    ]
    assert differ == [("1.36", "2022")]


def test_the_table_has_every_release_of_the_data_and_no_other() -> None:
    assert list(built_in().releases) == RELEASES


VENDORS = ("AKS", "EKS", "WMCO")
"""How the ids of what vendors say begin."""


def test_what_upstream_dropped_and_a_vendor_lists_is_no_longer_dropped() -> None:
    """The head of the data says which source wins. AKS-2019 and AKS-2022 are refusals."""
    lists = {
        (cell.kubernetes, cell.release): cell.status
        for cell in built_in().file.windows
        if any(each.startswith(VENDORS) and each not in ("AKS-2019", "AKS-2022") for each in cell.source)
    }
    assert set(lists.values()) == {"vendorOnly", "documented", "unknown"}
    assert [cell for cell, status in lists.items() if status == "documented"] == [
        ("1.37", "2022"),
        ("1.37", "2025"),
    ]
    assert [cell for cell, status in lists.items() if status == "unknown"] == [("1.37", "2019")]


@every(("minor", "release", "letter"), CELLS, ids=str)
def test_cell(minor: Minor, release: str, letter: str) -> None:
    found = class_reason(minor, release, layers=layered(built_in()))
    assert (found.code, found.verdict) == MEANING[letter]
    assert found.layer == "BuiltIn"
    assert f"Windows Server {release}" in found.message
    assert f"Kubernetes {minor}" in found.message


@every(("minor", "release", "letter"), [each for each in CELLS if each[1] in HOSTS], ids=str)
def test_node_of_every_cell(minor: Minor, release: str, letter: str) -> None:
    found = judge_node(
        control_plane=str(minor),
        kubelet=f"v{minor}.0",
        host=HOSTS[release],
        runtime="containerd://2.9.0",
        layers=layered(built_in()),
        today=ENDS[release],
    )
    assert found.os_version == release
    assert found.build == HOSTS[release].rpartition(".")[0]
    assert found.end_of_support == ENDS[release]
    # containerd came to Windows with 1.18.
    runtime = {"RuntimeUnsupported"} if Minor(1, 14) <= minor < Minor(1, 18) else set()
    runtime = {"RuntimeAlpha"} if minor == Minor(1, 18) else runtime
    assert {reason.code for reason in found.reasons} == {MEANING[letter][0]} | runtime
    if not runtime:
        assert found.verdict is MEANING[letter][1]
