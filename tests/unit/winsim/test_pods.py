"""What a simulated kubelet does about a pod, and what it says about it."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.every import every
from testbed.winsim.clock import SystemClock
from testbed.winsim.machines import Machine, Setup, build_machine
from testbed.winsim.pods import containers, events, status
from testbed.winsim.pods.addresses import PodAddresses
from testbed.winsim.pods.agenda import Agenda
from testbed.winsim.pods.objects import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodMetadata,
    PodOS,
    PodOwner,
    PodSpec,
    PodStatus,
    ReadinessGate,
    Running,
    State,
    Volume,
    Waiting,
)
from testbed.winsim.pods.pulls import full_reference
from testbed.winsim.pods.steps import NONE_YET, Do, Efforts, PodTiming, Step, next_step, refusal
from testbed.winsim.samples import SAMPLES

NOW = datetime(2026, 11, 21, 8, 0, 1, tzinfo=UTC)
THEN = "2026-11-21T07:00:00Z"
TIMING = PodTiming(start=0.5, stop=2.0)
READY = (PodCondition("Ready", "True"), PodCondition("ContainersReady", "True"))
UNREADY = (PodCondition("Ready", "False"), PodCondition("ContainersReady", "False"))
FOR_LINUX = {"winsim/image-os": "linux"}


def a_pod(
    *,
    phase: str = "Pending",
    conditions: tuple[PodCondition, ...] = (),
    started: bool = False,
    deleted: bool = False,
    grace: int | None = None,
    os: str | None = None,
    gates: tuple[str, ...] = (),
    init: tuple[Container, ...] = (),
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    waiting: str = "",
    policy: str = "Always",
    restarts: int = 0,
    ip: str = "",
    host: bool = False,
    volume: str = "",
) -> Pod:
    containers: tuple[ContainerStatus, ...] = ()
    if phase == "Running":
        containers = (ContainerStatus("app", State(Running(THEN)), restart_count=restarts),)
    if waiting:
        containers = (ContainerStatus("app", State(waiting=Waiting(waiting)), restart_count=restarts),)
    return Pod(
        metadata=PodMetadata(
            name="p",
            namespace="default",
            uid="u1",
            generation=3,
            labels=labels or {},
            annotations=annotations or {},
            deletion_timestamp=THEN if deleted else None,
            deletion_grace_period_seconds=grace,
        ),
        spec=PodSpec(
            node_name="win-w01",
            containers=(Container("app", "example.com:5000/team/app:1.2"), Container("log", "fluent")),
            init_containers=init,
            os=PodOS(os) if os else None,
            readiness_gates=tuple(ReadinessGate(gate) for gate in gates),
            restart_policy=policy,
            host_network=host,
            volumes=(Volume(volume),) if volume else (),
        ),
        status=PodStatus(
            phase=phase,
            conditions=conditions,
            pod_ip=ip,
            start_time=THEN if started else None,
            container_statuses=containers,
        ),
    )


def step(
    pod: Pod,
    *,
    family: str = "windows",
    timing: PodTiming = TIMING,
    ready: bool = True,
    booted: str = "",
    efforts: Efforts = NONE_YET,
    build: str = "",
) -> Step | None:
    return next_step(
        pod,
        family=family,
        timing=timing,
        now=NOW,
        build=build,
        ready=ready,
        booted=booted,
        efforts=efforts,
    )


@every(
    ("pod", "expected"),
    [
        (a_pod(), Step(Do.CREATE)),
        (a_pod(phase=""), Step(Do.CREATE)),
        (a_pod(started=True), Step(Do.RUN, 0.5)),
        (a_pod(annotations={"winsim/start-seconds": "9"}, started=True), Step(Do.RUN, 9)),
        (a_pod(annotations={"winsim/start-seconds": "0"}), Step(Do.RUN, 0)),
        (a_pod(annotations={"winsim/start-seconds": "nan"}, started=True), Step(Do.RUN, 0.5)),
        (a_pod(os="windows"), Step(Do.CREATE)),
        (a_pod(os="linux"), Step(Do.REFUSE)),
        (a_pod(labels={"kubernetes.io/os": "linux"}), Step(Do.REFUSE)),
        (a_pod(labels={"kubernetes.io/os": "windows"}), Step(Do.CREATE)),
        (a_pod(annotations=FOR_LINUX), Step(Do.CREATE)),
        (a_pod(annotations=FOR_LINUX, started=True), Step(Do.FAIL_PULL, 0.5)),
        (a_pod(annotations=FOR_LINUX, started=True, waiting="ContainerCreating"), Step(Do.FAIL_PULL, 0.5)),
        (a_pod(annotations=FOR_LINUX, started=True, waiting="ErrImagePull"), Step(Do.BACK_OFF, 10)),
        (a_pod(annotations=FOR_LINUX, started=True, waiting="ImagePullBackOff"), None),
        (a_pod(annotations=FOR_LINUX, started=True, waiting="ImagePullBackOff", deleted=True), Step(Do.STOP)),
        (a_pod(started=True, waiting="ImagePullBackOff"), Step(Do.RUN, 0.5)),
        (a_pod(annotations={"winsim/image-os": "windows"}, started=True), Step(Do.RUN, 0.5)),
        (a_pod(annotations={"winsim/unmanaged": "true"}), None),
        (a_pod(annotations={"winsim/unmanaged": "true"}, deleted=True, grace=30), None),
        (a_pod(phase="Running", conditions=READY), None),
        (a_pod(phase="Running", conditions=READY, os="linux"), None),
        (a_pod(phase="Running", conditions=(PodCondition("Ready", "False"), READY[1])), Step(Do.MEND)),
        (a_pod(phase="Running", conditions=READY, gates=("g",)), Step(Do.MEND)),
        (a_pod(phase="Running", conditions=(READY[1], PodCondition("g", "False")), gates=("g",)), None),
        (a_pod(phase="Running", conditions=(*READY, PodCondition("g", "True")), gates=("g",)), None),
        (a_pod(phase="Running", deleted=True, grace=30), Step(Do.STOP, 2.0)),
        (a_pod(phase="Running", deleted=True, grace=1), Step(Do.STOP, 1)),
        (
            a_pod(phase="Running", deleted=True, grace=30, annotations={"winsim/stop-seconds": "3600"}),
            Step(Do.STOP, 30),
        ),
        (a_pod(deleted=True, grace=30, started=True), Step(Do.STOP, 0.0)),
        (a_pod(phase="Succeeded", deleted=True, grace=30), Step(Do.REMOVE)),
        (a_pod(phase="Failed", deleted=True, grace=30), Step(Do.REMOVE)),
        (a_pod(phase="Failed", deleted=True, grace=0), None),
        (a_pod(phase="Failed"), None),
        (a_pod(phase="Succeeded", os="linux"), None),
    ],
)
def test_what_is_to_be_done_is_told_from_the_pod_alone(pod: Pod, expected: Step | None) -> None:
    assert step(pod) == expected


@pytest.mark.parametrize(
    ("pod", "ready", "expected"),
    [
        (a_pod(phase="Running", conditions=READY), True, None),
        (a_pod(phase="Running", conditions=READY), False, Step(Do.MEND)),
        (a_pod(phase="Running", conditions=UNREADY), False, None),
        (a_pod(phase="Running", conditions=UNREADY), True, Step(Do.MEND)),
        # The controller manager has marked the pod of a silent node, whose containers are well.
        (a_pod(phase="Running", conditions=(UNREADY[0], READY[1])), False, Step(Do.MEND)),
        (a_pod(phase="Running", conditions=UNREADY, gates=("g",)), False, None),
    ],
)
def test_containers_are_ready_or_not_as_the_kubelet_was_told(
    pod: Pod, ready: bool, expected: Step | None
) -> None:
    assert step(pod, ready=ready) == expected


WORKS = {"winsim/run-seconds": "5000"}
WORKED = {"winsim/run-seconds": "60"}
NO_NUMBERS = ({"winsim/run-seconds": "x"}, {"winsim/run-seconds": "nan"})
LATER = "2026-11-21T07:00:01Z"


def at_work(annotations: dict[str, str] | None = None, *, policy: str = "Never") -> Pod:
    return a_pod(phase="Running", conditions=READY, annotations=annotations, policy=policy)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (at_work(WORKS), Step(Do.COMPLETE, 5000 - 3601)),  # from 07:00:00 to 08:00:01 it has worked 3601 s
        (at_work(WORKS, policy="OnFailure"), Step(Do.COMPLETE, 5000 - 3601)),
        (at_work(WORKED), Step(Do.COMPLETE, 0)),
        (at_work(WORKS, policy="Always"), None),
        (at_work(), None),
        (at_work(NO_NUMBERS[0]), None),
        (at_work(NO_NUMBERS[1]), None),
        (a_pod(phase="Succeeded", annotations=WORKS, policy="Never"), None),
        (a_pod(annotations=WORKS, policy="Never", started=True), Step(Do.RUN, 0.5)),
    ],
)
def test_a_pod_that_is_not_restarted_always_has_done_its_work_after_the_time_it_says(
    pod: Pod, expected: Step | None
) -> None:
    assert step(pod) == expected


@every(
    ("pod", "booted", "expected"),
    [
        (a_pod(phase="Running", conditions=READY), LATER, Step(Do.LOSE)),
        (a_pod(phase="Running", conditions=UNREADY), LATER, Step(Do.LOSE)),
        (at_work(WORKS), LATER, Step(Do.LOSE)),
        (a_pod(phase="Running", conditions=READY), THEN, None),
        (a_pod(phase="Running", conditions=READY), "", None),
        (a_pod(phase="Running", conditions=UNREADY, waiting="ContainerCreating"), LATER, Step(Do.RUN, 0.5)),
        (a_pod(phase="Running", conditions=READY, deleted=True, grace=30), LATER, Step(Do.STOP, 2.0)),
        (a_pod(phase="Succeeded"), LATER, None),
        (a_pod(started=True), LATER, Step(Do.RUN, 0.5)),
        (a_pod(phase="Running", conditions=READY, annotations={"winsim/unmanaged": "true"}), LATER, None),
    ],
)
def test_what_has_run_since_before_its_machine_was_started_does_not_run_any_more(
    pod: Pod, booted: str, expected: Step | None
) -> None:
    assert step(pod, booted=booted) == expected


def test_a_pod_whose_machine_was_started_again_starts_again_with_another_address() -> None:
    before = a_pod(phase="Running", conditions=READY, started=True, ip="10.128.0.1", restarts=2)
    patch = status.lost(before, now=NOW)["status"]
    assert "phase" not in patch  # it stays Running, as long as something is to run again
    app = patch["containerStatuses"][0]
    assert (app["state"], app["restartCount"]) == ({"waiting": {"reason": "ContainerCreating"}}, 3)
    assert app["lastState"]["terminated"] == {
        "exitCode": 255,
        "reason": "Unknown",
        "startedAt": THEN,
        "finishedAt": THEN,
    }
    assert by_type({"status": patch})["Ready"]["status"] == "False"
    meantime = a_pod(
        phase="Running",
        conditions=UNREADY,
        started=True,
        ip="10.128.0.1",
        waiting="ContainerCreating",
        restarts=3,
    )
    after = status.running(meantime, host_ip="127.1.0.1", pod_ip="10.128.0.9", now=NOW)["status"]
    assert after["containerStatuses"][0]["restartCount"] == 3
    assert after["podIPs"] == [{"ip": "10.128.0.9"}, {"$patch": "replace"}]
    first = status.running(a_pod(), host_ip="127.1.0.1", pod_ip="10.128.0.1", now=NOW)["status"]
    identities = [each["containerStatuses"][0]["containerID"] for each in (first, after)]
    assert identities[0] != identities[1]


def test_a_pod_that_is_never_started_again_fails_with_its_machine() -> None:
    patch = status.lost(at_work(), now=NOW)["status"]
    assert patch["phase"] == "Failed"
    assert patch["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 255


LARGE = {"winsim/image-size": "5Gi"}
UNLUCKY = {**LARGE, "winsim/pull-failures": "3"}
PULL = 640.0  # 5 GiB at 8 MiB a second


@every(
    ("pod", "failed", "expected"),
    [
        (a_pod(annotations=LARGE), 0, Step(Do.CREATE)),
        (a_pod(annotations=LARGE, started=True), 0, Step(Do.RUN, 0.5 + PULL)),
        (a_pod(annotations={"winsim/image-size": "5 GB"}, started=True), 0, Step(Do.RUN, 0.5)),
        (a_pod(annotations=UNLUCKY, started=True), 0, Step(Do.FAIL_PULL, 0.5)),
        (a_pod(annotations=UNLUCKY, started=True, waiting="ErrImagePull"), 1, Step(Do.BACK_OFF, 10)),
        (a_pod(annotations=UNLUCKY, started=True, waiting="ImagePullBackOff"), 1, Step(Do.FAIL_PULL, 0.5)),
        (a_pod(annotations=UNLUCKY, started=True, waiting="ImagePullBackOff"), 2, Step(Do.FAIL_PULL, 10.5)),
        (a_pod(annotations=UNLUCKY, started=True, waiting="ErrImagePull"), 3, Step(Do.BACK_OFF, 10)),
        (a_pod(annotations=UNLUCKY, started=True, waiting="ImagePullBackOff"), 3, Step(Do.RUN, 30.5 + PULL)),
        (
            a_pod(annotations={"winsim/pull-failures": "99"}, started=True, waiting="ImagePullBackOff"),
            20,
            Step(Do.FAIL_PULL, 290.5),
        ),
    ],
)
def test_a_pull_takes_as_long_as_its_images_are_large_and_is_tried_again_with_growing_pauses(
    pod: Pod, failed: int, expected: Step
) -> None:
    assert step(pod, efforts=Efforts(failed_pulls=failed)) == expected


def test_what_takes_minutes_is_faster_on_a_time_scale() -> None:
    timing = PodTiming(start=0.5, time_scale=10)
    waiting = a_pod(annotations=UNLUCKY, started=True, waiting="ImagePullBackOff")
    assert step(waiting, timing=timing, efforts=Efforts(failed_pulls=3)) == Step(Do.RUN, 0.5 + 3 + 64)
    failed = a_pod(annotations=UNLUCKY, started=True, waiting="ErrImagePull")
    assert step(failed, timing=timing, efforts=Efforts(failed_pulls=3)) == Step(Do.BACK_OFF, 1)


AWAY = Efforts(network_in=100.0)
TOLD = Efforts(network_in=100.0, warned=True)


@every(
    ("pod", "efforts", "expected"),
    [
        (a_pod(), AWAY, Step(Do.CREATE)),
        (a_pod(started=True), AWAY, Step(Do.FAIL_SANDBOX)),
        (a_pod(started=True), TOLD, Step(Do.RUN, 100.5)),
        (a_pod(started=True, annotations=LARGE), TOLD, Step(Do.RUN, 100.5 + PULL)),
        (a_pod(started=True, annotations=FOR_LINUX), TOLD, Step(Do.FAIL_PULL, 100.5)),
        (a_pod(started=True, host=True), AWAY, Step(Do.RUN, 0.5)),
        (a_pod(started=True), Efforts(network_in=-1.0), Step(Do.RUN, 0.5)),
        (a_pod(phase="Running", waiting="ContainerCreating"), AWAY, Step(Do.FAIL_SANDBOX)),
        (a_pod(phase="Running", waiting="ContainerCreating"), TOLD, Step(Do.RUN, 100.5)),
        (a_pod(phase="Running", conditions=READY), AWAY, None),
    ],
)
def test_a_pod_starts_once_there_is_a_network_and_that_of_the_host_is_always_there(
    pod: Pod, efforts: Efforts, expected: Step | None
) -> None:
    assert step(pod, efforts=efforts) == expected


def test_a_kubelet_knows_what_it_has_tried() -> None:
    tried = Efforts().after(Do.FAIL_SANDBOX).after(Do.FAIL_PULL).after(Do.FAIL_PULL).after(Do.RUN)
    assert tried == Efforts(warned=True, failed_pulls=2)
    assert tried.after(Do.LOSE) == Efforts(failed_pulls=2)


def the_machine() -> Machine:
    return build_machine(
        "win-w01", index=0, windows=True, address="127.1.0.1", kubelet_version="v1.37.1", labels={}
    )


def test_an_event_says_that_there_is_no_network_for_a_pod() -> None:
    event = events.obstacle(Do.FAIL_SANDBOX, a_pod(), machine=the_machine(), now=NOW)
    assert (event["reason"], event["type"], event["metadata"]["namespace"]) == (
        "FailedCreatePodSandBox",
        "Warning",
        "default",
    )
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": "u1",
    }
    assert event["message"].startswith(
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "
    )


FAILS = {"winsim/chown-fails": "true"}
TOKEN = "kube-api-access-x7k2p"
NO_PAUSE = Efforts(pauses=False)
FOR_2019 = {"winsim/image-build": "10.0.17763"}


@every(
    ("pod", "efforts", "expected"),
    [
        (a_pod(), NO_PAUSE, Step(Do.CREATE)),
        (a_pod(started=True), NO_PAUSE, Step(Do.FAIL_PAUSE)),
        (a_pod(started=True, host=True), NO_PAUSE, Step(Do.FAIL_PAUSE)),
        (a_pod(started=True), Efforts(pauses=False).after(Do.FAIL_PAUSE), Step(Do.FAIL_PAUSE, 60)),
        # What ran before its machine was started again needs another sandbox.
        (a_pod(phase="Running", waiting="ContainerCreating"), NO_PAUSE, Step(Do.FAIL_PAUSE)),
        (a_pod(phase="Running", conditions=READY), NO_PAUSE, None),
        (a_pod(started=True, annotations=FAILS, volume=TOKEN), NO_PAUSE, Step(Do.FAIL_MOUNT)),
        (a_pod(started=True, annotations=FAILS, volume=TOKEN), Efforts(warned=True), Step(Do.FAIL_MOUNT, 60)),
        (a_pod(started=True, annotations=FAILS, volume="data"), NONE_YET, Step(Do.RUN, 0.5)),
        (a_pod(started=True, volume=TOKEN), NONE_YET, Step(Do.RUN, 0.5)),
    ],
)
def test_a_pod_waits_for_its_volume_and_for_a_pause_image_that_fits(
    pod: Pod, efforts: Efforts, expected: Step | None
) -> None:
    assert step(pod, efforts=efforts) == expected


def test_where_starting_takes_no_time_a_pod_with_an_obstacle_is_reported_before() -> None:
    assert step(a_pod(), timing=PodTiming(start=0), efforts=NO_PAUSE) == Step(Do.CREATE)


@every(
    ("pod", "build", "expected"),
    [
        (a_pod(started=True, annotations=FOR_2019), "10.0.17763", Step(Do.RUN, 0.5)),
        (a_pod(started=True, annotations=FOR_2019), "10.0.20348", Step(Do.FAIL_RUN, 0.5)),
        (a_pod(started=True, annotations=FOR_2019), "", Step(Do.RUN, 0.5)),
        (a_pod(phase="Running", waiting="RunContainerError", annotations=FOR_2019), "10.0.20348", None),
        (a_pod(phase="Running", waiting="RunContainerError"), "10.0.20348", Step(Do.RUN, 0.5)),
    ],
)
def test_windows_starts_images_for_its_own_build(pod: Pod, build: str, expected: Step | None) -> None:
    assert step(pod, build=build) == expected


def the_message(do: Do, *, pulled: bool = False, sample: str = "2022") -> str:
    machine = build_machine(
        "win-w01",
        index=0,
        windows=True,
        address="127.1.0.1",
        kubelet_version="v1.37.1",
        labels={},
        installed=SAMPLES[sample].os,
        setup=Setup(pause_image=PAUSE, pause_pulled=pulled),
    )
    event = events.obstacle(do, a_pod(volume=TOKEN), machine=machine, now=NOW)
    assert event["reason"] == ("FailedMount" if do is Do.FAIL_MOUNT else "FailedCreatePodSandBox")
    return re.sub("[0-9a-f]{64}", "ID", event["message"])


SANDBOX = "Failed to create pod sandbox: rpc error: code ="
PAUSE = "registry.k8s.io/pause:3.5"
BY_CONTAINERD = "The container operating system does not match the host operating system.: unknown"
BY_DOCKER = (
    "The operating system of the container does not match the operating system of the host. (0xc0370101)"
)


@every(
    ("pulled", "sample", "message"),
    [
        (
            False,
            "2022",
            f'{SANDBOX} NotFound desc = failed to start sandbox "ID": failed to get sandbox image "{PAUSE}": '
            f'failed to pull image "{PAUSE}": failed to pull and unpack image "{PAUSE}": '
            "no match for platform in manifest: not found",
        ),
        (
            True,
            "2022",
            f'{SANDBOX} Unknown desc = failed to start sandbox "ID": failed to create containerd task: '
            f"failed to create shim task: hcs::CreateComputeSystem ID: {BY_CONTAINERD}",
        ),
        (
            False,
            "1903",
            f'{SANDBOX} Unknown desc = failed pulling image "{PAUSE}": '
            "no matching manifest for windows/amd64 10.0.18362 in the manifest list entries",
        ),
        (
            True,
            "1903",
            f'{SANDBOX} Unknown desc = failed to start sandbox container for pod "p": Error response from '
            "daemon: container ID encountered an error during CreateContainer: "
            f"failure in a Windows system call: {BY_DOCKER}",
        ),
    ],
)
def test_containerd_and_docker_say_that_the_pause_image_is_for_another_windows(
    pulled: bool, sample: str, message: str
) -> None:
    assert the_message(Do.FAIL_PAUSE, pulled=pulled, sample=sample) == message


def test_a_token_volume_that_cannot_be_mounted_is_named() -> None:
    folder = rf"c:\var\lib\kubelet\pods\u1\volumes\kubernetes.io~projected\{TOKEN}"
    file = rf"{folder}\..2026_11_21_08_00_01.000000001\token"
    assert the_message(Do.FAIL_MOUNT) == (
        f'MountVolume.SetUp failed for volume "{TOKEN}" : chown {file}: not supported by windows'
    )


@every(("runtime", "end"), [("containerd://2.3.0", BY_CONTAINERD), ("docker://19.3.14", BY_DOCKER)])
def test_containers_that_windows_does_not_start_wait_and_say_how_they_ended(runtime: str, end: str) -> None:
    patch = status.unstarted(a_pod(), host_ip="127.1.0.1", pod_ip="10.128.0.1", runtime=runtime, now=NOW)[
        "status"
    ]
    assert (patch["phase"], patch["podIP"]) == ("Running", "10.128.0.1")
    for container in patch["containerStatuses"]:
        waiting = container["state"]["waiting"]
        assert waiting["reason"] == "RunContainerError"
        assert waiting["message"].endswith(end)
        assert container["lastState"]["terminated"]["message"] == waiting["message"]
    again = status.unstarted(
        a_pod(ip="10.128.0.9"), host_ip="127.1.0.1", pod_ip="10.128.0.1", runtime=runtime, now=NOW
    )["status"]
    assert again["podIPs"] == [{"ip": "10.128.0.1"}, {"$patch": "replace"}]
    init = status.unstarted(
        a_pod(init=(Container("prepare", "a"),)), host_ip="", pod_ip="", runtime=runtime, now=NOW
    )["status"]
    assert (init["phase"], init["containerStatuses"][0]["lastState"]) == ("Pending", {})
    assert "lastState" in init["initContainerStatuses"][0]


STUCK = {"winsim/stuck-terminating": "true"}


@every(
    ("pod", "booted", "expected"),
    [
        (a_pod(phase="Running", conditions=READY, annotations=STUCK), "", None),
        (a_pod(phase="Running", conditions=READY, annotations=STUCK, deleted=True, grace=1), "", None),
        (a_pod(phase="Running", annotations=STUCK, deleted=True, grace=1), THEN, None),
        (a_pod(phase="Running", annotations=STUCK, deleted=True, grace=1), LATER, Step(Do.STOP, 1)),
        (
            a_pod(phase="Running", waiting="ContainerCreating", annotations=STUCK, deleted=True, grace=1),
            LATER,
            Step(Do.STOP, 1),
        ),
        (a_pod(annotations=STUCK, deleted=True, grace=1, started=True), "", Step(Do.STOP)),
        (
            a_pod(phase="Running", annotations={"winsim/stuck-terminating": "no"}, deleted=True, grace=1),
            "",
            Step(Do.STOP, 1),
        ),
    ],
)
def test_a_pod_can_hang_when_it_is_deleted_until_its_machine_is_started_again(
    pod: Pod, booted: str, expected: Step | None
) -> None:
    assert step(pod, booted=booted) == expected


def test_where_starting_takes_no_time_a_pod_is_reported_once() -> None:
    assert step(a_pod(), timing=PodTiming(start=0)) == Step(Do.RUN, 0)


def by_type(patch: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["type"]: each for each in patch["status"]["conditions"]}


def test_every_patch_is_for_this_very_pod_and_tells_the_generation_it_is_about() -> None:
    pod = a_pod(phase="Running")
    patches = [
        status.created(pod, host_ip="127.1.0.1", now=NOW),
        status.running(pod, host_ip="127.1.0.1", pod_ip="10.128.0.1", now=NOW),
        status.mended(pod, now=NOW),
        status.stopped(pod, now=NOW),
        status.lost(pod, now=NOW),
        status.refused(pod, reason="R", message="m", now=NOW),
    ]
    assert {patch["metadata"]["uid"] for patch in patches} == {"u1"}
    assert {patch["status"]["observedGeneration"] for patch in patches} == {3}
    assert status.removal(pod)["preconditions"] == {"uid": "u1"}


def test_a_pod_that_is_being_created_has_waiting_containers() -> None:
    patch = status.created(a_pod(), host_ip="127.1.0.1", now=NOW)["status"]
    assert (patch["phase"], patch["startTime"], patch["hostIP"]) == (
        "Pending",
        "2026-11-21T08:00:01Z",
        "127.1.0.1",
    )
    assert "podIP" not in patch
    states = [each["state"] for each in patch["containerStatuses"]]
    assert states == [{"waiting": {"reason": "ContainerCreating"}}] * 2
    ready = by_type({"status": patch})["Ready"]
    assert ready["message"] == "containers with unready status: [app log]"


def test_init_containers_come_first_and_sidecars_stay() -> None:
    pod = a_pod(init=(Container("prepare", "a"), Container("proxy", "b", "Always")))
    before = status.created(pod, host_ip="127.1.0.1", now=NOW)
    assert by_type(before)["Initialized"]["message"] == "containers with incomplete status: [prepare proxy]"
    assert before["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    after = status.running(pod, host_ip="127.1.0.1", pod_ip="10.128.0.1", now=NOW)
    assert by_type(after)["Initialized"]["status"] == "True"
    prepare, proxy = after["status"]["initContainerStatuses"]
    assert (prepare["ready"], prepare["started"]) == (True, False)
    assert prepare["state"]["terminated"]["exitCode"] == 0
    assert (proxy["ready"], proxy["started"]) == (True, True)


def test_a_condition_keeps_its_time_while_its_status_holds() -> None:
    pod = a_pod(conditions=(PodCondition("PodScheduled", "True"), PodCondition("Ready", "False", "R", "m")))
    conditions = by_type(status.running(pod, host_ip="127.1.0.1", pod_ip="10.128.0.1", now=NOW))
    assert "lastTransitionTime" not in conditions["PodScheduled"]
    assert conditions["Ready"]["lastTransitionTime"] == "2026-11-21T08:00:01Z"
    assert (conditions["Ready"]["reason"], conditions["Ready"]["message"]) == (None, None)


def test_a_pod_with_a_closed_gate_has_ready_containers_and_is_not_ready() -> None:
    conditions = by_type(status.mended(a_pod(phase="Running", gates=("lb",)), now=NOW))
    assert conditions["ContainersReady"]["status"] == "True"
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == (
        "False",
        "ReadinessGatesNotReady",
    )


def test_a_pod_that_ran_has_succeeded_when_it_stops() -> None:
    patch = status.stopped(a_pod(phase="Running", conditions=READY), now=NOW)
    assert patch["status"]["phase"] == "Succeeded"
    assert by_type(patch)["Ready"]["reason"] == "PodCompleted"
    terminated = patch["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["startedAt"], terminated["finishedAt"]) == (THEN, "2026-11-21T08:00:01Z")
    assert terminated["containerID"].startswith("containerd://")


def test_a_pod_that_never_ran_has_failed_when_it_stops() -> None:
    patch = status.stopped(a_pod(started=True), now=NOW)
    assert patch["status"]["phase"] == "Failed"
    container = patch["status"]["containerStatuses"][0]
    assert container["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert "containerID" not in container


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("fluent", "fluent"),
        ("team/app:1.2", "team/app"),
        ("example.com:5000/team/app", "example.com:5000/team/app"),
        ("example.com:5000/team/app:1.2", "example.com:5000/team/app"),
        ("team/app:1.2@sha256:abc", "team/app"),
    ],
)
def test_an_image_is_named_by_digest(image: str, repository: str) -> None:
    assert containers.image_id(image).startswith(f"{repository}@sha256:")
    assert len(containers.image_id(image)) == len(repository) + len("@sha256:") + 64


@given(seed=st.text(max_size=20), count=st.integers(1, 600))
def test_no_two_pods_share_an_address(seed: str, count: int) -> None:
    addresses = PodAddresses(seed=seed)
    first = addresses.take()
    addresses.note(first)
    others = [addresses.take() for _ in range(count)]
    assert len({first, *others}) == count + 1
    assert all(int(address.split(".")[1]) >= 128 and address.startswith("10.") for address in others)


def test_an_address_that_a_pod_was_seen_with_is_not_given_out() -> None:
    known = [PodAddresses(seed="s").take(), "127.1.0.1", ""]
    addresses = PodAddresses(seed="s")
    for address in known:
        addresses.note(address)
    assert addresses.take() not in known


async def test_the_agenda_hands_out_what_is_due_and_forgets_what_was_struck() -> None:
    agenda: Agenda[str] = Agenda(clock=SystemClock())
    agenda.put("b", "second", delay=0.02)
    agenda.put("a", "first", delay=0.01)
    agenda.put("c", "never", delay=0.0)
    agenda.drop("c")
    assert [await agenda.next(), await agenda.next()] == [("a", "first"), ("b", "second")]


async def test_the_same_thing_comes_at_the_earlier_time_and_another_replaces_it() -> None:
    agenda: Agenda[str] = Agenda(clock=SystemClock())
    agenda.put("a", "stop", delay=0.0)
    agenda.put("a", "stop", delay=3600.0)
    assert await agenda.next() == ("a", "stop")
    agenda.put("a", "stop", delay=3600.0)
    agenda.put("a", "stop", delay=0.0)
    assert await agenda.next() == ("a", "stop")
    agenda.put("a", "run", delay=3600.0)
    agenda.put("a", "stop", delay=0.0)
    assert await agenda.next() == ("a", "stop")


async def test_something_earlier_wakes_who_waits_for_something_later() -> None:
    agenda: Agenda[str] = Agenda(clock=SystemClock())
    agenda.put("late", "x", delay=3600.0)
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(agenda.next())
        await asyncio.sleep(0)
        agenda.put("soon", "y", delay=0.0)
    assert waiting.result() == ("soon", "y")


def refusals(pod: Pod) -> tuple[str, str]:
    found = refusal(pod, family="windows")
    assert found is not None
    return found


def test_a_pod_is_refused_in_the_words_of_a_kubelet() -> None:
    """As pkg/kubelet/lifecycle/predicate.go of 1.36 has them: the label comes before the field."""
    by_label = a_pod(labels={"kubernetes.io/os": "linux"}, os="linux")
    assert refusals(by_label) == (
        "PodOSSelectorNodeLabelDoesNotMatch",
        "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
    )
    assert refusals(a_pod(os="linux")) == (
        "PodOSNotSupported",
        "Failed to admit pod as the OS field doesn't match node OS",
    )
    assert refusal(a_pod(os="windows"), family="windows") is None


def unpulled(pod: Pod, *, fits: bool = False, back_off: bool = False) -> dict[str, Any]:
    patch = status.unpulled(
        pod, host_ip="127.1.0.1", pod_ip="10.128.0.1", fits=fits, back_off=back_off, now=NOW
    )
    found: dict[str, Any] = patch["status"]
    return found


def test_a_pod_whose_images_do_not_fit_stays_pending_with_the_error_of_containerd() -> None:
    patch = unpulled(a_pod(started=True))
    assert (patch["phase"], patch["startTime"], patch["podIP"]) == ("Pending", THEN, "10.128.0.1")
    app, log = (each["state"]["waiting"] for each in patch["containerStatuses"])
    assert app == {
        "reason": "ErrImagePull",
        "message": "rpc error: code = NotFound desc = failed to pull and unpack image "
        '"example.com:5000/team/app:1.2": no match for platform in manifest: not found',
    }
    assert 'image "docker.io/library/fluent:latest": no match for platform' in log["message"]
    assert {each["ready"] for each in patch["containerStatuses"]} == {False}
    conditions = by_type({"status": patch})
    assert conditions["PodReadyToStartContainers"]["status"] == "True"
    assert conditions["Ready"]["reason"] == "ContainersNotReady"


def test_between_two_pulls_the_kubelet_tells_what_was_wrong_with_the_last() -> None:
    patch = unpulled(a_pod(started=True, waiting="ErrImagePull"), back_off=True)
    assert patch["containerStatuses"][1]["state"]["waiting"] == {
        "reason": "ImagePullBackOff",
        "message": 'Back-off pulling image "fluent:latest": ErrImagePull: rpc error: code = NotFound desc = '
        'failed to pull and unpack image "docker.io/library/fluent:latest": '
        "no match for platform in manifest: not found",
    }


def test_a_registry_that_is_busy_is_named_as_the_cause() -> None:
    patch = unpulled(a_pod(started=True), fits=True)
    assert patch["containerStatuses"][1]["state"]["waiting"] == {
        "reason": "ErrImagePull",
        "message": "rpc error: code = Unknown desc = failed to pull and unpack image "
        '"docker.io/library/fluent:latest": failed to resolve reference "docker.io/library/fluent:latest": '
        "503 Service Unavailable",
    }


def test_of_init_containers_the_first_cannot_be_pulled_and_the_rest_waits_for_it() -> None:
    patch = unpulled(a_pod(init=(Container("prepare", "a"), Container("proxy", "b", "Always")), started=True))
    reasons = [
        each["state"]["waiting"]["reason"]
        for each in (*patch["initContainerStatuses"], *patch["containerStatuses"])
    ]
    assert reasons == ["ErrImagePull", *["PodInitializing"] * 3]


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("team/app:1.2", "docker.io/team/app:1.2"),
        ("localhost/app", "localhost/app:latest"),
        ("example.com:5000/app", "example.com:5000/app:latest"),
        ("example.com/app@sha256:abc", "example.com/app@sha256:abc"),
    ],
)
def test_a_short_name_of_an_image_is_written_out(image: str, reference: str) -> None:
    assert full_reference(image) == reference


def test_containers_that_run_can_be_not_ready_and_keep_their_start() -> None:
    unready = status.mended(a_pod(phase="Running", conditions=READY), ready=False, now=NOW)
    conditions = by_type(unready)
    for kind in ("Ready", "ContainersReady"):
        assert conditions[kind]["status"] == "False"
        assert conditions[kind]["reason"] == "ContainersNotReady"
        assert conditions[kind]["message"] == "containers with unready status: [app log]"
    for container in unready["status"]["containerStatuses"]:
        assert (container["ready"], container["started"]) == (False, True)
        assert container["state"] == {"running": {"startedAt": THEN}}
    again = status.mended(a_pod(phase="Running", conditions=UNREADY), now=NOW)
    assert {each["ready"] for each in again["status"]["containerStatuses"]} == {True}
    assert {each["status"] for each in by_type(again).values()} == {"True"}


def test_what_the_controller_manager_said_is_put_right_without_a_word_about_containers() -> None:
    pod = a_pod(phase="Running", conditions=(UNREADY[0], READY[1]))
    assert "containerStatuses" not in status.mended(pod, now=NOW)["status"]


def test_a_pod_may_start_with_containers_that_are_not_ready() -> None:
    patch = status.running(a_pod(), host_ip="127.1.0.1", pod_ip="10.128.0.1", ready=False, now=NOW)
    assert patch["status"]["phase"] == "Running"
    assert by_type(patch)["Ready"]["status"] == "False"
    assert {each["ready"] for each in patch["status"]["containerStatuses"]} == {False}


def test_a_pod_is_called_by_its_own_name_and_by_that_of_its_controller() -> None:
    owners = (PodOwner("agent", controller=True), PodOwner("bystander"))
    metadata = PodMetadata(name="agent-x1", namespace="kube-system", owner_references=owners)
    assert Pod(metadata=metadata).called == {"kube-system/agent-x1", "kube-system/agent"}
