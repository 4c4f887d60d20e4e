"""``make bench-evict``: how fast N nodes are drained at once, by the operator and by ``kubectl drain``.

Each drains nodes of a cluster of its own, so that both begin with the same: machines below the target, full
of pods of Deployments, a part of them behind tight budgets, and machines at the target, which are empty and
take the replacements. The operator has a pool with ``RollingUpdate`` whose ``maxUnavailable`` is N, and no
one upgrades the machines. ``kubectl drain`` runs for one node in a process, 8 at once.

The time of both begins with the word to start, and ends when the last of the first pods is gone.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.counting import OK
from bench.errors import BenchError
from bench.ground import INSTALLATION, ROOT, Ground, prepared
from bench.operator_process import USER
from bench.pool import NAME
from bench.report import Report
from bench.rounds import middle
from bench.sampling import Meter
from bench.targets import Target, at_most, exactly, of_the_machine, told
from testbed.audit import AuditRecord
from testbed.errors import tail
from testbed.kubeconfig import ADMIN
from testbed.options import Options
from testbed.process import start_bound
from winpool.api.keys import API_VERSION, KIND
from winpool.kube.pools import POOLS_PATH

Object = dict[str, Any]

TARGET: Final = 4171
BELOW: Final = 1607
"""Revisions of Windows Server 2022."""
ROLE: Final = "bench.winpool.dev/role"
FULL, EMPTY = "full", "empty"
ZONE: Final = {"topology.kubernetes.io/zone": "bench-1"}
"""All nodes are in one: the operator drains zone by zone."""

NAMESPACE: Final = "winpool-bench-evict"
PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENTS_PATH: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
BUDGETS_PATH: Final = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
MOST_BUDGETS: Final = 10
LEAST_PODS: Final = 3
"""Of a budget: with fewer there is nothing to wait for."""
TIGHT_SHARE: Final = 0.3
START_SECONDS: Final = 2.0
"""From the start of a container to Ready. Then a budget lets the next pod go."""

KUBECTLS: Final = 8
"""As many as the evictions that the operator has in flight."""
GIVE_UP_SECONDS: Final = 900.0
"""Guard for all pods of a turn: a budget with 30 pods, each of which waits half a minute."""
SETTLED_SECONDS: Final = 300.0
"""Guard for pods that are created, and for the operator's first list of them."""
POLL_SECONDS: Final = 0.5
PROCESS_POLL_SECONDS: Final = 0.02

CALLS_A_POD: Final = 1.05
RIGHTS: Final = ROOT / "deploy" / "components" / "rollout" / "rollout-rights.yaml"
TOO_MANY: Final = 429


@dataclass(frozen=True, slots=True)
class Drained:
    """What one contender did. ``seconds`` from the start, ``evicting_seconds`` from the first eviction.

    ``left_seconds`` are from the start until so many percent of the pods were gone.
    """

    seconds: float
    evicting_seconds: float
    left_seconds: dict[int, float]
    evictions: int
    refused: int
    pod_gets: int
    pod_lists: int
    breaks: int
    cpu_seconds: float


def count_drained(
    records: Iterable[AuditRecord], *, user: str, pods: frozenset[str], start: datetime
) -> Drained | None:
    """Return what the audit log says of one turn but for breaks and CPU; None while a pod is left."""
    made = list(records)
    gone = {
        each.name: each.completed
        for each in made
        if each.verb == "delete" and _is_pod(each) and each.code == OK and each.completed is not None
        if each.name in pods and each.user != user
    }
    own = [each for each in made if each.user == user and each.resource == "pods"]
    evictions = [each for each in own if each.subresource == "eviction" and each.writes]
    if gone.keys() != pods or not evictions:
        return None
    ends = sorted((moment - start).total_seconds() for moment in gone.values())
    return Drained(
        seconds=ends[-1],
        evicting_seconds=ends[-1] - (min(each.received for each in evictions) - start).total_seconds(),
        left_seconds={share: ends[math.ceil(len(ends) * share / 100) - 1] for share in (50, 70, 90, 99)},
        evictions=len(evictions),
        refused=sum(each.code == TOO_MANY for each in evictions),
        pod_gets=sum(each.verb == "get" for each in own),
        pod_lists=sum(each.verb == "list" for each in own),
        breaks=0,
        cpu_seconds=0.0,
    )


def _is_pod(record: AuditRecord) -> bool:
    return record.resource == "pods" and not record.subresource and record.namespace == NAMESPACE


