"""Plans an uninstallation: which nodes have something of winpool, what to know before, and the steps.

The order of the steps: the pools first, while an operator runs and the guard keeps their records from being
forged. Then the operator, with guard and fence. The CRD last: its deletion deletes all pools.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from winpool.api.keys import (
    APPLIED_ANNOTATION,
    CRD_NAME,
    GUARD_MANIFEST,
    NAMESPACE,
    OWN_ANNOTATIONS,
    OWN_LABELS,
    OWN_TAINTS,
    POOL_LABEL,
    RELEASE_FINALIZER,
    REQUEST_ANNOTATIONS,
    SHORT_NAME,
)
from winpool.api.spec import Mode
from winpool.api.text import NAMES_SHOWN, grouped
from winpool.cli.counts import listed
from winpool.model.node import NO_KEYS, Keys, Node
from winpool.ownership.desired import stays_behind, why_unreadable
from winpool.ownership.record import Owned, Record, record_of
from winpool.ownership.trust import keys_of, standing
from winpool.status.assessment import counted_nodes
from winpool.status.events import NODE, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from winpool.model.pool import Pool

K = TypeVar("K")

NAME_LABEL: Final = "app.kubernetes.io/name=winpool"
"""What every object of an installation has, of each variant and of the chart."""

_OF_THE_CLUSTER: Final = ",".join(
    (
        *("clusterroles", "clusterrolebindings", "flowschemas"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    )
)
"""The kinds without a namespace that an installation has, but for the CRD."""

NODES_AT_ONCE: Final = 50
"""Nodes in one command: names of 63 characters then fit a line of 4096, the limit of a terminal's input."""

_MANY: Final = 10
"""Pools, taints or causes that a warning names."""

_ROLLOUT_TIMEOUT: Final = "--timeout=300s"
"""How long a command waits for the operator's pods: time to pull an image on a slow link."""

_BY_HAND: Final = 'see "The operator is gone already" in the docs'
_STOP_OUTSIDE: Final = (
    "Stop the operator if one runs outside the cluster: press Ctrl-C in its terminal, or send it SIGTERM"
)
_REMOVE: Final = (
    "Remove the operator's objects, the guard and the fence. Not earlier: until the nodes are released, the "
    "guard keeps kubelets from forging the records that say what to remove"
)
_OWN: Final = Keys(frozenset(OWN_LABELS), frozenset(OWN_TAINTS), frozenset(OWN_ANNOTATIONS))

# What was read of a cluster


