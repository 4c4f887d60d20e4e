"""What is counted in the records of an audit log. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from testbed.audit import AuditRecord

OK: Final = 200
CONFLICT: Final = 409
FAILED_FROM: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What one user did to bring a fleet into state, and what others did to nodes meanwhile.

    The window reaches from the first PATCH of a node received to the last one answered, by the API
    server's own clock, whoever asked.
    """

    node_patches: int
    """Answered with 200."""
    node_conflicts: int
    """Answered with 409."""
    node_failures: int
    """Answered with anything else."""
    node_gets: int
    other_writes: int
    """But to Leases."""
    foreign_writes: int
    """By others, to nodes or their status, taken by the API server; of the whole slice."""
    seconds: float
    busy_seconds: float
    """The time that all PATCHes took, added up: by ``seconds`` it is how many were in flight on average."""

    @property
    def nodes_per_second(self) -> float:
        """Nodes written in the window."""
        return self.node_patches / self.seconds if self.seconds else 0.0

    @property
    def in_flight(self) -> float:
        """PATCHes in flight at the API server, on average over the window."""
        return self.busy_seconds / self.seconds if self.seconds else 0.0


def burst(records: Iterable[AuditRecord], *, user: str) -> Burst:
    """Count what ``user`` did in these records."""
    all_records = list(records)
    own = [each for each in all_records if each.user == user]
    patches = [each for each in own if is_node_patch(each)]
    codes = Counter(each.code for each in patches)
    answered = [each.completed for each in patches if each.completed is not None]
    window = (max(answered) - min(each.received for each in patches)).total_seconds() if answered else 0.0
    return Burst(
        node_patches=codes[OK],
        node_conflicts=codes[CONFLICT],
        node_failures=len(patches) - codes[OK] - codes[CONFLICT],
        node_gets=sum(each.verb == "get" and each.resource == "nodes" for each in own),
        other_writes=sum(each.writes and not is_node_patch(each) for each in own),
        foreign_writes=sum(is_node_change(each) and each.user != user for each in all_records),
        seconds=window,
        busy_seconds=sum(seconds_of(each) for each in patches),
    )


def requests(records: Iterable[AuditRecord], *, user: str) -> dict[str, int]:
    """Count what ``user`` asked for: {"list nodes": 1, "get /version": 1}."""
    counted = Counter(_what(each) for each in records if each.user == user)
    return dict(sorted(counted.items()))


def verbs(records: Iterable[AuditRecord], *, user: str) -> Counter[str]:
    """Count ``user``'s requests by verb; all writes together under "write"."""
    return Counter("write" if each.writes else each.verb for each in records if each.user == user)


def repair_seconds(records: Iterable[AuditRecord], *, drifter: str, user: str) -> list[float]:
    """Return how long each drift lasted, in seconds; one that was not repaired is left out.

    From the answer to ``drifter``'s PATCH of a node to the answer to ``user``'s.
    """
    drifted: dict[str, datetime] = {}
    repaired: list[float] = []
    for each in sorted(records, key=lambda record: record.received):
        if not is_node_patch(each) or each.code != OK or each.completed is None:
            continue
        if each.user == drifter:
            drifted[each.name] = each.completed
        elif each.user == user and each.name in drifted:
            # The watch may tell of the drift a moment before its own answer is complete.
            repaired.append(max(0.0, (each.completed - drifted.pop(each.name)).total_seconds()))
    return repaired


def last_disturbance(records: Sequence[AuditRecord]) -> datetime | None:
    """Return when a node last changed by anything but the heartbeat of its own kubelet; None for never."""
    changes = [each for each in records if is_node_change(each) and not is_heartbeat(each)]
    return max((each.completed or each.received for each in changes), default=None)


def is_node_patch(record: AuditRecord) -> bool:
    """Whether it is a PATCH of a node itself, not of its status."""
    return record.verb == "patch" and record.resource == "nodes" and not record.subresource


def is_node_change(record: AuditRecord) -> bool:
    """Whether it is a write to a node or its status that the API server took."""
    return record.writes and record.resource == "nodes" and record.code < FAILED_FROM


def is_heartbeat(record: AuditRecord) -> bool:
    """Whether a kubelet reports the status of its own node, as each does every five minutes at least."""
    return record.subresource == "status" and record.user == f"system:node:{record.name}"


def seconds_of(record: AuditRecord) -> float:
    """Return how long the API server took to answer; 0 where it has not."""
    return (record.completed - record.received).total_seconds() if record.completed else 0.0


def _what(record: AuditRecord) -> str:
    resource = "/".join(part for part in (record.resource, record.subresource) if part)
    return f"{record.verb} {resource or record.uri.partition('?')[0]}"