def count_breaks(lines: str) -> int:
    """Return how often a watch of budgets showed that fewer pods were healthy than one demands."""
    decoder, position, breaks = json.JSONDecoder(), 0, 0
    while position < len(lines):
        budget, position = decoder.raw_decode(lines, position)
        position += len(lines[position:]) - len(lines[position:].lstrip())
        status = budget.get("status", {})
        is_current = status.get("observedGeneration") == budget["metadata"].get("generation")
        breaks += is_current and status.get("currentHealthy", 0) < status.get("desiredHealthy", 0)
    return breaks


def run_evict(*, nodes: int, pods: int, rounds: int, directory: Path, report: Report) -> dict[str, Any]:
    """Measure; return the figures of the last line."""
    found: dict[str, list[Drained]] = {OPERATOR: [], KUBECTL: []}
    for number, turn in enumerate(turns(rounds)):
        folder = directory / f"{number + 1}-{turn}"
        with prepared(
            nodes=1,
            directory=folder,
            report=report,
            options=Options(pod_start_seconds=START_SECONDS),
            installation=(*INSTALLATION, RIGHTS),
        ) as ground:
            scene = make_scene(ground, nodes=nodes, pods=pods)
            one = (by_operator if turn == OPERATOR else by_kubectl)(ground, scene)
            found[turn].append(one)
            report.say(
                f"{turn}: {pods:,} pods gone after {one.seconds:.1f} s, {one.evictions:,} evictions, "
                f"{one.refused:,} refused"
            )
    report.table("From the start until all pods are gone", _HEADER, list(_rows(found)))
    figures = evict_figures(found, nodes=nodes, pods=pods)
    wanted = evict_targets(figures)
    report.targets(wanted)
    return {**figures, **told(wanted)}


OPERATOR, KUBECTL = "operator", "kubectl"
_HEADER: Final = ("who", "round", "s", "since the first eviction", "50 %", "70 %", "90 %", "99 %", "calls")


def turns(rounds: int) -> list[str]:
    """Return who drains when: each goes first as often as the other."""
    pairs = [[OPERATOR, KUBECTL] if number % 2 == 0 else [KUBECTL, OPERATOR] for number in range(rounds)]
    return [turn for pair in pairs for turn in pair]


def _rows(found: dict[str, list[Drained]]) -> Iterator[tuple[object, ...]]:
    for who, all_of in found.items():
        for number, each in enumerate(all_of, start=1):
            shares = each.left_seconds.values()
            yield (who, number, each.seconds, each.evicting_seconds, *shares, each.evictions)


def evict_figures(found: dict[str, list[Drained]], *, nodes: int, pods: int) -> dict[str, Any]:
    """Return what is told, by name: medians of times, and counts of the worst round."""
    own, theirs = found[OPERATOR], found[KUBECTL]
    ratios = [mine.seconds / other.seconds for mine, other in zip(own, theirs, strict=True)]
    return {
        "nodes": nodes,
        "pods": pods,
        "tight_pods": tight_pods(pods),
        "budgets": budgets_of(pods),
        "rounds": len(own),
        "seconds": middle([each.seconds for each in own]),
        "kubectl_seconds": middle([each.seconds for each in theirs]),
        "ratio_rounds": ratios,
        "ratio": middle(ratios),
        "evicting_seconds": middle([each.evicting_seconds for each in own]),
        "kubectl_evicting_seconds": middle([each.evicting_seconds for each in theirs]),
        "seconds_rounds": [each.seconds for each in own],
        "kubectl_seconds_rounds": [each.seconds for each in theirs],
        "evictions": max(each.evictions for each in own),
        "kubectl_evictions": max(each.evictions for each in theirs),
        "calls_per_pod": max(each.evictions for each in own) / pods,
        "kubectl_calls_per_pod": max(each.evictions for each in theirs) / pods,
        "refused": max(each.refused for each in own),
        "kubectl_refused": max(each.refused for each in theirs),
        "pod_gets": max(each.pod_gets for each in own),
        "kubectl_pod_gets": max(each.pod_gets for each in theirs),
        "pod_lists": max(each.pod_lists for each in own),
        "budget_breaks": max(each.breaks for each in own),
        "kubectl_budget_breaks": max(each.breaks for each in theirs),
        "operator_cpu_seconds": middle([each.cpu_seconds for each in own]),
    }


def evict_targets(figures: dict[str, Any]) -> list[Target]:
    """Return what must be shown."""
    return [
        at_most("calls_per_pod", figures["calls_per_pod"], CALLS_A_POD),
        exactly("pod_gets", figures["pod_gets"], 0),
        exactly("budget_breaks", figures["budget_breaks"], 0),
        of_the_machine(at_most("ratio", figures["ratio"], 1)),
    ]


