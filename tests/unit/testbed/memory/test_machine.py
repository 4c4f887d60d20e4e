"""One machine: commit and its limit, page file, working sets, paging, and pods that come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.machine_memory import AKS, harm, machine, pod, pod_in, script, workload
from testbed.memory.hardware import Disk, FixedPageFile, Hardware, OsFootprint, SystemManagedPageFile
from testbed.memory.pages import GIB, MIB
from testbed.memory.workloads import OsLeak

MANAGED = Hardware(ram_bytes=16 * GIB, page_file=SystemManagedPageFile())


def test_an_idle_machine_has_what_windows_takes() -> None:
    found = machine().reading(0)
    os = OsFootprint()
    assert found.commit_total_bytes == os.committed_bytes
    assert found.commit_limit_bytes == 16 * GIB + 8096 * MIB
    assert found.available_bytes == pytest.approx(
        16 * GIB - os.resident_bytes + os.process_bytes * 0.3, rel=1e-4
    )
    assert (found.pool_nonpaged_bytes, found.pool_paged_bytes) == (250 * MIB, 250 * MIB)
    assert found.page_file_free_bytes == found.page_file_limit_bytes == 8096 * MIB
    assert found.modified_page_list_bytes == os.modified_bytes
    assert found.pods == ()


def test_a_pod_adds_what_it_commits_and_what_it_has_written_to() -> None:
    idle = machine().reading(10)
    found = machine([script("steady", "4Gi", touchedPercent=75)]).reading(10)
    assert found.commit_total_bytes - idle.commit_total_bytes == 4 * GIB
    assert found.private_working_set_bytes - idle.private_working_set_bytes == 3 * GIB
    assert idle.available_bytes - found.available_bytes == 3 * GIB
    [only] = found.pods
    assert (only.namespace, only.name, only.uid) == ("shop", "p0", "uid-p0")
    assert (only.commit_bytes, only.private_working_set_bytes) == (4 * GIB, 3 * GIB)


# ── Commit ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_exceeds_the_limit_is_denied_while_ram_is_free() -> None:
    made = machine([script("hog", "40Gi", rampSeconds=60)])
    before = made.truth(30)
    found, truth = made.reading(600), made.truth(600)
    assert before.allocations_denied == 0
    assert found.commit_total_bytes == found.commit_limit_bytes
    assert found.available_bytes > found.physical_total_bytes / 2
    assert truth.seconds_denied == truth.allocations_denied > 500
    assert truth.seconds_thrashing == 0


def test_where_commit_runs_short_everybody_who_asks_gets_the_same_part() -> None:
    found = machine([script("steady", "12Gi"), script("steady", "24Gi")]).reading(0)
    small, large = (pod_in(found, name).commit_bytes for name in ("p0", "p1"))
    assert found.commit_total_bytes == found.commit_limit_bytes
    assert large == pytest.approx(2 * small, rel=1e-6)


def test_a_pod_that_was_denied_asks_again_and_gets_it_when_another_is_gone() -> None:
    made = machine([script("steady", "20Gi", touchedPercent=10), script("steady", "10Gi")])
    assert pod_in(made.reading(5), "p1").commit_bytes < 10 * GIB
    made.stop("uid-p0", at=10)
    assert pod_in(made.reading(10), "p1").commit_bytes == 10 * GIB
    denied = made.truth(10).allocations_denied
    assert made.truth(100).allocations_denied == denied


def test_a_leak_does_not_catch_up_with_what_it_was_denied() -> None:
    leak = script("leak", "1Gi", growthPerMinute="6Gi", activePercent=0)
    made = machine([script("steady", "18Gi", touchedPercent=10), leak])
    stuck = pod_in(made.reading(100), "p1").commit_bytes
    assert pod_in(made.reading(130), "p1").commit_bytes == stuck
    made.stop("uid-p0", at=131)
    grown = pod_in(made.reading(141), "p1").commit_bytes - stuck
    assert grown == pytest.approx(11 * 6 * GIB / 60, rel=0.01)


# ── The page file ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_fixed_page_file_never_grows() -> None:
    made = machine([script("leak", "1Gi", growthPerMinute="6Gi")])
    assert {made.reading(at).page_file_limit_bytes for at in (0, 100, 300)} == {8096 * MIB}


def test_a_managed_page_file_grows_only_from_90_percent_on() -> None:
    made = machine([script("leak", "1Gi", growthPerMinute="1Gi", activePercent=0)], hardware=MANAGED)
    sizes = []
    for at in range(0, 3000, 10):
        found = made.reading(at)
        if found.page_file_limit_bytes == 2 * GIB:  # RAM / 8
            assert found.commit_total_bytes <= 0.9 * found.commit_limit_bytes
        elif found.page_file_limit_bytes < 48 * GIB:
            assert found.commit_total_bytes == pytest.approx(0.9 * found.commit_limit_bytes, rel=0.001)
        sizes.append(found.page_file_limit_bytes)
    assert sizes[0] == 2 * GIB
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 100
    assert made.truth(3000).allocations_denied == 0


@pytest.mark.parametrize(
    ("ram", "maximum", "most"),
    [(16, None, 48), (16, 20, 20), (16, 100, 48), (3, None, 9), (3, 5, 5)],
)
def test_a_managed_page_file_ends_at_three_times_ram_or_at_its_maximum(
    ram: int, maximum: int | None, most: int
) -> None:
    file = SystemManagedPageFile(maximum_bytes=None if maximum is None else maximum * GIB)
    hardware = Hardware(ram_bytes=ram * GIB, page_file=file)
    made = machine([script("hog", "200Gi", touchedPercent=0)], hardware=hardware)
    found = made.reading(600)
    assert found.page_file_limit_bytes == most * GIB
    assert found.commit_total_bytes == found.commit_limit_bytes == (ram + most) * GIB
    assert made.truth(600).allocations_denied > 0


def test_small_machines_may_have_4_gib_of_managed_page_file() -> None:
    small = OsFootprint(
        process_bytes=100 * MIB,
        shared_bytes=100 * MIB,
        paged_pool_bytes=50 * MIB,
        nonpaged_pool_bytes=50 * MIB,
    )
    hardware = Hardware(ram_bytes=GIB, page_file=SystemManagedPageFile(), os=small)
    assert machine([script("hog", "9Gi")], hardware=hardware).reading(300).page_file_limit_bytes == 4 * GIB


def test_a_managed_page_file_goes_on_growing_when_nobody_asks_any_more() -> None:
    made = machine([script("steady", "16.5Gi", touchedPercent=0)], hardware=MANAGED)
    assert made.reading(0).page_file_limit_bytes < made.reading(1).page_file_limit_bytes
    found = made.reading(600)
    assert found.commit_total_bytes == pytest.approx(0.9 * found.commit_limit_bytes, rel=1e-6)


def test_a_page_file_that_cannot_grow_fast_enough_denies_a_sudden_allocation() -> None:
    sudden = script("burst", "1Gi", burst="20Gi", rampSeconds=0, afterSeconds=10, lastsSeconds=600)
    made = machine([sudden], hardware=MANAGED)
    assert made.truth(9).seconds_denied == 0
    assert 1 <= made.truth(300).seconds_denied <= 30
    assert pod_in(made.reading(300), "p0").commit_bytes == 21 * GIB


def test_a_machine_without_a_page_file_promises_no_more_than_ram() -> None:
    hardware = Hardware(ram_bytes=8 * GIB, page_file=FixedPageFile(size_bytes=0))
    made = machine([script("leak", "1Gi", growthPerMinute="2Gi")], hardware=hardware)
    found = made.reading(600)
    assert found.commit_total_bytes == found.commit_limit_bytes == 8 * GIB
    assert (found.page_file_limit_bytes, found.page_file_free_bytes) == (0, 0)
    assert found.pages_written_total == 0
    assert found.modified_page_list_bytes == OsFootprint().modified_bytes
    assert pod_in(found, "p0").private_working_set_bytes > 0.9 * pod_in(found, "p0").commit_bytes


# ── Physical memory ─────────────────────────────────────────────────────────────────────────────────────────


def test_under_pressure_cold_pages_are_trimmed_and_nobody_waits() -> None:
    cold = script("steady", "10Gi", touchedPercent=100, activePercent=5)
    made = machine([cold, script("leak", "1Gi", growthPerMinute="300Mi", activePercent=5)])
    first, last, truth = made.reading(60), made.reading(1800), made.truth(1800)
    assert pod_in(last, "p0").private_working_set_bytes < pod_in(first, "p0").private_working_set_bytes
    assert pod_in(last, "p0").commit_bytes == pod_in(first, "p0").commit_bytes
    assert last.available_bytes < 0.03 * last.physical_total_bytes
    assert last.pages_written_total > first.pages_written_total
    assert last.page_file_free_bytes < first.page_file_free_bytes
    assert harm(truth) == (False, False)


def test_pages_that_are_in_use_do_not_fit_so_they_are_read_again_and_again() -> None:
    made = machine([script("pageStorm", "18Gi", afterSeconds=60)])
    calm, storm, later = made.reading(60), made.reading(300), made.reading(360)
    reads = (later.page_reads_total - storm.page_reads_total) / 60
    assert calm.pages_read_total < (later.pages_read_total - storm.pages_read_total) / 10
    assert 1000 < reads <= Disk().reads_per_second
    assert later.pages_written_total - storm.pages_written_total > 60 * 100
    assert later.transition_pages_repurposed_total > storm.transition_pages_repurposed_total
    assert made.truth(360).stall > 0.5
    assert made.truth(360).seconds_denied == 0


def test_part_of_what_is_read_back_is_changed_and_written_again() -> None:
    roomy = replace(AKS, page_file=FixedPageFile(size_bytes=64 * GIB))
    made = machine([script("pageStorm", "18Gi")], hardware=roomy)
    first, last = made.reading(600), made.reading(660)
    written = last.pages_written_total - first.pages_written_total
    assert written == pytest.approx((last.pages_read_total - first.pages_read_total) / 2, rel=0.1)


def test_what_waits_to_be_written_is_written_when_the_pressure_is_over() -> None:
    slow = replace(AKS, disk=Disk(write_bytes_per_second=2 * MIB))
    cold = script("steady", "10Gi", touchedPercent=100, activePercent=5)
    made = machine([cold, script("leak", "1Gi", growthPerMinute="600Mi")], hardware=slow)
    made.stop("uid-p1", at=400)
    assert made.reading(399).modified_page_list_bytes > OsFootprint().modified_bytes
    assert made.reading(401).available_bytes > 3 * GIB
    assert made.reading(9000).modified_page_list_bytes == OsFootprint().modified_bytes


def test_a_noisy_neighbour_takes_the_working_set_of_a_quiet_pod() -> None:
    quiet = script("steady", "4Gi", activePercent=90)
    made = machine([quiet, script("pageStorm", "18Gi", afterSeconds=60)])
    before, after = made.reading(50), made.reading(300)
    assert pod_in(after, "p0").private_working_set_bytes < pod_in(before, "p0").private_working_set_bytes / 2


def test_a_slow_disk_makes_the_same_paging_cost_more_time() -> None:
    scripts = [script("pageStorm", "15.5Gi", afterSeconds=60)]
    slow = replace(AKS, disk=Disk(reads_per_second=500))
    assert (
        machine(scripts, hardware=slow).truth(600).seconds_lost > machine(scripts).truth(600).seconds_lost > 0
    )


def test_reading_files_is_no_paging() -> None:
    made = machine([script("steady", "4Gi", fileReadsPerSecond=2500)])
    first, last = made.reading(1000), made.reading(1600)
    assert last.page_reads_total - first.page_reads_total == 600 * 2500
    assert last.transition_pages_repurposed_total > first.transition_pages_repurposed_total
    assert last.pages_written_total == 0
    assert last.available_bytes == first.available_bytes
    assert made.truth(1600).seconds_lost == 0


def test_files_are_read_no_faster_than_the_disk_can() -> None:
    made = machine([script("steady", "4Gi", fileReadsPerSecond=9000)] * 2)
    first, last = made.reading(1000), made.reading(1600)
    assert last.page_reads_total - first.page_reads_total == 600 * 3200  # 80 % of the disk


def test_reading_files_leaves_less_of_the_disk_for_paging() -> None:
    storm = script("pageStorm", "15.5Gi", afterSeconds=60)
    busy = {**storm, "fileReadsPerSecond": 3000}
    assert machine([busy]).truth(600).seconds_lost > machine([storm]).truth(600).seconds_lost


def test_free_pages_are_used_before_old_file_contents() -> None:
    idle = machine().reading(0).available_bytes
    some = machine([script("steady", "6Gi")]).reading(10)
    most = machine([script("steady", "12Gi")]).reading(10)
    assert some.transition_pages_repurposed_total == 0
    assert idle - most.available_bytes == pytest.approx(12 * GIB * 0.8, rel=1e-6)
    assert most.transition_pages_repurposed_total > 0


def test_a_stretch_below_ten_seconds_is_no_thrashing() -> None:
    """A sudden growth that has to wait for pages for a moment is counted as lost time only."""
    burst = script("burst", "1Gi", burst="700Mi", rampSeconds=2, lastsSeconds=60, afterSeconds=20)
    made = machine([script("steady", "13Gi", touchedPercent=100, activePercent=5), burst])
    truth = made.truth(300)
    assert truth.seconds_lost > 1
    assert truth.seconds_thrashing == 0


# ── Windows itself ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("into", ["NonPagedPool", "PagedPool", "Processes"])
def test_an_os_leak_is_seen_where_windows_loses_memory_and_in_no_pod(into: str) -> None:
    made = machine([script("osLeak", growthPerMinute="300Mi", into=into), script("steady", "2Gi")])
    before, after = made.reading(0), made.reading(600)
    lost = 10 * 300 * MIB
    assert after.commit_total_bytes - before.commit_total_bytes == lost
    assert sum(each.commit_bytes for each in after.pods) == sum(each.commit_bytes for each in before.pods)
    grown = {
        "NonPagedPool": after.pool_nonpaged_bytes - before.pool_nonpaged_bytes,
        "PagedPool": after.pool_paged_bytes - before.pool_paged_bytes,
        "Processes": after.private_working_set_bytes - before.private_working_set_bytes,
    }
    assert grown == {name: lost if name == into else 0 for name in grown}


def test_what_windows_has_lost_stays_lost_when_the_pod_is_gone() -> None:
    made = machine([script("osLeak", growthPerMinute="600Mi")])
    made.stop("uid-p0", at=600)
    lost = made.reading(599).pool_nonpaged_bytes
    assert made.reading(601).pool_nonpaged_bytes == made.reading(9999).pool_nonpaged_bytes == lost
    assert made.reading(9999).pods == ()


def test_windows_can_lose_memory_without_any_pod() -> None:
    made = machine()
    leak = workload(script("osLeak", growthPerMinute="300Mi"))
    assert isinstance(leak, OsLeak)
    made.lose_memory(leak, at=60)
    assert made.reading(60).pool_nonpaged_bytes == 250 * MIB
    assert made.reading(120).pool_nonpaged_bytes == 550 * MIB
    assert made.reading(120).pods == ()


def test_windows_may_lose_memory_in_two_places_while_pods_come_and_go() -> None:
    leak = workload(script("osLeak", growthPerMinute="60Mi"))
    assert isinstance(leak, OsLeak)
    made = machine([script("steady", "1Gi")] * 2)
    made.lose_memory(leak, at=0)
    for name in ("uid-p0", "uid-p1"):
        made.stop(name, at=10)
    made.step(20)
    made.lose_memory(leak, at=60)
    assert made.reading(120).pool_nonpaged_bytes == 250 * MIB + 180 * MIB


def test_the_kernel_is_denied_more_non_paged_pool_than_leaves_room_for_windows() -> None:
    made = machine([script("osLeak", growthPerMinute="3Gi")])
    found = made.reading(1200)
    assert found.pool_nonpaged_bytes == 12 * GIB
    assert found.commit_total_bytes < found.commit_limit_bytes
    assert made.truth(1200).allocations_denied > 0


# ── Pods that come and go ───────────────────────────────────────────────────────────────────────────────────


def test_memory_is_free_when_the_grace_is_over_and_not_before() -> None:
    made = machine([script("steady", "4Gi")])
    idle = machine().reading(0)
    made.step(100)
    made.stop("uid-p0", at=130.5)
    assert pod_in(made.reading(130), "p0").commit_bytes == 4 * GIB
    found = made.reading(131)
    assert found.pods == ()
    assert found.commit_total_bytes == idle.commit_total_bytes
    assert found.available_bytes == idle.available_bytes


def test_a_start_and_an_end_within_a_quiet_stretch_are_not_missed() -> None:
    made = machine([script("steady", "4Gi")])
    made.start(pod("late"), workload(script("steady", "1Gi")), at=500)
    made.stop("uid-p0", at=700)
    found = made.reading(1000)
    assert [(each.name, each.commit_bytes) for each in found.pods] == [("late", GIB)]
    assert found.commit_total_bytes == OsFootprint().committed_bytes + GIB


def test_the_last_word_about_the_end_counts() -> None:
    """A grace may be shortened, as by kubectl delete --force."""
    made = machine([script("steady", "4Gi")])
    made.stop("uid-p0", at=500)
    made.stop("uid-p0", at=50)
    assert made.reading(49).pods
    assert not made.reading(50).pods


def test_a_pod_has_no_memory_before_its_start() -> None:
    made = machine()
    made.start(pod("late"), workload(script("steady", "1Gi")), at=60)
    assert made.reading(59).pods == ()
    assert pod_in(made.reading(60), "late").commit_bytes == GIB


def test_a_leak_counts_from_the_start_of_its_pod() -> None:
    made = machine()
    made.step(100)
    made.start(pod("late"), workload(script("leak", "1Gi", growthPerMinute="60Mi")), at=100)
    assert pod_in(made.reading(160), "late").commit_bytes == GIB + 60 * MIB


def test_pods_of_equal_needs_are_told_apart() -> None:
    made = machine([script("steady", "1Gi")] * 3)
    made.stop("uid-p2", at=5)
    made.step(10)
    made.start(pod("p3"), workload(script("leak", "1Gi", growthPerMinute="60Mi")), at=10)
    found = made.reading(70)
    assert [(each.name, each.commit_bytes) for each in found.pods] == [
        ("p0", GIB),
        ("p1", GIB),
        ("p3", GIB + 60 * MIB),
    ]
    assert found.commit_total_bytes == OsFootprint().committed_bytes + 3 * GIB + 60 * MIB


def test_a_pod_starts_once_and_only_what_has_started_stops() -> None:
    made = machine([script("steady", "1Gi")])
    with pytest.raises(ValueError, match="shop/p0: UID uid-p0 has been started before"):
        made.start(pod("p0"), workload(script("steady", "1Gi")), at=1)
    with pytest.raises(ValueError, match="no pod of the UID uid-p1 has memory"):
        made.stop("uid-p1", at=1)


def test_time_does_not_run_backwards() -> None:
    made = machine(started_at=1000)
    with pytest.raises(ValueError, match="999 is before 1000"):
        made.step(999)
    made.step(1060.5)
    with pytest.raises(ValueError, match="1059 is before 1060"):
        made.reading(1059)


def test_a_reading_is_of_the_last_full_second() -> None:
    made = machine(started_at=1000.25)
    assert [made.reading(at).time for at in (1000.25, 1000.9, 1001.25, 1061.2)] == [
        *(1000.25, 1000.25, 1001.25, 1060.25)
    ]


@pytest.mark.parametrize(
    ("wrong", "mistake"),
    [
        (lambda: Hardware(ram_bytes=GIB), "ram_bytes: 1073741824 is not more than Windows takes"),
        (lambda: FixedPageFile(size_bytes=-1), "size_bytes: -1 is below 0"),
        (lambda: SystemManagedPageFile(maximum_bytes=-1), "maximum_bytes: -1 is below 0"),
        (lambda: Disk(reads_per_second=0), "reads_per_second: 0 is not above 0"),
        (lambda: replace(AKS, trim_below=0.5), "trim_below: 0.5 is not between 0 and 0.5"),
    ],
)
def test_a_machine_that_cannot_be_is_refused_by_the_name_of_the_field(wrong: Any, mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        wrong()
