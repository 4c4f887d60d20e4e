"""What is found of a pool as a whole: its guard, CRD, selector and holds, other operators, failing lists.

The nodes that people hold: which, and until when.

Nodes with which the operator cannot continue, since it cannot list their pods: which, and why.

What is to be said of the guard of our keys, and of pools whose labels a node could get by itself.

What is to be said of two operators that both write.

Nodes that a pool selects and whose ownership record names a pool that is not known.

What people hear of a pool that is gone without having released its nodes.

What is to be said of a CRD that is older than the operator.

Nodes that were in the pool and are not Windows nodes any more: what the operator leaves on them.

See ``ownership/strays`` for the reason.

A selector that matches no Windows node: which labels the nodes have that come nearest to it.

That is right where a pool starts from zero nodes, and what a mistake in a label looks like. Which of the two
it is only a person can say, so the pool stays Ready and names what comes nearest. Nothing here is computed
for a pool that selects a node.

A node that the pool does not select wakes no pass of it. So what is said here is up to date with the next
list of all pools at the latest, after ``pool_relist_seconds``: that wakes all pools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest
from typing import Final

from winpool.api.crd import SET_KEYS, name_of
from winpool.api.events import EventReason
from winpool.api.fields import is_own, is_restricted_label
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION, CRD_NAME, HOLD_ANNOTATION, OS_LABEL, OS_WINDOWS
from winpool.api.selector import SelectorOperator, SelectorRequirement
from winpool.api.v1alpha1 import MAX_ISSUE_NODES, Issue, NodeSelector, WindowsNodePoolSpec
from winpool.features.feature import Finding
from winpool.model.evidence import Evidence
from winpool.model.node import Keys, hold_end
from winpool.model.snapshot import Snapshot
from winpool.ownership.leftovers import kept_on
from winpool.ownership.members import Claim, meets, rights_of
from winpool.ownership.record import Record, record_of
from winpool.status.assessment import Assessment, count_nodes, counted_nodes, enumerate_names
from winpool.status.events import Announcement, named, nameless, removal, sentence

_HELD: Final = (
    f"Someone holds these nodes with the annotation {HOLD_ANNOTATION}, so the operator writes nothing there."
)
_NO_TIME: Final = (
    "The value of the annotation is neither empty nor a time such as 2026-01-31T18:00:00Z, so the hold does "
    "not end by itself."
)
_FIX: Final = (
    f"Remove the annotation once the operator may continue: kubectl annotate node NODE {HOLD_ANNOTATION}-. A "
    "hold whose value is a time ends then."
)


def held_findings(assessed: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding for the nodes that are held, and one for those whose value is no time."""
    held = [each.node for each in assessed if each.is_held]
    unread = [node for node in held if node.annotations.get(HOLD_ANNOTATION) and hold_end(node) is None]
    others = [node for node in held if node not in unread]
    if others:
        yield Finding(IssueReason.NODES_HELD, [node.name for node in others], _HELD, _FIX)
    if unread:
        yield Finding(IssueReason.NODES_HELD, [node.name for node in unread], f"{_HELD} {_NO_TIME}", _FIX)


def holds_end_at(assessed: Iterable[Assessment]) -> datetime | None:
    """Return when the first hold ends; None where none ends by itself."""
    ends = (hold_end(each.node) for each in assessed if each.is_held)
    return min((end for end in ends if end is not None), default=None)


@dataclass(frozen=True, slots=True)
class Blind:
    """The names of those nodes, and what to say and to do about it.

    ``message`` names them, for conditions; ``finding`` does not and says why, for an issue. ``of_all`` says
    that looks at all pods fail. Otherwise those at these nodes do, and it is about no other.
    """

    nodes: tuple[str, ...] = ()
    message: str = ""
    finding: str = ""
    fix: str = ""
    of_all: bool = False

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.nodes)


NOT_BLIND: Final = Blind()

_SEE: Final = f"See the issue {IssueReason.POD_LIST_FAILING}."
_TRIED_AGAIN: Final = "The operator tries again after at most 30 seconds."