def tight_pods(pods: int) -> int:
    """Return how many of these pods are behind budgets."""
    return round(pods * TIGHT_SHARE)


def budgets_of(pods: int) -> int:
    """Return how many budgets these pods have together."""
    return max(1, min(MOST_BUDGETS, tight_pods(pods) // LEAST_PODS))


# The scene


@dataclass(frozen=True, slots=True)
class Scene:
    """The names of the nodes that are to be drained, and of their pods."""

    nodes: tuple[str, ...]
    pods: frozenset[str]


def make_scene(ground: Ground, *, nodes: int, pods: int) -> Scene:
    """Have so many nodes full of so many pods, and half as many that are empty."""
    fleet = ground.testbed.fleet
    [other] = [each.name for each in fleet.status()]
    full = fleet.join(nodes, release="2022", revision=BELOW, labels={ROLE: FULL, **ZONE})
    empty = fleet.join(math.ceil(nodes / 2), release="2022", revision=TARGET, labels={ROLE: EMPTY, **ZONE})
    ground.testbed.wait_nodes_ready(len(full) + len(empty) + 1)
    ground.testbed.kubectl("cordon", other, *empty)
    ground.testbed.kubectl("create", "namespace", NAMESPACE)
    ground.testbed.kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=60s")
    behind, count = tight_pods(pods), budgets_of(pods)
    for number, replicas in enumerate(shares(behind, count)):
        ground.api.create(BUDGETS_PATH, budget(f"tight-{number}"))
        ground.api.create(DEPLOYMENTS_PATH, deployment(f"tight-{number}", replicas=replicas))
    for number, replicas in enumerate(shares(pods - behind, count)):
        ground.api.create(DEPLOYMENTS_PATH, deployment(f"free-{number}", replicas=replicas))
    _wait(lambda: _are_ready(ground, pods=pods), seconds=SETTLED_SECONDS, what="all pods to be Ready")
    ground.testbed.kubectl("uncordon", *empty)
    found = (ground.api.find(PODS_PATH) or {})["items"]
    if {each["spec"]["nodeName"] for each in found} != set(full):
        raise BenchError("the pods are not on all of the nodes that are to be drained, and on no others")
    return Scene(full, frozenset(each["metadata"]["name"] for each in found))


def shares(pods: int, count: int) -> list[int]:
    """Return how many pods each of ``count`` Deployments has."""
    return [pods // count + (number < pods % count) for number in range(count)]


def budget(name: str) -> Object:
    """Return a budget that lets one pod be away."""
    return {
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
    }


def deployment(name: str, *, replicas: int) -> Object:
    """Return a Deployment whose pods rather run on the empty nodes."""
    to_empty = {"matchExpressions": [{"key": ROLE, "operator": "In", "values": [EMPTY]}]}
    container = {
        "name": "app",
        "image": "registry.example.com/team/bench:1.2.3",
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": {"kubernetes.io/os": "windows"},
                    "automountServiceAccountToken": False,
                    "affinity": {
                        "nodeAffinity": {
                            "preferredDuringSchedulingIgnoredDuringExecution": [
                                {"weight": 100, "preference": to_empty}
                            ]
                        }
                    },
                    "containers": [container],
                },
            },
        },
    }


def _are_ready(ground: Ground, *, pods: int) -> bool:
    found = (ground.api.find(DEPLOYMENTS_PATH) or {})["items"]
    allowed = [
        each.get("status", {}).get("disruptionsAllowed")
        for each in (ground.api.find(BUDGETS_PATH) or {})["items"]
    ]
    return sum(each.get("status", {}).get("readyReplicas", 0) for each in found) == pods and set(allowed) == {
        1
    }


