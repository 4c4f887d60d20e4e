"""The model against what people have published, and against harm of every kind.

There are few public points, and each gives some figures of a machine and not the others. What is not
published is chosen here so that the published figures can come out, and the tests check that they do.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.machine_memory import AKS, hardware, harm, machine, pod_in, script
from testbed.memory.hardware import FixedPageFile, Hardware, SystemManagedPageFile
from testbed.memory.pages import GIB, MIB


def test_an_idle_node_of_4_gib_has_committed_21_percent_of_5_38_gib() -> None:
    """kubernetes/website#48535, the JSON sample."""
    file = FixedPageFile(size_bytes=int(1.38 * GIB))
    found = machine(hardware=hardware(ram=4 * GIB, page_file=file)).reading(60)
    assert found.commit_limit_bytes / GIB == pytest.approx(5.38, abs=0.005)
    assert found.commit_total_bytes / found.commit_limit_bytes == pytest.approx(0.21, abs=0.005)


def test_commit_is_beyond_ram_while_59_percent_look_available() -> None:
    """kubernetes/kubernetes#64901: 8.00 GiB, private working sets of 3.31 GiB, commit 8.86 GiB."""
    pods = [script("steady", "2.578Gi", touchedPercent=37)] * 3
    made = machine(pods, hardware=hardware(ram=8 * GIB, page_file=SystemManagedPageFile()))
    found = made.reading(600)
    assert found.private_working_set_bytes / GIB == pytest.approx(3.31, abs=0.02)
    assert found.commit_total_bytes / GIB == pytest.approx(8.86, abs=0.02)
    computed = found.physical_total_bytes - found.private_working_set_bytes
    assert computed / found.physical_total_bytes == pytest.approx(0.59, abs=0.01)
    assert 0.8 * GIB < computed - found.available_bytes < 2.2 * GIB
    assert harm(made.truth(600)) == (False, False)


def test_a_pod_that_takes_all_of_ram_shows_as_more_than_100_percent_of_allocatable() -> None:
    """kubernetes/kubernetes#73417: 500 MB at a time until nothing is left; the node showed 6962Mi, 115 %."""
    allocatable = 6962 * MIB / 1.15
    others = [script("steady", size, touchedPercent=100) for size in ("150Mi", "869Mi", "90Mi", "85Mi")]
    hog = script("leak", "500Mi", growthPerMinute="6Gi", maximum="7Gi", activePercent=90)
    node = hardware(ram=8 * GIB, page_file=SystemManagedPageFile())
    made = machine([*others, hog], hardware=node)
    found = made.reading(120)
    assert found.private_working_set_bytes / allocatable == pytest.approx(1.15, abs=0.05)
    assert pod_in(found, "p4").private_working_set_bytes / MIB == pytest.approx(6367, rel=0.05)
    assert found.available_bytes < 0.05 * found.physical_total_bytes
    assert made.truth(120).allocations_denied == 0


@pytest.mark.slow
def test_allocations_fail_while_the_page_file_was_never_more_than_58_percent_full() -> None:
    """Azure/AKS#1941: 8,096 MB, of which 4,714 were used at most, and "the paging file is too small"."""
    pods = [script("leak", "1.2Gi", growthPerMinute="120Mi", activePercent=20)] * 6
    hogs = [script("hog", "5Gi", touchedPercent=33)]
    made = machine([*pods, *hogs])
    used = 0
    for at in range(0, 1800, 30):
        found = made.reading(at)
        used = max(used, found.page_file_limit_bytes - found.page_file_free_bytes)
    assert found.page_file_limit_bytes == 8096 * MIB
    assert used / MIB == pytest.approx(4714, rel=0.05)
    assert made.truth(1800).allocations_denied > 0


MANAGED = Hardware(ram_bytes=16 * GIB, page_file=SystemManagedPageFile())
BASE = script("steady", "4Gi")
DENIED, THRASHED = (True, False), (False, True)
BOTH, NEITHER = (True, True), (False, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scripts", "node", "expected"),
    [
        pytest.param([script("steady", "11Gi")], AKS, NEITHER, id="steady and high"),
        pytest.param([script("sawtooth", "1Gi", peak="9Gi")], AKS, NEITHER, id="garbage collector"),
        pytest.param([script("steady", "2Gi", fileReadsPerSecond=3000)], AKS, NEITHER, id="file reads"),
        pytest.param([script("burst", "1Gi", burst="6Gi", afterSeconds=60)], AKS, NEITHER, id="small burst"),
        pytest.param([script("hog", "40Gi")], AKS, DENIED, id="hog with free RAM"),
        pytest.param(
            [script("leak", "1Gi", growthPerMinute="600Mi", activePercent=10)], AKS, DENIED, id="cold leak"
        ),
        pytest.param(
            [script("leak", "1Gi", growthPerMinute="600Mi", activePercent=95)],
            MANAGED,
            THRASHED,
            id="leak that is used, growing page file",
        ),
        pytest.param([script("pageStorm", "14Gi", afterSeconds=60)], AKS, THRASHED, id="page storm"),
        pytest.param(
            [script("leak", "1Gi", growthPerMinute="600Mi", activePercent=95)],
            AKS,
            BOTH,
            id="leak that is used",
        ),
        pytest.param(
            [script("burst", "1Gi", burst="20Gi", afterSeconds=60, lastsSeconds=300)],
            AKS,
            BOTH,
            id="large burst",
        ),
        pytest.param([script("osLeak", growthPerMinute="900Mi")], AKS, DENIED, id="non-paged pool"),
    ],
)
def test_each_kind_of_trouble_does_its_own_harm(scripts: list[Any], node: Hardware, expected: Any) -> None:
    """On 16 GiB with a usual pod of 4 GiB beside it, for 40 minutes."""
    made = machine([BASE, *scripts], hardware=node)
    assert harm(made.truth(2400)) == expected


def test_harm_shows_in_the_figures_that_people_watch() -> None:
    """Otherwise no detector could find it: little is available, and pages are read and written."""
    made = machine([BASE, script("pageStorm", "14Gi", afterSeconds=60)])
    first, last = made.reading(300), made.reading(360)
    assert last.available_bytes < 0.05 * last.physical_total_bytes
    assert (last.page_reads_total - first.page_reads_total) / 60 > 1000
    assert (last.pages_written_total - first.pages_written_total) / 60 > 100