def blind(snapshot: Snapshot, assessed: Sequence[Assessment]) -> Blind:
    """Return the nodes that wait for a look at their pods that fails.

    One whose own look fails is not among them while a young look at all pods covers it.
    """
    asking = [each.node for each in assessed if each.needs_pods]
    if asking and snapshot.pods.problem:
        names = tuple(node.name for node in asking)
        return Blind(
            names,
            f"The operator cannot continue with {counted_nodes(names)}, because it cannot list the pods of "
            f"the cluster. {_SEE}",
            sentence(
                "These nodes wait because the operator cannot list the pods of the cluster: "
                f"{snapshot.pods.problem}"
            ),
            f"Check the API server, and the network between it and the operator. {_TRIED_AGAIN}",
            of_all=True,
        )
    problems, evidence = snapshot.pods.look_problems, Evidence(snapshot)
    failing = [node for node in asking if node.uid in problems and not evidence.covered_lately(node)]
    if not failing:
        return NOT_BLIND
    names = tuple(node.name for node in failing)
    # One of them, the same whichever nodes come and go.
    why = min(nameless(problems[node.uid].message, name=node.name) for node in failing)
    return Blind(
        names,
        f"The operator cannot continue with {counted_nodes(names)}, because it cannot list their pods. "
        f"{_SEE}",
        sentence(f"These nodes wait because the operator cannot list their pods: {why}"),
        "Check whether these nodes have too many pods to be listed, or too large ones, and check the network "
        f"between the API server and the operator. {_TRIED_AGAIN}",
    )


_POSITIVE = (SelectorOperator.IN, SelectorOperator.EXISTS)


def guard_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what concerns the pool as a whole."""
    pool = snapshot.pool
    if pool.deleting:
        return
    if snapshot.guard.problem:
        yield Finding(
            IssueReason.GUARD_NOT_IN_FORCE,
            (),
            sentence(
                "The admission policy that stops kubelets from writing the operator's keys on nodes is not "
                f"in force: {snapshot.guard.problem}"
            ),
            "Apply the guard that belongs to the version of the operator (docs/guard.md): kubectl apply -f "
            "deploy/operator/guard.yaml",
            cause="the guard is not in force",
        )
    if pool.spec is not None:
        yield from _of_selector(pool.spec)


def _of_selector(spec: WindowsNodePoolSpec) -> Iterator[Finding]:
    given = sorted(key for key in spec.labels if is_restricted_label(key))
    asked = sorted(_asked_for(spec.node_selector))
    if not given or any(map(is_restricted_label, asked)):
        return
    by = f"only by labels that any kubelet may set ({enumerate_names(asked)})" if asked else "by no label"
    yield Finding(
        IssueReason.SELECTOR_OPEN_TO_KUBELETS,
        (),
        f"The pool sets labels that no kubelet may set on its own node ({enumerate_names(given)}). It "
        f"selects nodes {by}. So any kubelet can obtain them.",
        "Select nodes by a label that kubelets may not set, such as one under "
        "node-restriction.kubernetes.io/ that is set when the machine is created (docs/guard.md).",
        cause="the selector is open",
    )


def _asked_for(selector: NodeSelector) -> set[str]:
    """Return the labels that a node must carry to be selected; those that it must lack keep no node out."""
    positive = (each.key for each in selector.match_expressions if each.operator in _POSITIVE)
    return {*selector.match_labels, *positive}


def other_operator_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what concerns every pool: another operator writes to nodes and pools as well."""
    if snapshot.other_operator and not snapshot.pool.deleting:
        yield Finding(
            IssueReason.SECOND_OPERATOR,
            (),
            f"A second operator is running in this cluster: {snapshot.other_operator} holds the Lease "
            "winpool-system/winpool, and another operator runs without --leader-elect. Both write to nodes "
            "and pools.",
            "Stop the operator that runs without --leader-elect, or start it with --leader-elect "
            "(docs/operator.md#two-replicas).",
            cause="a second operator writes",
        )


def carried_report(snapshot: Snapshot) -> tuple[Issue, ...]:
    """Return what the status says of a second operator, where this one does not know whether it is true."""
    pool = snapshot.pool
    if snapshot.other_operator is not None or pool.deleting:
        return ()
    return tuple(issue for issue in pool.status.issues if issue.reason == IssueReason.SECOND_OPERATOR)