def _wait(check: Callable[[], bool], *, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise BenchError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(POLL_SECONDS)


# The contenders


def pool(*, nodes: int) -> Object:
    """Return the pool of all nodes. No node is claimed before the request to pause is withdrawn."""
    until = datetime.fromtimestamp(time.time() + 86400, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    new = {"gate": "ControlPlane", "until": until, "reason": "the control plane is as old as the bench"}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": NAME},
        "spec": {
            "nodeSelector": {"matchLabels": ZONE},
            "os": {"version": "2022", "targetRevision": TARGET},
            "upgrade": {
                "strategy": "RollingUpdate",
                "maxUnavailable": nodes,
                "overrides": [new],
                "pauseRequests": [{"owner": "bench", "reason": "the scene is not ready"}],
            },
        },
    }


def by_operator(ground: Ground, scene: Scene) -> Drained:
    """Have the operator drain the nodes."""
    ground.operator.start()
    ground.api.create(POOLS_PATH, pool(nodes=len(scene.nodes)))
    _wait(lambda: _is_paused(ground), seconds=SETTLED_SECONDS, what="all gates to be known and open")

    def start() -> None:
        ground.api.patch(ground.pool.path, {"spec": {"upgrade": {"pauseRequests": None}}})

    meter = Meter.of(operator=ground.operator.pid)
    drained = _timed(ground, scene, user=USER, start=start, go_on=ground.operator.require_alive)
    cpu = meter.read().cpu["operator"]
    ground.operator.stop()
    return replace(drained, cpu_seconds=cpu)


def _is_paused(ground: Ground) -> bool:
    """Whether the pool has looked at all pods, and waits for nothing but the end of the pause."""
    ground.operator.require_alive()
    status = (ground.api.find(ground.pool.path) or {}).get("status", {})
    allowed = [each["reason"] for each in status.get("conditions", ()) if each["type"] == "UpgradeAllowed"]
    return allowed == ["PauseRequested"]


def by_kubectl(ground: Ground, scene: Scene) -> Drained:
    """Drain the nodes by ``kubectl drain``, a process for each, KUBECTLS at once."""
    drains = Drains(ground, scene.nodes)
    try:
        return _timed(ground, scene, user=ADMIN, start=drains.go_on, go_on=drains.go_on)
    finally:
        drains.end()


class Drains:
    """Processes of ``kubectl drain``, one for each node."""

    def __init__(self, ground: Ground, nodes: Sequence[str]) -> None:
        self._testbed = ground.testbed
        self._waiting = list(nodes)
        self._running: list[subprocess.Popen[bytes]] = []
        self._log = ground.testbed.directory / "drain.log"

    def go_on(self) -> None:
        """Start others where some have ended; raises BenchError where one has failed."""
        for each in self._running:
            if each.poll():
                raise BenchError(f"kubectl drain failed:\n{tail(self._log)}")
        self._running = [each for each in self._running if each.poll() is None]
        while self._waiting and len(self._running) < KUBECTLS:
            self._running.append(self._start(self._waiting.pop(0)))

    def _start(self, node: str) -> subprocess.Popen[bytes]:
        kubectl = str(self._testbed.kubectl_path)
        flags = ["--kubeconfig", str(self._testbed.kubeconfig(ADMIN)), "--ignore-daemonsets"]
        return start_bound(
            [kubectl, "drain", node, *flags],
            environment={**os.environ, "KUBERC": "off", **self._testbed.environment},
            log=self._log,
            cwd=self._testbed.directory,
        )

    def end(self) -> None:
        """End those that still run."""
        for each in self._running:
            each.kill()
            each.wait()


def _timed(
    ground: Ground, scene: Scene, *, user: str, start: Callable[[], None], go_on: Callable[[], None]
) -> Drained:
    """Start, and return what was done until all pods of the scene are gone, with a watch of the budgets."""
    with _watched_budgets(ground) as states:
        position, began, started = ground.trail.mark(), time.monotonic(), datetime.now(UTC)
        start()
        records: list[AuditRecord] = []
        looked = began
        while True:
            go_on()
            if time.monotonic() - looked >= POLL_SECONDS:
                looked, before, position = time.monotonic(), position, ground.trail.mark()
                records += [
                    each for each in ground.trail.between(before, position) if each.resource == "pods"
                ]
                if found := count_drained(records, user=user, pods=scene.pods, start=started):
                    break
            if time.monotonic() - began > GIVE_UP_SECONDS:
                raise BenchError(f"pods are left after {GIVE_UP_SECONDS:.0f} s")
            time.sleep(PROCESS_POLL_SECONDS)
        return replace(found, breaks=count_breaks(states.read_text()))


@contextmanager
def _watched_budgets(ground: Ground) -> Iterator[Path]:
    """Have kubectl write each state of the budgets into a file."""
    file = ground.testbed.directory / "budgets.json"
    flags = ["--kubeconfig", str(ground.testbed.kubeconfig(ADMIN)), "-n", NAMESPACE, "--watch", "-o", "json"]
    process = start_bound(
        [str(ground.testbed.kubectl_path), "get", "poddisruptionbudgets", *flags],
        environment={**os.environ, "KUBERC": "off"},
        log=file,
        cwd=ground.testbed.directory,
    )
    try:
        _wait(lambda: file.exists() and file.stat().st_size > 0, seconds=60.0, what="a watch of the budgets")
        yield file
    finally:
        process.kill()
        process.wait()
