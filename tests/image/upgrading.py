"""A cluster in which two versions of the operator follow each other, and what each of them has written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from harness.election import ELECTING, stands_by, wait_leading
from harness.manifests import DEPLOY
from harness.operator import Operator
from harness.waiting import eventually
from harness.world import World, is_node_patch
from image.before import Before
from image.building import Image
from image.running import ImageOperator, service_account
from testbed.audit import AuditRecord
from winpool.api.keys import APPLIED_ANNOTATION

Object = dict[str, Any]

GUARD_SECONDS: Final = 240.0

NAMED: Final = {"USER": "winpool"}
"""The operator before does not run as a user without a name, as 65532 is, unless a variable says one."""

OK: Final = 200
CONFLICT: Final = 409

PODS_GONE: Final = ("-n", "winpool-system", "delete", "deployment", "winpool", "--wait=true")


class Upgrading:
    """The operator before and that of this tree, out of their images, in one world."""

    def __init__(self, world: World, *, before: Before, image: Image, directory: Path) -> None:
        self.world = world
        self._before = before
        self._image = image
        self._directory = directory
        self._account = service_account(world.testbed, directory / "account")
        self._made: list[ImageOperator] = []

    def old(self) -> Operator:
        """Return the operator before, not started yet."""
        return self._operator(self._before.image, NAMED)

    def new(self) -> Operator:
        """Return an operator of this tree with leader election, not started yet."""
        return self._operator(self._image, ELECTING)

    def new_pair(self) -> tuple[Operator, Operator]:
        """Start two of this tree; return when the first leads and the second stands by."""
        first, second = self.new(), self.new()
        first.start()
        wait_leading(first, seconds=GUARD_SECONDS)
        second.start()
        eventually(lambda: stands_by(second), what="the second stands by", seconds=GUARD_SECONDS)
        return first, second

    def install_new(self) -> None:
        """Do what the notes say: apply all of this version. Its Pods are simulated: containers run beside."""
        self.world.kubectl("apply", "-k", str(DEPLOY))

    def install_old(self) -> None:
        """Do what the notes say: take the Deployment away, and apply what the version before has."""
        self.world.kubectl(*PODS_GONE)
        for folder in ("crds", "deploy/operator"):
            self.world.kubectl("apply", "-k", str(self._before.tree / folder))

    def close(self) -> None:
        """End all that still run."""
        for operator in self._made:
            operator.close()

    def _operator(self, image: Image, environment: Mapping[str, str]) -> ImageOperator:
        operator = ImageOperator(
            image,
            self.world.testbed,
            directory=self._directory,
            account=self._account,
            name=f"image-{len(self._made) + 1}",
            environment=environment,
        )
        self._made.append(operator)
        return operator


def wait_judged(operator: Operator, pool: str, *, nodes: int, guarded: bool = True) -> None:
    """Return when an operator has judged the pool, all its pods and the guard since it started.

    ``guarded`` says whether the guard of its version is the one that is installed.
    """

    def check() -> bool:
        # The values of the labels as this operator writes them, and the earlier one.
        return operator.metric("winpool_guard_in_force") == guarded and any(
            operator.metric("winpool_nodes", pool=pool, state=state) == nodes
            and (operator.metric("winpool_pod_passes_total", result=result) or 0) >= 1
            for state, result in (("UpToDate", "Success"), ("up_to_date", "success"))
        )

    eventually(check, what=f"{pool} judged ({operator.log_file})", seconds=GUARD_SECONDS)


def without_guard(carried: Object) -> Object:
    """Return what a node carries, its record without the guard under which it was written."""
    annotations = dict(carried["annotations"])
    if text := annotations.get(APPLIED_ANNOTATION):
        record = json.loads(text)
        record.pop("guard", None)
        annotations[APPLIED_ANNOTATION] = record
    return {**carried, "annotations": annotations}


def kept(world: World, pool: str) -> Object:
    """Return all that must outlive a change of the operator: what nodes carry, and the pool.

    Each version has a guard of its own, and names it in the records.
    """
    found = world.get("wnp", pool)
    metadata = {key: found["metadata"].get(key) for key in ("uid", "generation", "finalizers", "annotations")}
    return {
        "nodes": {name: without_guard(each) for name, each in world.carried().items()},
        "pool": metadata,
        "spec": found["spec"],
        "status": found["status"],
    }


def is_status_patch(record: AuditRecord, pool: str) -> bool:
    """Return whether a request wrote the status of the pool, and was taken."""
    wrote = (record.verb, record.resource, record.subresource, record.name)
    return wrote == ("patch", "windowsnodepools", "status", pool) and record.code == OK


def wait_told(world: World, pool: str, told: Mapping[str, Any]) -> None:
    """Return when the status of the pool has these fields, with these values."""
    eventually(
        lambda: told.items() <= world.get("wnp", pool)["status"].items(),
        what=f"the status of {pool} has {', '.join(told)}",
        seconds=GUARD_SECONDS,
    )


def said(records: Sequence[AuditRecord]) -> list[str]:
    """Return requests in words, for a failure."""
    return [f"{each.verb} {each.uri} {each.code} {each.user_agent}" for each in records]


def codes_by_node(world: World, *, since: datetime) -> dict[str, Counter[int]]:
    """Return the answers to the PATCHes of each node."""
    found: dict[str, Counter[int]] = {}
    for each in world.requests(since=since):
        if is_node_patch(each):
            found.setdefault(each.name, Counter())[each.code] += 1
    return found


def guards_of(world: World) -> dict[str, str]:
    """Return the guard that the record of each node names."""
    return {
        name: json.loads(each["annotations"][APPLIED_ANNOTATION]).get("guard", "")
        for name, each in world.carried().items()
        if APPLIED_ANNOTATION in each["annotations"]
    }


class Standing:
    """What was there before the operator changed, and how many PATCHes of nodes came since then."""

    def __init__(self, world: World, pool: str) -> None:
        self.since = world.now()
        self.before_drift = self.after_drift = -1
        self._world = world
        self._pool = pool
        self._found = kept(world, pool)
        self._guards = guards_of(world)

    def check(self, *, told: Mapping[str, Any] | None = None, unreported: Collection[str] = ()) -> None:
        """Assert that all is as it was but the guard that records name, and that nothing else was written.

        Each record is written once, since the guard is another one. ``told`` are the fields of the status
        that only the operator which runs now knows: it adds them, by one write of the status. ``unreported``
        are those that it does not know: they are gone, with its CRD.
        """
        status = {key: value for key, value in self._found["status"].items() if key not in unreported}
        expected = {**self._found, "status": {**status, **(told or {})}}
        if told:
            wait_told(self._world, self._pool, told)
        self.wait_records()
        of_status = self._status_patches()
        assert len(of_status) == (1 if told else 0), said(of_status)
        found = kept(self._world, self._pool)
        assert {key: found["status"].get(key) for key in expected["status"]} == expected["status"]
        assert found == expected
        self.before_drift = len(self._taken())
        assert self.writes_of_nodes() == dict.fromkeys(self._guards, 1)

    def wait_records(self) -> None:
        """Return when each record names another guard than before."""
        eventually(
            lambda: all(guard != self._guards[name] for name, guard in guards_of(self._world).items()),
            what="the records name the guard of the operator that runs now",
            seconds=GUARD_SECONDS,
        )

    def _status_patches(self) -> list[AuditRecord]:
        """Return the writes of the status of the pool; assert that all others are of nodes."""
        written = [each for each in self._world.writes(since=self.since) if not is_node_patch(each)]
        of_status = [each for each in written if is_status_patch(each, self._pool)]
        assert said(written) == said(of_status)
        return of_status

    def _taken(self) -> list[AuditRecord]:
        """Return the PATCHes of nodes since then, without those that were refused with 409.

        One that is refused, since the kubelet was faster, changes nothing.
        """
        patches = [each for each in self._world.node_patches(since=self.since) if each.code != CONFLICT]
        assert {each.code for each in patches} <= {OK}, said(patches)
        return patches

    def writes_of_nodes(self) -> dict[str, int]:
        """Return how many PATCHes of each node the API server took since then."""
        return dict(Counter(each.name for each in self._taken()))

    def check_one(self, node: str) -> None:
        """Assert one PATCH of each node for its record, one more of that node, and nothing lost."""
        assert self.writes_of_nodes() == {**dict.fromkeys(self._guards, 1), node: 2}, said(self._taken())
        self.check_nodes()
        self.after_drift = len(self._taken()) - self.before_drift

    def check_nodes(self) -> None:
        """Assert that the nodes carry what they carried, once a drift was repaired."""
        assert kept(self._world, self._pool)["nodes"] == self._found["nodes"]


@contextmanager
def one_write_more(world: World, pool: str, *, to: str) -> Iterator[Standing]:
    """Fail unless each node gets one PATCH in the block, for its record, and that node one more."""
    standing = Standing(world, pool)
    yield standing
    standing.check_one(to)
