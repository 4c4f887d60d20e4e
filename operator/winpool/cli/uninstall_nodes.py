"""Which nodes have something of winpool, whose it is, and what stays on them when it is released.

Each such node is in one place only, the same in which the operator finds it (``ownership/``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from winpool.api.keys import OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.api.node_keys import OWN_ANNOTATIONS, OWN_LABELS, OWN_TAINTS, REQUEST_ANNOTATIONS
from winpool.model.node import NO_KEYS, Keys
from winpool.ownership.desired import lost_on, stays_behind, why_unreadable
from winpool.ownership.record import Record, record_of
from winpool.ownership.trust import standing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from winpool.cli.uninstall_facts import Facts, PoolFact
    from winpool.model.node import Node

_OWN = Keys(frozenset(OWN_LABELS), frozenset(OWN_TAINTS), frozenset(OWN_ANNOTATIONS))


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
    winpool on it. ``changed`` are keys that the record names and whose value someone else has changed since,
    ``lost`` keys of the pool that no readable record names: the release leaves both. ``taints`` are the keys
    and effects that the release removes. ``why`` says why the record cannot be read. ``guard`` is that under
    which the record was written, empty for none, and None where there is no readable record.
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

    @property
    def is_windows(self) -> bool:
        """Whether it has the label of a Windows node. The deletion of a pool does not wait for others."""
        return self.node.labels.get(OS_LABEL) == OS_WINDOWS

    @property
    def reports(self) -> bool:
        """Whether its kubelet reports to the API server."""
        return self.node.ready != "Unknown"


def findings_of(facts: Facts) -> tuple[NodeFinding, ...]:
    """Return every node with something of winpool, each once, by name."""
    by_uid = {pool.uid: pool for pool in facts.pools}
    by_name = {pool.name: pool for pool in facts.pools}
    found = (_finding(node, by_uid=by_uid, by_name=by_name) for node in facts.nodes if own_keys(node))
    return tuple(sorted(found, key=lambda each: each.node.name))


def names_of(found: Iterable[NodeFinding], applies: Callable[[NodeFinding], bool]) -> tuple[str, ...]:
    """Return the names of those nodes for which ``applies`` returns True."""
    return tuple(each.node.name for each in found if applies(each))


def own_keys(node: Node) -> Keys:
    """Return the keys on ``node`` that are winpool's alone. Requests of others are none."""
    return standing(_OWN, node)


def requests_on(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the names of the nodes on which others have asked winpool for something."""
    return tuple(
        sorted(node.name for node in nodes if any(key in node.annotations for key in REQUEST_ANNOTATIONS))
    )


def _finding(node: Node, *, by_uid: Mapping[str, PoolFact], by_name: Mapping[str, PoolFact]) -> NodeFinding:
    found, label, own = record_of(node), node.labels.get(POOL_LABEL, ""), own_keys(node)
    if isinstance(found, Record):
        pool = by_uid.get(found.pool_uid)
        known = found.lost | found.left if pool is None else found.left | (found.lost & pool.keys)
        return NodeFinding(
            node=node,
            place=Place.POOL_GONE if pool is None else Place.OWNED,
            pool=(label or found.pool_uid) if pool is None else pool.name,
            own=own,
            changed=_changed(node, found),
            lost=stays_behind(standing(known, node), labels=found.labels, taints=found.taints),
            taints=_removed_taints(node, found),
            guard=found.guard,
        )
    why = why_unreadable(node, found, pool_name=label)
    if not label:
        return NodeFinding(node=node, place=Place.NO_OWNER, own=own, why=why)
    pool = by_name.get(label)
    if pool is None:
        return NodeFinding(node=node, place=Place.POOL_GONE, pool=label, own=own, why=why)
    return NodeFinding(
        node=node,
        place=Place.RECORD_UNREADABLE,
        pool=pool.name,
        own=own,
        lost=lost_on(node, found, pool_uid=pool.uid, known=pool.keys, why=why),
        why=why,
    )


def _changed(node: Node, record: Record) -> Keys:
    """Return the keys of ``record`` that are on the node with another value: the release leaves them."""
    taints = {taint.identity: taint.value for taint in node.taints}
    return Keys(
        frozenset(
            key
            for key, own in record.labels.items()
            if node.labels.get(key, own.set) not in (own.set, own.before)
        ),
        frozenset(
            each
            for each, own in record.taints.items()
            if taints.get(each, own.set) not in (own.set, own.before)
        ),
    )


def _removed_taints(node: Node, record: Record) -> frozenset[tuple[str, str]]:
    taints = {taint.identity: taint.value for taint in node.taints}
    return frozenset(
        each for each, own in record.taints.items() if own.before is None and taints.get(each) == own.set
    )