class DeploymentFact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Deployment of the operator: how many replicas it asks for, and how many of them are ready.

    ``release`` is the release of Helm that has it, empty where none has.
    """

    name: str
    replicas: int
    ready_replicas: int
    release: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFact:
    """A Lease in the operator's namespace; ``live`` says that its holder has renewed it in time."""

    name: str
    holder: str
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFact:
    """The guard: whether a part of it is there, why it is not in force, and its identity.

    ``problem`` is empty where it is in force, and ``identity`` where it is not.
    """

    found: bool
    problem: str = "it is not installed"
    identity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceFact:
    """The fence: whether a part of it is there, and which parts are missing."""

    found: bool
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that was read. Pools and nodes are always read, or there is no plan.

    ``nodes`` are all nodes of the cluster that can be read, whatever their system; ``unread_nodes`` name the
    others, each with the reason. ``roles`` names the ClusterRoles and their bindings that have the label of
    winpool, those of variants too. A part of the installation that could not be read is None, and
    ``unread`` says why. ``flags`` choose the cluster in every command that is shown.
    """

    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    unread_nodes: tuple[str, ...] = ()
    namespace: bool | None = False
    deployments: tuple[DeploymentFact, ...] | None = ()
    leases: tuple[LeaseFact, ...] | None = ()
    guard: GuardFact | None = GuardFact(found=False)
    fence: FenceFact | None = FenceFact(found=False)
    roles: tuple[str, ...] | None = ()
    crd: bool | None = False
    unread: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @property
    def operator_runs(self) -> bool:
        """Whether an operator is known to run: by a ready replica, or by a Lease that is renewed."""
        is_ready = any(each.ready_replicas for each in self.deployments or ())
        return is_ready or bool(self.leaders)

    @property
    def leaders(self) -> tuple[LeaseFact, ...]:
        """The Leases that are renewed."""
        return tuple(each for each in self.leases or () if each.live)

    @property
    def is_installed(self) -> bool:
        """Whether something of ``deploy/operator`` or of a variant is there, or may be there."""
        policies = [each is None or each.found for each in (self.guard, self.fence)]
        parts = (self.namespace, self.deployments, self.leases, self.roles, *policies)
        return any(each is None or each for each in parts)

    def kubectl(self, *arguments: str) -> str:
        """Return the command with these arguments, for the cluster that was asked."""
        return shlex.join(("kubectl", *arguments, *self.flags))


# Which nodes have something of winpool


class Place(StrEnum):
    """Whose a node is by its record, or by its pool label where there is no readable record."""

    OWNED = "Owned"
    """Of a pool that exists, by a readable record."""
    RECORD_UNREADABLE = "RecordUnreadable"
    """Of a pool that exists, by the label only: the record is missing or cannot be read."""
    POOL_GONE = "PoolGone"
    """Of a pool that does not exist."""
    NO_OWNER = "NoOwner"
    """Of no pool: no operator removes what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFinding:
    """A node with something of winpool.

    ``pool`` is a name, or the UID of a pool that is gone and whose name is unknown. ``own`` are the keys of
    winpool on a node of no pool. ``changed`` are keys that the record names and whose value someone else has
    changed since, ``lost`` keys of the pool that no readable record names: the release leaves both.
    ``taints`` are the keys and effects that the release removes. ``why`` says why the record cannot be read.
    ``guard`` is that under which the record was written, empty for none, and None where there is no readable
    record.
    """

    node: Node
    place: Place
    pool: str = ""
    own: Keys = NO_KEYS
    changed: Keys = NO_KEYS
    lost: Keys = NO_KEYS
    taints: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    why: str = ""
    guard: str | None = None


def findings_of(facts: Facts) -> tuple[NodeFinding, ...]:
    """Return every node with something of winpool, each once, by place, pool and name.

    Each is in one place only, the same in which the operator finds it (``ownership/``).
    """
    order = list(Place)
    found = (_finding(node, facts.pools) for node in facts.nodes if standing(_OWN, node))
    return tuple(sorted(found, key=lambda each: (order.index(each.place), each.pool, each.node.name)))


def _finding(node: Node, pools: Iterable[Pool]) -> NodeFinding:
    found, label = record_of(node), node.labels.get(POOL_LABEL, "")
    if isinstance(found, Record):
        pool = next((each for each in pools if each.uid == found.pool_uid), None)
        known = found.lost | found.left if pool is None else found.left | (found.lost & keys_of(pool))
        taints = {taint.identity: taint.value for taint in node.taints}
        return NodeFinding(
            node=node,
            place=Place.OWNED if pool else Place.POOL_GONE,
            pool=pool.name if pool else label or found.pool_uid,
            changed=Keys(_changed(found.labels, node.labels), _changed(found.taints, taints)),
            lost=stays_behind(standing(known, node), labels=found.labels, taints=found.taints),
            taints=frozenset(
                key for key, own in found.taints.items() if own.before is None and taints.get(key) == own.set
            ),
            guard=found.guard,
        )
    why = why_unreadable(node, found, pool_name=label)
    pool = next((each for each in pools if each.name == label), None)
    if pool is None:
        place = Place.POOL_GONE if label else Place.NO_OWNER
        return NodeFinding(node=node, place=place, pool=label, own=standing(_OWN, node), why=why)
    lost = standing(keys_of(pool), node) if why else NO_KEYS
    return NodeFinding(node=node, place=Place.RECORD_UNREADABLE, pool=label, lost=lost, why=why)


def _changed(owned: Mapping[K, Owned], values: Mapping[K, str]) -> frozenset[K]:
    """Return what is on the node with a value that is neither ours nor that from before."""
    return frozenset(
        key for key, own in owned.items() if values.get(key, own.set) not in (own.set, own.before)
    )


# The plan