def pool_gone(name: str, uid: str, *, nodes: int, decided_at: datetime | None) -> Announcement:
    """Return the event about the pool of that name and UID, which has left its things on so many ``nodes``.

    ``decided_at`` is when the list of all pools is due after which they are removed, None where it was made.
    """
    have = "has" if nodes == 1 else "have"
    unless = "unless a second list of all pools has the pool"
    when = f"at {utc(decided_at)}, {unless}" if decided_at else "now"
    return Announcement(
        EventReason.POOL_GONE,
        f"The pool no longer exists and did not release its nodes. {count_nodes(nodes)} still {have} its "
        f"labels and taints. The operator removes them {when}.",
        name,
        uid,
    )


def utc(moment: datetime) -> str:
    """Write a moment as Kubernetes does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owner_findings(snapshot: Snapshot, nodes: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding for all nodes of which the same is to be said, whichever owners their records name.

    It names the time at which the last of their owners is decided on. The time is no part of the cause: a
    kubelet without the guard can name another owner each second.
    """
    rights = rights_of(snapshot)
    found: dict[tuple[bool, bool], list[str]] = {}
    moments: dict[tuple[bool, bool], list[datetime]] = {}
    for each in nodes:
        record = record_of(each.node) if each.claim is Claim.UNKNOWN else None
        if isinstance(record, Record):
            is_believed = rights.know_owner(record) or rights.is_in_doubt(record)
            group = (each.owner_is_gone, is_believed)
            found.setdefault(group, []).append(each.node.name)
            if decided_at := snapshot.others.decided_at.get(record.pool_uid):
                moments.setdefault(group, []).append(decided_at)
    for group, names in found.items():
        is_gone, is_believed = group
        last = max(moments.get(group, ()), default=None)
        message, fix = never_seen(names) if is_gone else undecided(last, is_believed=is_believed)
        cause = f"{'gone' if is_gone else 'undecided'} {'believed' if is_believed else 'doubted'}"
        yield Finding(IssueReason.OWNER_UNKNOWN, tuple(names), message, fix, cause)


def undecided(decided_at: datetime | None, *, is_believed: bool) -> tuple[str, str]:
    """Return message and fix where it is not known yet whether the owner is gone.

    ``decided_at`` is when the second list of all pools is due, None where none was asked for. The pool gets
    the node then where the record is believed. Only the fix names the time, so that the message stays.
    """
    written = "" if is_believed else " was written without the guard, and"
    message = f"The annotation {APPLIED_ANNOTATION}{written} names a pool that the operator does not know."
    if decided_at is None:
        return message, "Wait until the operator has listed all pools twice."
    then = "this pool takes over the nodes" if is_believed else "this issue says what to do"
    return (
        message,
        f"Wait until {utc(decided_at)}. If a second list of all pools lacks that pool too, {then}.",
    )


def never_seen(names: list[str]) -> tuple[str, str]:
    """Return message and fix where the owner is gone, and nothing vouches for the record."""
    node = names[0] if len(names) == 1 else "NODE"
    return (
        f"The annotation {APPLIED_ANNOTATION} was written without the guard. It names a pool that does not "
        "exist and that this operator has never seen.",
        "Check the labels and taints that it names by hand. Then let the pool have the node: "
        f"kubectl annotate node {node} {APPLIED_ANNOTATION}-",
    )


