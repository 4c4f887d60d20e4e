"""What must be true of the cluster of ``harness.model``: at any moment, and once everything is quiet."""

from __future__ import annotations

from harness.model import Model, mode_of
from harness.others import SHARED_KEYS, is_windows, owned_on, owner_of, value_on
from harness.strategies import PROTECTED_LABELS, PROTECTED_TAINTS, RESERVED_LABELS, RESERVED_TAINTS
from harness.writes import carries_ours
from winpool.api.fields import is_restricted_label
from winpool.api.keys import POOL_LABEL, RELEASE_FINALIZER
from winpool.api.spec import Mode
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.ownership.record import Record, record_of


def check_protected(model: Model) -> None:
    """Assert that nothing has changed that no pool may touch, in value, in time and in order."""
    for name, node in model.nodes.items():
        others = model.others[name]
        # A record that was tampered with can claim any key that a pool could have set.
        labels = RESERVED_LABELS if others.haunted else PROTECTED_LABELS
        taints = RESERVED_TAINTS if others.haunted else PROTECTED_TAINTS
        assert {key: node.labels.get(key) for key in labels} == {key: others.labels[key] for key in labels}
        assert [taint for taint in node.taints if taint in taints] == [
            taint for taint in others.taints if taint in taints
        ]


def check_settled(model: Model) -> None:
    """Assert that every node is what the specs say, and otherwise what others wrote."""
    for node in model.nodes.values():
        owner = next((pool for pool in model.pools.values() if pool.uid == owner_of(node)), None)
        if owner is None:
            _check_free(model, node)
        elif not is_windows(node):
            _check_stray(model, node)
        elif mode_of(owner) is Mode.ACTIVE:
            _check_contract(model, node, owner)
        _check_rest(model, node)


def _check_free(model: Model, node: Node) -> None:
    """A node that nobody has waits for nobody but for a pool that may not write now."""
    if is_doubted(model, node):
        return
    selecting = model.selecting(node)
    named = model.pools.get(node.labels.get(POOL_LABEL, ""))
    if any(mode_of(pool) is not Mode.ACTIVE for pool in (*selecting, *([named] if named else []))):
        return
    if named and not is_windows(node):
        return  # a stray without a readable record stays as it is until its pool is deleted
    assert not selecting, f"{node.name} is not taken by {[pool.name for pool in selecting]}"
    assert is_clean(model, node), f"left behind on {node.name}"


def _check_stray(model: Model, node: Node) -> None:
    """A stray of a pool that exists has lost what its kubelet could remove; the record names the rest."""
    record = record_of(node)
    if isinstance(record, Record) and model.rights.is_guarded(record):
        assert all(map(is_restricted_label, record.labels)), f"{node.name} keeps {record.labels}"


def is_clean(model: Model, node: Node) -> bool:
    """Whether nothing of ours is on the node; an annotation that others made up is not ours."""
    if is_doubted(model, node):
        return True
    return POOL_LABEL not in node.labels if model.others[node.name].haunted else not carries_ours(node)


def is_doubted(model: Model, node: Node) -> bool:
    """Whether the record names an owner that nobody can tell from an invented one: all of it stays."""
    record = record_of(node)
    return isinstance(record, Record) and not model.rights.know_owner(record)


def _check_contract(model: Model, node: Node, owner: Pool) -> None:
    assert owner in model.selecting(node), f"{node.name} is kept by {owner.name}"
    assert owner.spec is not None
    assert RELEASE_FINALIZER in owner.finalizers
    assert node.labels[POOL_LABEL] == owner.name
    wanted = dict(owner.spec.labels) | {taint.identity: taint.value for taint in owner.spec.taints}
    assert {key: value_on(node, key) for key in wanted} == wanted
    assert owned_on(node) <= wanted.keys()


def _check_rest(model: Model, node: Node) -> None:
    others = model.others[node.name]
    if others.haunted or is_doubted(model, node):
        return
    for key in SHARED_KEYS:
        if key in owned_on(node):
            continue
        value = value_on(node, key)
        if value is None and not model.is_guard_steady:
            continue
        assert value in others.ever[key], f"{key} on {node.name} was never {value} by others"
        assert value == others.due.get(key, value), f"{key} on {node.name} is not as others left it"
