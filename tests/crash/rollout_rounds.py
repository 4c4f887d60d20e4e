"""One round: the operator upgrades one node, and is killed at some of its writes.

The node has two pods behind a budget that lets one go at a time, and one with a volume. A second node of the
pool is up to date, and has room for them. An actor of the contract upgrades the machine. In the end the pool
is deleted.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from cluster.pods import NAMESPACE, OFTEN
from cluster.test_rollout import QUICKLY, TARGET, rollout_rights
from cluster.upgrade_ground import QUICK, STATE_LABEL, upgrade
from crash.corner import CORNER, Corner, a_corner
from crash.rollout_history import assert_one_way
from crash.rollout_kinds import EVICTION, Kill, kind_of
from crash.sight import EVERY_SECONDS, Sight, View
from crash.texts import as_text, differences
from harness.nodes import annotations_of, carried, is_settled, labels_of
from harness.waiting import HopelessError, eventually
from harness.watcher import Watcher
from harness.world import NODES, World
from testbed.actuator import Actuator
from testbed.faults import kill
from testbed.winsim.control import FleetControl

Object = dict[str, Any]

PODS: Final = 3
BORROWED: Final = {
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "false",
    "karpenter.sh/do-not-disrupt": None,
}
"""Before the upgrade: of one, a person has set a value of their own."""
OURS: Final = {"DrainInProgress", "Drained", "MaintenanceInProgress"}
"""Conditions of a node while it is upgraded."""
STAYS_SECONDS: Final = 3.0
"""For so long the end stays as it is, without a write: events are written within a second."""
GUARD_SECONDS: Final = 240.0
"""Until an end: it comes within half a minute, on a busy machine with many rounds several times as late."""
_OF_THE_MOMENT: Final = frozenset({"message", "nextActionTime", "since", "lastTransitionTime"})
_NAMES: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE), "UID"),
    (re.compile(r"(claim\W+)[0-9a-f]{12}\b"), r"\1CLAIM"),
)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a round."""

    end: str
    """What nodes, pods and pool look like after the upgrade, as text to compare."""
    writes: Counter[str]
    """By kind, until then."""
    killed: frozenset[Kill]
    """Those for which there was such a write."""
    seconds: float


class Stage:
    """Plays rounds, any number at the same time; each has nodes, a pool and an operator of its own."""

    def __init__(self, world: World, *, sight: Sight, fleet: FleetControl, stays_seconds: float) -> None:
        self.world = world
        self._stays_seconds = stays_seconds
        self._sight = sight
        self._fleet = fleet
        self._numbers = itertools.count(1)

    def play(self, *kills: Kill, expected: str = "") -> Played:
        """Play a round with these kills; assert what is promised of each.

        What nodes, pods and pool look like after the upgrade is ``expected``, where that is given.
        """
        began, key = time.monotonic(), f"corner{next(self._numbers):03d}"
        nodes = [self._join(key, revision) for revision in (1607, TARGET)]
        self._await(
            lambda view: all(name in view.nodes and is_settled(view.nodes[name]) for name in nodes),
            what=f"{key}: its nodes",
        )
        with ExitStack() as stack:
            corner = stack.enter_context(a_corner(self.world, key=key, nodes=nodes, environment=OFTEN))
            stack.enter_context(pods_on(corner))
            self._await(lambda view: running(view, key) == {nodes[0]: PODS}, what=f"{key}: its pods")
            round_ = _Round(corner, kills=kills, sight=self._sight, fleet=self._fleet)
            end, writes = round_.play(expected, stays_seconds=self._stays_seconds)
        self._fleet.leave(nodes)
        return Played(end, writes, round_.killed, time.monotonic() - began)

    def _join(self, key: str, revision: int) -> str:
        labels = {**self.world.selector, CORNER: key, "topology.kubernetes.io/zone": "sim-1a"}
        [name] = self._fleet.join(1, release="2022", revision=revision, labels=labels)
        return name

    def _await(self, check: Callable[[View], bool], *, what: str) -> None:
        eventually(lambda: check(self._sight.next()), what=what, seconds=GUARD_SECONDS, every=0)


