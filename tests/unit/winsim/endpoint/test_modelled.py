"""The memory of simulated machines: what pods have of it, from when and until when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from testbed.memory.hardware import FixedPageFile, SystemManagedPageFile
from testbed.memory.workloads import LeaksInto, OsLeak
from testbed.winsim.endpoint.looks import Looks
from testbed.winsim.endpoint.modelled import ModelledMemory, hardware_of, parse_page_file
from testbed.winsim.endpoint.tenants import Tenants
from testbed.winsim.pods.objects import (
    Container,
    Pod,
    PodMetadata,
    PodSpec,
    PodStatus,
    SecurityContext,
    WindowsOptions,
)
from unit.winsim.endpoint.scenes import GIB, NOW, a_machine

MIB = 1 << 20
LEAK = '{"workload": "leak", "commit": "1Gi", "growthPerMinute": "600Mi"}'


class World:
    """One machine, its pods, and what time it is."""

    def __init__(self, *, size: str = "16Gi") -> None:
        self.now = NOW
        self.said: list[str] = []
        self.tenants = Tenants(
            started=lambda node, tenant: self.memory.start(node, tenant, at=self.now),
            stopped=lambda node, uid: self.memory.stop(node, uid, at=self.now),
        )
        self.memory = ModelledMemory(
            self.tenants, page_file=FixedPageFile(size_bytes=8 * GIB), say=self.said.append
        )
        self.machine = a_machine(memory=size)

    def boot(self) -> None:
        self.memory.boot(self.machine, at=self.now)

    def commit(self) -> int:
        return self.memory.reading("win-w01", self.now).commit_total_bytes

    def pods(self) -> dict[str, int]:
        pods = self.memory.reading("win-w01", self.now).pods
        return {pod.uid: pod.commit_bytes // MIB for pod in pods}


def a_pod(
    *, uid: str = "u1", phase: str = "Running", workload: str | None = None, host_process: bool = False
) -> Pod:
    annotations = {"other": "x"} if workload is None else {"winsim/memory": workload, "other": "x"}
    context = SecurityContext(WindowsOptions(host_process)) if host_process else None
    return Pod(
        PodMetadata(name=f"shop-{uid}", namespace="web", uid=uid, annotations=annotations),
        PodSpec(node_name="win-w01", containers=(Container("app"),), security_context=context),
        PodStatus(phase=phase, start_time="2026-11-21T07:00:00Z"),
    )


@pytest.mark.parametrize("end", [a_pod(phase="Failed"), None])
def test_a_pod_has_memory_from_when_it_runs_until_it_has_stopped_or_is_gone(end: Pod | None) -> None:
    world = World()
    world.boot()
    idle = world.commit()
    world.tenants.note("u1", a_pod(phase="Pending"))
    world.now += 10
    assert world.commit() == idle
    world.tenants.note("u1", a_pod())
    world.tenants.note("u1", a_pod())
    world.now += 10
    assert world.pods() == {"u1": 256}
    assert world.commit() == idle + 256 * MIB
    world.tenants.note("u1", end)
    world.now += 10
    assert world.commit() == idle
    assert world.pods() == {}


def test_pods_that_are_there_before_the_machine_start_with_it() -> None:
    world = World()
    world.tenants.note("u1", a_pod())
    world.boot()
    world.now += 5
    assert world.pods() == {"u1": 256}


def test_an_annotation_says_what_a_pod_does_with_memory() -> None:
    world = World()
    world.boot()
    world.tenants.note("u1", a_pod(workload=LEAK))
    world.now += 60
    (leaked,) = world.pods().values()
    assert leaked == pytest.approx(1024 + 600, rel=0.05)
    assert not world.said


def test_a_mistake_in_an_annotation_is_said_and_the_pod_is_like_one_without() -> None:
    world = World()
    world.boot()
    world.tenants.note("u1", a_pod(workload='{"workload": "flood"}'))
    world.now += 5
    assert world.pods() == {"u1": 256}
    (said,) = world.said
    assert "pod web/shop-u1: winsim/memory" in said
    assert "'flood'" in said


def test_what_nobody_looked_at_has_happened_all_the_same() -> None:
    patient, curious = World(), World()
    for world in (patient, curious):
        world.boot()
        world.tenants.note("u1", a_pod(workload=LEAK))
    for _ in range(90):
        curious.now += 1
        curious.commit()
    patient.now += 90
    assert patient.commit() == curious.commit()


def test_windows_itself_loses_memory_outside_of_pods() -> None:
    world = World()
    world.boot()
    before = world.memory.reading("win-w01", world.now)
    leak = OsLeak.model_validate({"growth_per_minute": "300Mi", "into": LeaksInto.NONPAGED_POOL})
    world.memory.lose_memory("win-w01", leak, at=world.now)
    world.now += 120
    after = world.memory.reading("win-w01", world.now)
    assert after.pool_nonpaged_bytes - before.pool_nonpaged_bytes == pytest.approx(600 * MIB, rel=0.05)
    assert after.pods == ()


def test_within_a_second_a_machine_looks_the_same_with_the_same_pods() -> None:
    world = World()
    world.boot()
    looks = Looks(world.memory, tenants=world.tenants)
    world.now += 5
    first = looks.at("win-w01", world.now)
    world.tenants.note("u1", a_pod())
    assert looks.at("win-w01", world.now + 0.5) is first
    world.now += 3
    later = looks.at("win-w01", world.now)
    assert [pod.uid for pod in later.reading.pods] == list(later.tenants) == ["u1"]


def test_of_a_pod_is_kept_what_its_memory_goes_by() -> None:
    world = World()
    world.tenants.note("u1", a_pod(workload=LEAK, host_process=True))
    (tenant,) = world.tenants.on("win-w01").values()
    assert (tenant.host_process, tenant.containers) == (True, ("app",))
    assert tenant.annotations == {"winsim/memory": LEAK}
    assert tenant.started == datetime(2026, 11, 21, 7, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("size", ["512Mi", "2Gi", "4Gi", "512Gi"])
def test_machines_of_every_size_can_be_simulated(size: str) -> None:
    world = World(size=size)
    world.boot()
    reading = world.memory.reading("win-w01", world.now + 60)
    assert reading.physical_total_bytes == world.machine.hardware.memory_ki * 1024
    assert 0 < reading.available_bytes < reading.physical_total_bytes
    hardware = hardware_of(world.machine, page_file=SystemManagedPageFile())
    assert hardware.os.resident_bytes < hardware.ram_bytes


def test_a_page_file_is_managed_or_of_a_fixed_size() -> None:
    assert parse_page_file("managed") == SystemManagedPageFile()
    assert parse_page_file("8096Mi") == FixedPageFile(size_bytes=8096 * MIB)
    with pytest.raises(ValueError, match="is not a size of memory"):
        parse_page_file("big")


def test_changes_are_counted_where_nothing_else_changes_memory() -> None:
    world = World()
    world.boot()
    assert world.memory.changes("win-w01") == 0
    world.tenants.note("u1", a_pod())
    world.tenants.note("u2", a_pod(uid="u2", workload=LEAK))
    assert world.memory.changes("win-w01") is None
    world.tenants.note("u2", None)
    assert world.memory.changes("win-w01") == 3
    world.memory.lose_memory("win-w01", OsLeak.model_validate({"growth_per_minute": "1Mi"}), at=world.now)
    assert world.memory.changes("win-w01") is None