def crd_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what concerns every pool: fields of spec and status that the API server does not know."""
    if snapshot.lacking_fields and not snapshot.pool.deleting:
        names = ", ".join(map(name_of, snapshot.lacking_fields))
        waits = " The operator sets no new labels and taints until then." if _forgets_keys(snapshot) else ""
        yield Finding(
            IssueReason.CRD_OUTDATED,
            (),
            f"The CRD {CRD_NAME} is older than the operator. No spec can set the fields that it lacks, and "
            f"the status does not have them.{waits} It lacks {names}.",
            "Apply the CRD that belongs to the version of the operator "
            "(docs/operator.md#upgrade-and-downgrade): kubectl apply -k crds, or helm upgrade",
            cause="the CRD is older than the operator",
        )


def _forgets_keys(snapshot: Snapshot) -> bool:
    """Whether the status cannot remember what the pool sets, which it has to before a node gets it."""
    return SET_KEYS in snapshot.lacking_fields


def stray_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for all strays on which the same stays, with the commands that remove it.

    A pool that is being deleted releases them.
    """
    if snapshot.pool.deleting or not snapshot.strays:
        return
    rights, windows = rights_of(snapshot), {node.name for node in snapshot.nodes}
    found: dict[Keys, list[str]] = {}
    for node in snapshot.strays:
        if node.name in windows:
            continue  # again, since the list of strays
        if kept := kept_on(node, rights=rights):
            found.setdefault(kept, []).append(node.name)
    for kept, names in found.items():
        nodes = " ".join(sorted(names)[:MAX_ISSUE_NODES])
        on_each = " from each of these nodes" if len(names) > MAX_ISSUE_NODES else ""
        yield Finding(
            IssueReason.NODE_NOT_WINDOWS,
            tuple(names),
            f"These nodes were in the pool, and do not have the label {OS_LABEL}={OS_WINDOWS} any more. "
            "Kubelets may change that label. The operator leaves what a kubelet may not remove: "
            f"{named(kept)}.",
            "Check what runs on the nodes. If it is Windows, find out who changed the label. If it is not, "
            f"remove the rest{on_each}: {removal(nodes, kept)}",
            cause=named(kept),
        )


def carried_strays(snapshot: Snapshot) -> tuple[Issue, ...]:
    """Return what the status says of strays, where they were not listed since the start."""
    pool = snapshot.pool
    if snapshot.strays is not None or pool.deleting:
        return ()
    return tuple(issue for issue in pool.status.issues if issue.reason == IssueReason.NODE_NOT_WINDOWS)


NEAREST: Final = 4
"""As many labels as a sentence bears."""

UNMET_TOLD: Final = 3
"""So many requirements are explained. Once these are met, the next pass explains the others."""

COMPARED: Final = 50
"""So many keys or values are compared for one requirement, the most frequent first. A cluster has some
dozens; whoever invents more on a node must not cost us more: a comparison takes a tenth of a millisecond."""

CONSIDERED: Final = 500
"""So many keys or values, the most frequent, are looked at for those to compare."""

CLIPPED: Final = 32
"""Characters that are compared. The cost of a comparison grows with the square of them."""

REMEMBERED: Final = 64
"""Results that are kept: passes of a pool that selects nothing ask the same again and again."""

CUTOFF: Final = 0.6
"""How alike two texts have to be, from 0 to 1. It is difflib's own default."""