class _Round:
    """One round in a corner whose pods run, and in which nothing of ours is yet."""

    def __init__(self, corner: Corner, *, kills: tuple[Kill, ...], sight: Sight, fleet: FleetControl) -> None:
        self._corner = corner
        self._sight = sight
        self._told = ", ".join(map(str, kills)) or "undisturbed"
        self._first = corner.nodes[0]
        self._actor = Actuator(api=corner.world.testbed.api(), fleet=fleet, outage=QUICK)
        self._acted = Counter[str]()
        self._rules = {
            each: corner.proxy.add(
                each.match, kill(lambda: corner.operator.pid, when=each.when), nth=each.nth
            )
            for each in kills
        }

    @property
    def killed(self) -> frozenset[Kill]:
        """The kills for which there was such a write."""
        return frozenset(each for each, rule in self._rules.items() if rule.hits)

    def play(self, expected: str, *, stays_seconds: float) -> tuple[str, Counter[str]]:
        """Play it; return the end of the upgrade, and the writes until then."""
        corner, testbed = self._corner, self._corner.world.testbed
        testbed.api().merge(f"{NODES}/{self._first}", {"metadata": {"annotations": BORROWED}})
        bare = self._sight.next()
        pool = corner.world.apply(pool_of(corner))
        nodes = Watcher(testbed, "nodes", "-l", f"{CORNER}={corner.key}")
        with nodes, Watcher(testbed, "wnp", pool) as pools:
            corner.operator.start(wait=False)
            end = self._end(expected, stays_seconds)
            nodes.catch_up(self._sight.next().nodes[each] for each in corner.nodes)
            pools.catch_up([self._sight.next().pools[pool]])
        writes = [each for each in corner.proxy.writes() if each.forwarded]
        assert_one_way(nodes.states[self._first], pools.states[pool])
        assert self._acted == {"patch": 1}, f"{self._told}: the actor did {self._acted}"
        asked = Counter(
            json.loads(each.body)["deleteOptions"]["preconditions"]["uid"]
            for each in writes
            if kind_of(each) == EVICTION and each.server_status == 201
        )
        assert sorted(asked.values()) == [1] * PODS, f"{self._told}: pods were evicted {asked}"
        corner.world.delete(pool, wait=False)
        self._await(lambda view: self._is_released(view, bare), what="the nodes as they were before the pool")
        return end, Counter(map(kind_of, writes))

    def _end(self, expected: str, stays_seconds: float) -> str:
        """Return the end of the upgrade: nothing is written any more, and it is the one expected."""
        last, seen = "", 0
        since = time.monotonic()

        def is_end(view: View) -> bool:
            nonlocal last, seen, since
            before = (last, seen)
            last, seen = self._looks(view), len(self._corner.proxy.writes())
            if before != (last, seen) or not self._is_up():
                since = time.monotonic()
            assert self._is_done(view), last
            away = differences(last, expected) if expected else ""
            assert not away, away
            return time.monotonic() >= since + stays_seconds

        self._await(is_end, what="the end of the upgrade")
        return last

    def _is_up(self) -> bool:
        operator = self._corner.operator
        return operator.running and operator.get("/readyz")[0] == HTTPStatus.OK

    def _is_done(self, view: View) -> bool:
        """Whether the upgrade has ended, as node and pool tell."""
        status = view.pools[self._corner.pool_name].get("status", {})
        said = {each["type"]: each["status"] for each in status.get("conditions", [])}
        first, second = (view.nodes[each] for each in self._corner.nodes)
        assert [labels_of(each).get(STATE_LABEL) for each in (first, second)] == ["UpToDate"] * 2
        assert not first["spec"].get("unschedulable")
        assert not {each["type"] for each in first["status"]["conditions"]} & OURS
        annotations = annotations_of(first)
        assert json.loads(annotations.get("winpool.dev/upgrade", "{}")).keys() == {"target", "doneAt"}
        assert {key: annotations.get(key) for key in BORROWED} == BORROWED
        return "slots" not in status and said.get("Reconciling") == "False"

    def _looks(self, view: View) -> str:
        """Return what nodes, pods and pool look like, without what no two rounds have in common."""
        corner = self._corner
        pool = view.pools[corner.pool_name]
        state = {
            "nodes": {each: told(view.nodes[each]) for each in corner.nodes},
            "pods": running(view, corner.key),
            "pool": {
                "finalizers": pool["metadata"].get("finalizers", []),
                "status": pool.get("status", {}),
            },
        }
        found = as_text(state, without=_OF_THE_MOMENT)
        names = zip(
            (corner.pool_name, *corner.nodes, corner.key), ("POOL", "FIRST", "SECOND", "CORNER"), strict=True
        )
        for name, stands_for in names:
            found = found.replace(name, stands_for)
        for form, stands_for in _NAMES:
            found = form.sub(stands_for, found)
        return found

    def _is_released(self, view: View, bare: View) -> bool:
        now, before = ({each: told(seen.nodes[each]) for each in self._corner.nodes} for seen in (view, bare))
        for each in now.values():  # the actor's own
            each["annotations"].pop("actuator.example.com/begun", None)
        assert now == before, differences(as_text(now, without=()), as_text(before, without=()))
        return self._corner.pool_name not in view.pools

    def _await(self, check: Callable[[View], bool], *, what: str) -> None:
        """Return when a view shows it; meanwhile act, and start the operator again where it was killed."""

        def checked() -> bool:
            view = self._sight.next()
            try:
                self._corner.revive()
                did = self._actor.look_at(view.nodes[self._first])
                assert did in ("", "patch"), f"handed over: {did}"
            except AssertionError as error:
                raise HopelessError(f"{self._told}: {what}: {error}") from error
            if did:
                self._acted[did] += 1
            return check(view)

        eventually(checked, what=f"{self._told}: {what}", seconds=GUARD_SECONDS, every=0)


