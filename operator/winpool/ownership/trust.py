"""What an ownership record permits: a record gives the rights that it had when it was written.

A kubelet may annotate its own Node, so it can write a record, and change one. The guard, an admission
policy, prevents that (ADR 0011). A record that names the guard that is in force was written under it,
and counts completely. Any other record may be forged, and gives less:

- Only keys that its pool asks for or has set count (``Keys``). Other keys that it names stay, and are
  reported.
- Its values from before, for taints and for labels that no kubelet may set, are not believed: ours is
  removed.
- For a pool that this process has never seen it gives no right at all.

The remaining effects of a forged record are small, and listed in ``docs/guard.md``: the operator may take for
its own what someone else had set exactly as the spec asks for it, and take a node that joins for one that is
known.

While it is not known whether the guard is in force, a record that names one is neither removed nor reduced
(P4). The same holds where no guard is in force: that may turn out to be an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.fields import is_restricted_label
from winpool.model.node import NO_KEYS, Keys, Node, NodeCondition
from winpool.model.pool import Pool
from winpool.ownership.record import Owned, Record, TaintIdentity, record_of

MAX_KEYS: Final = 64
"""Label and taint keys that a pool remembers as set: as many as a spec can have (32, 16 and 16)."""

MAX_KEYS_AMID_EDIT: Final = 128
"""The limit while nodes still have keys that an earlier spec asked for: an edit of all keys must forget
none."""


class RecordTrust(msgspec.Struct, frozen=True):
    """What decides which records are believed.

    ``guard`` is the identity of the guard that is in force, empty where none is. ``pools`` are the keys of
    the pools that this process has seen, by UID: of those that records name, also pools that are gone.
    ``is_unknown`` says that a guard may be in force that cannot be read.
    """

    guard: str = ""
    pools: Mapping[str, Keys] = msgspec.field(default_factory=dict)
    is_unknown: bool = False

    def is_guarded(self, record: Record) -> bool:
        """Whether ``record`` was written under the guard that is in force."""
        return bool(self.guard) and record.guard == self.guard

    def is_undecided(self, record: Record) -> bool:
        """Whether what ``record`` permits will be known only once the guard can be read again."""
        return self.is_unknown and bool(record.guard)

    def know_owner(self, record: Record) -> bool:
        """Whether the owner that ``record`` names is, or was, a pool: a forged one can name any UID."""
        if self.is_undecided(record):
            return False
        return self.is_guarded(record) or record.pool_uid in self.pools

    def believed(self, record: Record) -> Record:
        """Return what of ``record`` counts."""
        if self.is_guarded(record):
            return record
        keys = self.pools.get(record.pool_uid, NO_KEYS)
        return replace(
            record,
            labels={
                key: replace(own, before=None) if is_restricted_label(key) else own
                for key, own in record.labels.items()
                if key in keys.labels
            },
            taints={each: Owned(set=own.set) for each, own in record.taints.items() if each in keys.taints},
            annotations={},
            unschedulable=False,
            conditions=frozenset(),
        )

    def doubted(self, record: Record, node: Node) -> Record:
        """Return the part of ``record`` that is on ``node`` and does not count: it is not changed."""
        if self.is_guarded(record):
            return Record(pool_uid=record.pool_uid)
        keys = self.pools.get(record.pool_uid, NO_KEYS)
        standing = {taint.identity: taint.value for taint in node.taints}
        return Record(
            pool_uid=record.pool_uid,
            labels={
                key: own
                for key, own in record.labels.items()
                if key not in keys.labels and node.labels.get(key) == own.set
            },
            taints={
                each: own
                for each, own in record.taints.items()
                if each not in keys.taints and standing.get(each) == own.set
            },
            annotations={
                key: own for key, own in record.annotations.items() if node.annotations.get(key) == own.set
            },
            unschedulable=record.unschedulable and node.unschedulable,
        )


def names(record: Record) -> Keys:
    """Return the keys that ``record`` claims; ``NO_KEYS`` itself where it claims none: a pass keeps many."""
    claimed = Keys(
        frozenset(record.labels),
        frozenset(record.taints),
        frozenset(record.annotations),
        unschedulable=record.unschedulable,
    )
    return claimed or NO_KEYS


def standing(keys: Keys, node: Node) -> Keys:
    """Return those of ``keys`` that are on ``node``, with any value."""
    return keys & Keys(
        frozenset(node.labels),
        frozenset(taint.identity for taint in node.taints),
        frozenset(node.annotations),
        unschedulable=node.unschedulable,
    )


def own_conditions(
    record: object, rights: RecordTrust, written: tuple[NodeCondition, ...] | None
) -> frozenset[str]:
    """Return the types of conditions that are ours: by a record that is believed, or because we wrote them.

    Without a guard, a kubelet can forge both record and condition. It could then make the operator write to
    its node again and again, and stop the pool where the right to write conditions is missing.
    """
    believed = rights.believed(record).conditions if isinstance(record, Record) else frozenset()
    return believed | {each.type for each in written or ()}


def conditions_left(
    node: Node, record: object, rights: RecordTrust, written: tuple[NodeCondition, ...] | None
) -> frozenset[str]:
    """Return the types of conditions on ``node`` that are ours.

    Those that this process has removed and that are there again belong to someone else: a kubelet can write
    any of its node, and nothing may wait until they are gone.
    """
    ours = own_conditions(record, rights, written) & {each.type for each in node.conditions}
    return ours if written is None else ours & {each.type for each in written}


def keys_of(pool: Pool) -> Keys:
    """Return the keys that ``pool`` asks for, and those that it has set according to its status."""
    return asked_keys(pool) | remembered_keys(pool)


def asked_keys(pool: Pool) -> Keys:
    """Return the keys of the spec; none where it cannot be read."""
    spec = pool.spec
    if spec is None:
        return NO_KEYS
    return Keys(
        frozenset(spec.labels), frozenset(each.identity for each in (*spec.taints, *spec.startup_taints))
    )


def remembered_keys(pool: Pool) -> Keys:
    """Return the keys that the pool has set according to its status."""
    found = pool.status.set_keys
    if found is None:
        return NO_KEYS
    taints = (text.rpartition(":") for text in found.taints)
    return Keys(frozenset(found.labels), frozenset((key, effect) for key, _, effect in taints))


def keys_to_remember(pool: Pool, *, nodes: Iterable[Node]) -> Keys:
    """Return what the status has to say before nodes are written: what is remembered and what is asked for.

    Keys of the spec, and those that a record on the pool's ``nodes`` still names, always have room. The
    others stay as long as there is room.
    """
    asked, remembered = asked_keys(pool), remembered_keys(pool)
    rest = remembered - asked
    if asked.count + rest.count <= MAX_KEYS:
        return asked | remembered
    recorded = _recorded(pool, nodes)
    in_use = _in_order(rest & recorded)[: MAX_KEYS_AMID_EDIT - asked.count]
    unused = _in_order(rest - recorded)[: max(0, MAX_KEYS - asked.count - len(in_use))]
    stay = (*in_use, *unused)
    return asked | Keys(
        frozenset(key for key, effect in stay if not effect),
        frozenset((key, effect) for key, effect in stay if effect),
    )


def _recorded(pool: Pool, nodes: Iterable[Node]) -> Keys:
    records = (record_of(node) for node in nodes)
    ours = [each for each in records if isinstance(each, Record) and each.pool_uid == pool.uid]
    return Keys(
        frozenset(key for each in ours for key in each.labels),
        frozenset(identity for each in ours for identity in each.taints),
    )


def _in_order(keys: Keys) -> list[TaintIdentity]:
    """Return labels, with an empty effect, and then taints, in an order that is always the same."""
    return [*((key, "") for key in sorted(keys.labels)), *sorted(keys.taints)]