def unselected_findings(snapshot: Snapshot, assessed: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding where the selector of the pool matches no Windows node."""
    pool = snapshot.pool
    if pool.deleting or pool.spec is None or any(each.claim is not Claim.LEFT for each in assessed):
        return
    nodes = [node.labels for node in snapshot.nodes if node.labels.get(OS_LABEL) == OS_WINDOWS]
    yield Finding(
        IssueReason.NO_NODES_SELECTED,
        (),
        f"nodeSelector selects no Windows node. {nearest(pool.spec.node_selector, nodes)}",
        "Correct nodeSelector, or label the nodes. If the pool starts from zero nodes, do nothing.",
        cause=IssueReason.NO_NODES_SELECTED,
    )


def nearest(selector: NodeSelector, nodes: Sequence[Mapping[str, str]]) -> str:
    """Say what the nodes with these labels have in place of what the selector asks for.

    The nearest are those that meet the most of it. The text does not depend on the order of the nodes, nor,
    as long as no more than COMPARED differ, on how many are alike.
    """
    if not nodes:
        return "The cluster has no Windows nodes."
    asked = _requirements(selector)
    distances = [_distance(asked, labels) for labels in nodes]
    shortest = min(distances)
    near = [labels for labels, distance in zip(nodes, distances, strict=True) if distance == shortest]
    return " ".join(_instead(asked[place], near) for place in shortest[2][:UNMET_TOLD])


def _distance(
    asked: Sequence[SelectorRequirement], labels: Mapping[str, str]
) -> tuple[int, int, tuple[int, ...]]:
    """Return how far a node is: how much it does not meet, how many keys it lacks, and what that is."""
    unmet = tuple([place for place, each in enumerate(asked) if not meets(each, labels)])
    return len(unmet), sum(asked[place].key not in labels for place in unmet), unmet


def _requirements(selector: NodeSelector) -> tuple[SelectorRequirement, ...]:
    """Return all that the selector asks for, in one form and in a stable order."""
    labels = (
        SelectorRequirement(key=key, operator=SelectorOperator.IN, values=(value,))
        for key, value in sorted(selector.match_labels.items())
    )
    return (*labels, *selector.match_expressions)


def _instead(asked: SelectorRequirement, near: Sequence[Mapping[str, str]]) -> str:
    """Say what the nearest nodes have in place of ``asked``, which none of them meets."""
    key = asked.key
    values = Counter(labels[key] for labels in near if key in labels)
    if asked.operator in (SelectorOperator.NOT_IN, SelectorOperator.DOES_NOT_EXIST):
        return f"It excludes {_listed(key, sorted(values))}, which the nearest Windows nodes have."
    wanted = f"It asks for {_listed(key, asked.values)}" if asked.values else f"It asks for the label {key}"
    if values:
        return f"{wanted}. The nearest Windows nodes have {_listed(key, _closest(asked.values, values))}."
    keys = _alike(key, Counter(each for labels in near for each in labels))
    instead = f", but {', '.join(keys)}" if keys else ""
    return f"{wanted}. The nearest Windows nodes have no label {key}{instead}."


def _listed(key: str, values: Sequence[str]) -> str:
    """Write the first of these labels as kubectl does."""
    more = ", …" if len(values) > NEAREST else ""
    return ", ".join(f"{key}={value}" for value in values[:NEAREST]) + more


def _closest(wanted: Sequence[str], values: Counter[str]) -> list[str]:
    """Return some of ``values``, those first that are most like one that is wanted."""
    alike = _close_matches(tuple(wanted[:NEAREST]), _most_frequent(values))
    return list(dict.fromkeys((*alike, *nsmallest(NEAREST + 1, values))))


def _alike(key: str, keys: Counter[str]) -> list[str]:
    """Return those of ``keys`` whose name is like that of ``key``, whatever stands before the slash."""
    names: dict[str, list[str]] = {}
    for each in _most_frequent(keys):
        if not is_own(each):
            names.setdefault(_name_of(each), []).append(each)
    close = _close_matches((_name_of(key),), tuple(names))
    return [each for name in close for each in sorted(names[name])][:NEAREST]


def _most_frequent(texts: Counter[str]) -> tuple[str, ...]:
    return tuple(nsmallest(CONSIDERED, texts, key=lambda each: (-texts[each], each)))


@lru_cache(REMEMBERED)
def _close_matches(wanted: tuple[str, ...], texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of ``texts``, the most frequent first, that are like one that is wanted.

    Each that is wanted is compared with its share: half of them the most frequent, half of them those of the
    others that begin most like it.
    """
    share = COMPARED // len(wanted)
    frequent, others = texts[: share // 2], texts[share // 2 :]
    found: list[str] = []
    for each in wanted:
        begin_alike = sorted(others, key=lambda text: -_alike_from_the_start(each, text))
        compared: dict[str, list[str]] = {}
        for text in (*frequent, *begin_alike[: share - len(frequent)]):
            compared.setdefault(text[:CLIPPED], []).append(text)
        close = get_close_matches(each[:CLIPPED], compared, n=NEAREST, cutoff=CUTOFF)
        found += [text for clipped in close for text in compared[clipped]]
    return tuple(dict.fromkeys(found))


def _alike_from_the_start(one: str, other: str) -> int:
    """Return how many of the first characters are the same in both."""
    pairs = zip(one[:CLIPPED], other[:CLIPPED], strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other), CLIPPED))


def _name_of(key: str) -> str:
    return key.rpartition("/")[2]