def pool_of(corner: Corner) -> Object:
    """Return the pool of a corner."""
    return corner.world.pool(
        corner.key,
        nodeSelector={"matchLabels": corner.selector},
        os={"version": "2022", "targetRevision": TARGET},
        validation={"readySeconds": 0, "timeoutSeconds": 120},
        upgrade=upgrade(corner.world, **QUICKLY, drain={"unmanagedPods": "Evict"}),
    )


def told(node: Object) -> Object:
    """Return what a node carries, and its conditions."""
    return {
        **carried(node),
        "conditions": {each["type"]: each["status"] for each in node["status"]["conditions"]},
    }


def running(view: View, key: str) -> dict[str, int]:
    """Return how many pods of a corner are Ready on which node."""
    found = Counter[str]()
    for pod in view.pods.values():
        is_mine = pod["metadata"].get("labels", {}).get(CORNER) == key
        if is_mine and "deletionTimestamp" not in pod["metadata"] and is_ready(pod):
            found[pod["spec"]["nodeName"]] += 1
    return dict(found)


def is_ready(pod: Object) -> bool:
    """Whether a pod is Ready."""
    found = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return found.get("Ready") == "True"


@contextmanager
def pods_on(corner: Corner) -> Iterator[None]:
    """Have pods run on the first node of a corner, which fit on the second as well."""
    name, world, labels = corner.pool_name, corner.world, {CORNER: corner.key}
    world.kubectl(
        "create", "-f", "-", stdin="\n".join(map(json.dumps, _objects(name, corner.nodes[0], labels)))
    )
    try:
        yield
    finally:
        kinds = "replicasets,poddisruptionbudgets,pods,persistentvolumeclaims,persistentvolumes"
        world.kubectl(
            "delete", kinds, "-n", NAMESPACE, "-l", f"{CORNER}={corner.key}", "--now", "--timeout=50s"
        )


def _objects(name: str, first: str, labels: dict[str, str]) -> Iterator[Object]:
    head = {"name": name, "labels": labels}
    local = {**head, "namespace": NAMESPACE}
    of_web = {**labels, "app": "web"}
    containers = [{"name": "app", "image": "registry.example.com/team/app:1.2"}]
    is_first = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [first]}]
    preferred = [{"weight": 100, "preference": {"matchExpressions": is_first}}]
    spec = {
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": labels,
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        "containers": containers,
    }
    selector = {"matchLabels": of_web}
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": local,
        "spec": {"minAvailable": PODS - 2, "selector": selector},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": local,
        "spec": {
            "replicas": PODS - 1,
            "selector": selector,
            "template": {"metadata": {"labels": of_web}, "spec": spec},
        },
    }
    disk = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": head,
        "spec": {
            **disk,
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": NAMESPACE, "name": name},
            "csi": {"driver": "disk.csi.example.com", "volumeHandle": name},
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": local,
        "spec": {**disk, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": name}}]
    yield {"apiVersion": "v1", "kind": "Pod", "metadata": local, "spec": {**spec, "volumes": volumes}}


@contextmanager
def a_stage(
    world: World, *, every_seconds: float = EVERY_SECONDS, stays_seconds: float = STAYS_SECONDS
) -> Iterator[Stage]:
    """Bring up machines whose volumes are detached late, with the rights of an operator that drains nodes.

    What happens is looked at every so many seconds, and an end is one that stays for so long.
    """
    socket = world.directory / "fleet.sock"
    world.fleet(windows=1, extra=(f"--control-socket={socket}", "--detach-seconds=1"))
    with rollout_rights(world), Sight(world, every_seconds=every_seconds) as sight:
        yield Stage(world, sight=sight, fleet=FleetControl(socket), stays_seconds=stays_seconds)
