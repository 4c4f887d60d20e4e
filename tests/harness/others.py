"""What others than the operator have written to a node, to say at the end what has to stand there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from harness.strategies import LABEL_KEYS, PROTECTED_LABELS, PROTECTED_TAINTS, TAINT_IDENTITIES
from winpool.api.keys import OS_LABEL, OS_WINDOWS
from winpool.model.node import Node, Taint
from winpool.ownership.record import Record, TaintIdentity, record_of

Key: TypeAlias = str | TaintIdentity
"""A label by its key, or a taint by its key and effect."""

SHARED_KEYS: Final[tuple[Key, ...]] = (*LABEL_KEYS, *TAINT_IDENTITIES)
"""What both pools and others write."""


@dataclass
class Others:
    """What others than the operator have written to one node.

    ``due`` is what must stand there once no pool has the key any more. It is unknown where others
    wrote while a pool had the key: then anything that they ever wrote may stand there. A node whose
    record was tampered with is ``haunted``: who owns what is lost, and only what is protected is sure.
    """

    labels: dict[str, str]
    taints: list[Taint]
    due: dict[Key, str | None]
    ever: dict[Key, set[str | None]]
    haunted: bool = False

    @classmethod
    def of(cls, node: Node) -> Others:
        """Return what stands on a node that no pool has seen."""
        return cls(
            labels={key: node.labels[key] for key in PROTECTED_LABELS},
            taints=[taint for taint in node.taints if taint in PROTECTED_TAINTS],
            due={key: value_on(node, key) for key in SHARED_KEYS},
            ever={key: {value_on(node, key)} for key in SHARED_KEYS},
        )


def is_windows(node: Node) -> bool:
    """Whether the node says that it runs Windows."""
    return node.labels.get(OS_LABEL) == OS_WINDOWS


def value_on(node: Node, key: Key) -> str | None:
    """Return the value of a label or taint on the node, None where it is not there."""
    if isinstance(key, str):
        return node.labels.get(key)
    return next((taint.value for taint in node.taints if taint.identity == key), None)


def owned_on(node: Node) -> set[Key]:
    """Return the labels and taints that the record on the node names."""
    record = record_of(node)
    return {*record.labels, *record.taints} if isinstance(record, Record) else set()


def owner_of(node: Node) -> str | None:
    """Return the UID in the record on the node."""
    record = record_of(node)
    return record.pool_uid if isinstance(record, Record) else None