class Caution(msgspec.Struct, frozen=True):
    """Something to know before winpool is uninstalled, and the nodes that it is about, if any."""

    reason: str
    message: str
    nodes: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, rename="camel"):
    """A step: its title, the commands to run one after the other, and what to wait for before the next.

    Without commands a person has to do what the title says.
    """

    kind: str
    title: str
    commands: tuple[str, ...]
    wait_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is on nodes, in what order to go, and the cautions that apply.

    ``is_ready``: no pool is left and no node has anything of winpool, so ``deploy/operator`` can be removed.
    """

    is_ready: bool
    nodes: tuple[NodeFinding, ...]
    cautions: tuple[Caution, ...]
    steps: tuple[Step, ...]


def plan_of(facts: Facts) -> Plan:
    """Return the plan for a cluster."""
    found = findings_of(facts)
    is_ready = not (facts.pools or found or facts.unread_nodes)
    return Plan(
        is_ready=is_ready,
        nodes=found,
        cautions=(
            *_of_installation(facts, is_needed=bool(facts.pools or found)),
            *_of_pools(facts.pools),
            *_of_nodes(facts, found),
            *_of_records(facts, [each for each in found if each.guard is not None]),
            *_of_keys(facts, found),
        ),
        steps=tuple(_steps(facts, found, is_ready=is_ready)),
    )


def removal(facts: Facts, nodes: Sequence[str], keys: Keys) -> Iterator[str]:
    """Yield the commands that remove ``keys`` from ``nodes``, which all have them."""
    for verb, what in (
        ("taint", [f"{key}:{effect}-" for key, effect in sorted(keys.taints)]),
        ("label", [f"{key}-" for key in sorted(keys.labels)]),
        ("annotate", [f"{key}-" for key in sorted(keys.annotations)]),
    ):
        if what:
            yield facts.kubectl(verb, "nodes", *nodes, *what)
    if keys.unschedulable:
        yield facts.kubectl("uncordon", *nodes)


def _steps(facts: Facts, found: Sequence[NodeFinding], *, is_ready: bool) -> Iterator[Step]:
    deployments = facts.deployments or ()
    awake = [each for each in deployments if each.replicas]
    if deployments and not is_ready and not facts.operator_runs and not awake:
        yield Step(
            "StartOperator",
            "Start the operator: only a running one releases nodes",
            tuple(_scaled(facts, deployments, 1)),
            "The replica is ready.",
        )
    if facts.pools:
        waiting = all(each.deleting for each in facts.pools)
        yield Step(
            "DeletePools",
            "Wait until the pools are deleted" if waiting else "Delete the pools",
            (facts.kubectl("delete", SHORT_NAME, "--all"),),
            "The command returns when the operator has released the last node. If it does not, read "
            '"A pool that stays in Deleting" in the docs.',
        )
    if unowned := [each for each in found if each.place is Place.NO_OWNER]:
        yield Step(
            "CleanNodes",
            "Remove the keys of winpool that no pool and no record names: the operator leaves them",
            tuple(
                command
                for keys, names in _alike(unowned, "own")
                for first in range(0, len(names), NODES_AT_ONCE)
                for command in removal(facts, names[first : first + NODES_AT_ONCE], keys)
            ),
            "Each command returns at once.",
        )
    if not is_ready:
        yield Step(
            "Check",
            "Check that nothing is left",
            (facts.kubectl("winpool", "uninstall", "--plan"),),
            "It exits with 0. If it still names nodes, follow its warnings and repeat it.",
        )
    if facts.is_installed and (awake or not deployments):
        title = "Stop the operator" if awake else _STOP_OUTSIDE
        yield Step("StopOperator", title, tuple(_scaled(facts, awake, 0)), "No operator runs any more.")
    if facts.is_installed:
        removed = tuple(_removed(facts))
        yield Step("RemoveOperator", _REMOVE, removed, f"The namespace {NAMESPACE} is gone.")
    if facts.crd is not False:  # also where it could not be read
        yield Step(
            "RemoveCRD",
            "Remove the CRD last: its deletion deletes all pools",
            (facts.kubectl("delete", "crd", CRD_NAME, "--ignore-not-found"),),
            "The command returns when the CRD is gone.",
        )


def _removed(facts: Facts) -> Iterator[str]:
    for release in sorted({each.release for each in facts.deployments or () if each.release}):
        flags = [each.replace("--context=", "--kube-context=") for each in facts.flags]
        if all(each.startswith(("--kube-context=", "--kubeconfig=")) for each in flags):
            # Helm has no other flag of kubectl, and without it would act on another cluster.
            yield shlex.join(("helm", "uninstall", release, "--namespace", NAMESPACE, *flags))
    yield facts.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    yield facts.kubectl("delete", "roles,rolebindings", "-n", "default", "-l", NAME_LABEL)
    yield facts.kubectl("delete", _OF_THE_CLUSTER, "-l", NAME_LABEL)


def _scaled(facts: Facts, deployments: Iterable[DeploymentFact], replicas: int) -> Iterator[str]:
    for each in deployments:
        name = f"deployment/{each.name}"
        yield facts.kubectl("-n", NAMESPACE, "scale", name, f"--replicas={replicas}")
        yield facts.kubectl("-n", NAMESPACE, "rollout", "status", name, _ROLLOUT_TIMEOUT)


def _alike(found: Iterable[NodeFinding], what: str) -> Iterable[tuple[Keys, list[str]]]:
    """Return the keys in the field ``what`` of nodes, with the names of the nodes that have the same ones."""
    return grouped((keys, each.node.name) for each in found if (keys := getattr(each, what))).items()


# The cautions: each only where it applies


def _of_installation(facts: Facts, *, is_needed: bool) -> Iterator[Caution]:
    for part, why in facts.unread.items():
        yield Caution("Unread", f"It is unknown whether {part} is there: {why}")
    names = ", ".join(each.name for each in facts.deployments or ())
    for each in facts.leaders:
        if names and not _is_pod_of(each.holder, facts.deployments or ()):
            yield Caution(
                "OperatorElsewhere",
                f"{each.holder} renews the Lease {NAMESPACE}/{each.name}, and is no Pod of the Deployment "
                f"{names}: it continues when the Deployment is scaled to 0. {_STOP_OUTSIDE}.",
            )
    if is_needed and facts.deployments is not None and not facts.leaders:
        yield from _of_no_leader(facts, names)


def _is_pod_of(holder: str, deployments: Iterable[DeploymentFact]) -> bool:
    """Whether a holder, which is called after its host, has the name of a Pod of one of ``deployments``."""
    host = holder.rpartition("_")[0]
    return any(re.fullmatch(rf"{re.escape(each.name)}-\w+-\w+", host) for each in deployments)


def _of_no_leader(facts: Facts, names: str) -> Iterator[Caution]:
    """Say that no operator runs, or that none leads. ``names`` are those of the Deployments."""
    if facts.operator_runs:
        if facts.leases:  # without leader election there may be none
            yield Caution(
                "OperatorSilent",
                f"The Deployment {names} in the namespace {NAMESPACE} has a ready replica, and no one renews "
                "the Lease. Only an operator that leads releases nodes. Check its log, unless it runs "
                "without --leader-elect.",
            )
    elif names:
        yield Caution(
            "OperatorDown",
            f"The Deployment {names} in the namespace {NAMESPACE} has no ready replica. Only a running "
            "operator releases nodes: the deletion of a pool waits for it.",
        )
    else:
        yield Caution(
            "OperatorUnknown",
            f"The namespace {NAMESPACE} has no Deployment of winpool and no Lease that is renewed. Only a "
            "running operator releases nodes. Check that one runs outside the cluster, start one, or "
            f"release the nodes by hand ({_BY_HAND}).",
        )


def mode_of(pool: Pool) -> str:
    """Return the mode of the pool, that of the default where its spec cannot be read."""
    return Mode.ACTIVE if pool.spec is None else pool.spec.mode


def other_finalizers(pool: Pool) -> tuple[str, ...]:
    """Return the finalizers of the pool that are of other programs."""
    return tuple(each for each in pool.finalizers if each != RELEASE_FINALIZER)


def _of_pools(found: Iterable[Pool]) -> Iterator[Caution]:
    if quiet := [each for each in found if mode_of(each) != Mode.ACTIVE and not each.deleting]:
        pools = ", ".join(f"{each.name} ({mode_of(each)})" for each in quiet)
        yield Caution(
            "PoolPaused",
            f"In their mode, the operator does not write to the nodes of these pools: {pools}. If you delete "
            "them, it still releases the nodes.",
        )
    for each in found:
        if others := other_finalizers(each):
            yield Caution(
                "OtherFinalizers",
                f"The pool {each.name} has finalizers of other programs: {', '.join(others)}. "
                "Its deletion also waits for these programs.",
            )


def _of_nodes(facts: Facts, found: Sequence[NodeFinding]) -> Iterator[Caution]:
    if facts.unread_nodes:
        unread = listed(facts.unread_nodes, most=_MANY)
        yield Caution("NodeUnreadable", f"Nodes that cannot be read, so what is on them is unknown: {unread}")
    gone = [each for each in found if each.place is Place.POOL_GONE]
    yield from _about(
        "PoolGone",
        gone,
        f"the pool does not exist ({listed(sorted({each.pool for each in gone}), most=_MANY)}). A running "
        "operator releases these nodes when two lists of all pools lack the pool. By default that takes 5 "
        "minutes.",
    )
    unread_records = [each for each in found if each.why]
    yield from _about(
        "RecordUnreadable",
        unread_records,
        f"the ownership record in annotation {APPLIED_ANNOTATION} cannot be read "
        f"({listed(sorted({each.why for each in unread_records}), most=_MANY)}). Only keys under "
        "winpool.dev/ are removed from these nodes.",
    )


def _about(reason: str, found: Iterable[NodeFinding], said: str) -> Iterator[Caution]:
    if names := tuple(each.node.name for each in found):
        yield Caution(reason, f"{counted_nodes(names)}: {said}", names)


def _of_records(facts: Facts, recorded: Sequence[NodeFinding]) -> Iterator[Caution]:
    """Say how far the operator trusts the records of nodes."""
    if facts.guard is None or not recorded:
        return
    if not facts.guard.identity:
        yield Caution(
            "GuardNotInForce",
            f"The guard is not in force: {facts.guard.problem}. Without it the operator trusts the records "
            "on nodes less, and may leave keys that a pool has set. Apply it first: "
            + facts.kubectl("apply", "-f", GUARD_MANIFEST),
        )
        return
    yield from _about(
        "RecordUnguarded",
        [each for each in recorded if each.guard != facts.guard.identity],
        "the ownership record was not written under the guard in force. If its pool exists, a running "
        "operator writes it again. If not, the operator may remove nothing: then release the node by hand "
        f"({_BY_HAND}).",
    )


def _of_keys(facts: Facts, found: Sequence[NodeFinding]) -> Iterator[Caution]:
    """Say which keys a release leaves, and which taints it removes."""
    for reason, what, why in (
        ("KeysStay", "lost", "No readable record says who set this, so it stays"),
        ("KeysChanged", "changed", "Someone else has changed this since the pool set it, so it stays"),
    ):
        for keys, names in _alike(found, what):
            shown = names if len(names) <= NAMES_SHOWN else [NODE]
            commands = "; ".join(removal(facts, shown, keys))
            said = f"{counted_nodes(names)}: {named(keys)}. {why}. If no one needs it: {commands}"
            yield Caution(reason, said, tuple(names))
    if taints := sorted({":".join(each) for node in found for each in node.taints}):
        yield Caution(
            "TaintsGo",
            f"The release removes taints: {listed(taints, most=_MANY)}. Pods that do not tolerate them can "
            "be scheduled to these nodes afterwards.",
            tuple(each.node.name for each in found if each.taints),
        )
    asked = (node.name for node in facts.nodes if not node.annotations.keys().isdisjoint(REQUEST_ANNOTATIONS))
    if requests := tuple(sorted(asked)):
        yield Caution(
            "RequestsStay",
            f"{counted_nodes(requests)}: {', '.join(REQUEST_ANNOTATIONS)} stay. Other programs and people "
            "write these annotations.",
            requests,
        )
