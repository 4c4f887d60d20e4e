"""Finds what is wrong with a pool and its nodes: one table of issues, with the message and the fix of each.

Nodes with the same cause are one finding, whatever their number. That a node has not been Ready for a while,
or is Ready and has a taint of its cloud left, needs time to tell it from a node that joins or restarts. What
is found of pods, of the support matrix and by features stands in ``pods.py``, ``os_support.py`` and
``features/``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest
from typing import Final, NamedTuple

from winpool.api.conditions import ConditionType
from winpool.api.crd import SET_KEYS, SLOTS, name_of
from winpool.api.fields import is_own, is_restricted_label
from winpool.api.issues import IssueReason
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    APPLY_CRD,
    APPLY_GUARD,
    CRD_NAME,
    HOLD_ANNOTATION,
    OS_LABEL,
    OS_WINDOWS,
    UPGRADE_STATE_LABEL,
)
from winpool.api.model import SENTENCE
from winpool.api.selector import LabelRequirement, NodeSelector, SelectorOperator
from winpool.api.status import MAX_ISSUE_NODES, WindowsNodePoolStatus
from winpool.api.text import NAMES_SHOWN, enumerate_names, grouped, later, written_moment
from winpool.api.upgrade import UpgradeState
from winpool.features.feature import Finding
from winpool.features.reserved_memory import reserved_findings
from winpool.model.node import Keys, Node, hold_end
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.ownership.leftovers import kept_on
from winpool.ownership.members import Claim, record_trust_of
from winpool.ownership.record import Record, record_of
from winpool.status.assessment import SHUTDOWN, Assessed, Assessment, cloud_taints, is_ready
from winpool.status.events import NODE, ended, named, nameless, removal

Words = Mapping[str, str]
"""What a row puts into the braces of its texts."""


class PoolIssue(NamedTuple):
    """An issue of the pool as a whole: ``words`` returns what its texts say, None where all is well."""

    reason: IssueReason
    words: Callable[[Snapshot, Assessed], Words | None]
    message: str
    fix: str


class NodeIssue(NamedTuple):
    """An issue of nodes: ``cause`` returns what is wrong with one, empty where nothing is.

    Its texts may name ``{cause}``; for keys also ``{remove}``, the commands that remove them from the nodes,
    with ``{on_each}``, and ``{remove_few}``, which names at most three. ``{why}`` is why a record is
    unreadable.
    """

    reason: IssueReason
    cause: Callable[[Assessment], str | Keys]
    message: str
    fix: str


def _selector_open(snapshot: Snapshot, _: Assessed) -> Words | None:
    """Say by which labels the pool selects nodes, where any kubelet may set them and so obtain others.

    Labels that a node must lack keep no node out.
    """
    spec = snapshot.pool.spec
    if spec is None:
        return None
    positive = (SelectorOperator.IN, SelectorOperator.EXISTS)
    given = sorted(key for key in spec.labels if is_restricted_label(key))
    required = (each.key for each in spec.node_selector.match_expressions if each.operator in positive)
    asked = sorted({*spec.node_selector.match_labels, *required})
    if not given or any(map(is_restricted_label, asked)):
        return None
    by = f"only by labels that any kubelet may set ({enumerate_names(asked)})" if asked else "by no label"
    return {"given": enumerate_names(given), "by": by}


def _selects_none(snapshot: Snapshot, nodes: Assessed) -> Words | None:
    """Say what comes nearest to a selector that matches no Windows node.

    A node that the pool does not select wakes no pass of it: the next list of all pools does.
    """
    spec = snapshot.pool.spec
    if spec is None or nodes.usual or any(each.claim is not Claim.LEFT for each in nodes.notable):
        return None
    labels = [node.labels for node in snapshot.nodes if node.labels.get(OS_LABEL) == OS_WINDOWS]
    return {"nearest": nearest(spec.node_selector, labels)}


def _lacking_fields(snapshot: Snapshot, _: Assessed) -> Words | None:
    lacking = snapshot.lacking_fields
    # Without this field the status cannot remember what the pool sets, which it has to before a node gets it.
    waits = " The operator sets no new labels and taints until then." if SET_KEYS in lacking else ""
    waits += " The operator permits no upgrade until then." if SLOTS in lacking else ""
    return {"names": ", ".join(map(name_of, lacking)), "waits": waits} if lacking else None


_OF_POOL: Final = (
    PoolIssue(
        IssueReason.GUARD_NOT_IN_FORCE,
        lambda snapshot, _: {"problem": ended(snapshot.guard.problem)} if snapshot.guard.problem else None,
        "The admission policy that stops kubelets from writing the operator's keys on nodes is not in force: "
        "{problem}",
        f'{APPLY_GUARD} (see "The guard" in the docs)',
    ),
    PoolIssue(
        IssueReason.SELECTOR_OPEN_TO_KUBELETS,
        _selector_open,
        "The pool sets labels that no kubelet may set on its own node ({given}). It selects nodes {by}. So "
        "any kubelet can obtain them.",
        "Select nodes by a label that kubelets may not set, such as one under "
        "node-restriction.kubernetes.io/ that is set when the machine is created "
        '(see "The guard" in the docs).',
    ),
    PoolIssue(
        IssueReason.SECOND_OPERATOR,
        lambda snapshot, _: {"holder": snapshot.other_operator} if snapshot.other_operator else None,
        "A second operator is running in this cluster: {holder} holds the Lease winpool-system/winpool, and "
        "another operator runs without --leader-elect. Both write to nodes and pools.",
        "Stop the operator that runs without --leader-elect, or start it with --leader-elect "
        '(see "Two replicas" in the docs).',
    ),
    PoolIssue(
        IssueReason.CRD_OUTDATED,
        _lacking_fields,
        f"The CRD {CRD_NAME} is older than the operator. No spec can set the fields that it lacks, and the "
        "status does not have them.{waits} It lacks {names}.",
        APPLY_CRD,
    ),
    PoolIssue(
        IssueReason.NO_NODES_SELECTED,
        _selects_none,
        "nodeSelector selects no Windows node. {nearest}",
        "Correct nodeSelector, or label the nodes. If the pool starts from zero nodes, do nothing.",
    ),
)


def pool_findings(snapshot: Snapshot, nodes: Assessed) -> Iterator[Finding]:
    """Yield what concerns the pool as a whole; a pool that is being deleted has nothing of it."""
    for row in () if snapshot.pool.deleting else _OF_POOL:
        if (words := row.words(snapshot, nodes)) is not None:
            yield Finding(row.reason, (), row.message.format(**words), row.fix, cause=row.reason)


REFUSAL_LENGTH: Final = 600
"""Characters of a refusal that are reported. It was cut once before, behind names of different length: so
much of it is the same for all nodes. Enough for a policy's message, and short enough to be read."""

MOST_REFUSALS: Final = 5
"""Different refusals that are reported one by one; a webhook may give each answer a number of its own."""

_CODE: Final = re.compile(r"^\d{3} ")
"""The HTTP code before the server's words. They say more, and the code reads like a number of nodes."""


def _refusal(each: Assessment) -> str:
    """Return the server's own words, without what is of this node or this request alone."""
    if not each.refused:
        return ""
    name = each.node.name
    words = each.refused.removeprefix(f"patch nodes {name}: ")
    said = nameless(_CODE.sub("", words), name=name)
    return ended(said if len(said) <= REFUSAL_LENGTH else f"{said[: REFUSAL_LENGTH - 1]}…")


def _is_hold_unread(each: Assessment) -> bool:
    return bool(each.node.annotations.get(HOLD_ANNOTATION)) and hold_end(each.node) is None


_HELD: Final = (
    f"Someone holds these nodes with the annotation {HOLD_ANNOTATION}, so the operator writes nothing there."
)
_HELD_FIX: Final = (
    f"Remove the annotation once the operator may continue: kubectl annotate node NODE {HOLD_ANNOTATION}-. A "
    "hold whose value is a time ends then."
)
_LOST: Final = (
    f"The ownership record in annotation {APPLIED_ANNOTATION} could not be read{{why}}. These keys "
)
_REFUSED: Final = NodeIssue(
    IssueReason.WRITE_REFUSED,
    _refusal,
    "The API server refuses to change these nodes: {cause}",
    "Change the policy, webhook or limit that the message names, or change the spec. The operator tries "
    "again after at most five minutes.",
)
_REFUSED_VARIOUSLY: Final = _REFUSED._replace(
    message="The API server refuses to change these nodes for various reasons, such as: {cause}"
)
_OF_NODES: Final = (
    _REFUSED,
    NodeIssue(
        IssueReason.VALIDATION_TIMED_OUT,
        lambda each: each.found.startup.waits_for if each.found.startup.timed_out else "",
        "These nodes did not pass validation in time, because they wait for {cause}.",
        "Make the kubelet or the listed pods Ready. The operator then removes the startup taints.",
    ),
    NodeIssue(
        IssueReason.FOREIGN_TAINT_CONFLICT,
        lambda each: ", ".join(sorted({*each.contested})),
        "Someone repeatedly undoes what the pool sets on these nodes: {cause}.",
        f"Find the other writer (kubectl get node {NODE} -o yaml --show-managed-fields). Let only one of the "
        "two set these keys.",
    ),
    NodeIssue(
        IssueReason.POOL_OVERLAP,
        lambda each: each.rival,
        "This pool and the pool {cause} select the same nodes. Each node stays with the pool that has it.",
        "Change nodeSelector of this pool or of {cause} so that they exclude each other.",
    ),
    NodeIssue(
        IssueReason.KEYS_LEFT_ALONE,
        lambda each: each.diff.left_alone,
        f"The annotation {APPLIED_ANNOTATION} was written without the guard. It says that the pool set "
        "{cause}. The status of the pool does not say so, and the operator leaves it.",
        # No label selects just these nodes, and others may carry the same keys by right.
        "Remove it{on_each} if the pool did set it and no one needs it: {remove}",
    ),
    NodeIssue(
        IssueReason.NODES_HELD,
        lambda each: "held" if each.is_held and not _is_hold_unread(each) else "",
        _HELD,
        _HELD_FIX,
    ),
    NodeIssue(
        IssueReason.NODES_HELD,
        lambda each: "no time" if each.is_held and _is_hold_unread(each) else "",
        f"{_HELD} The value of the annotation is neither empty nor a time such as 2026-01-31T18:00:00Z, so "
        "the hold does not end by itself.",
        _HELD_FIX,
    ),
    NodeIssue(
        IssueReason.OWNERSHIP_RECORD_UNREADABLE,
        lambda each: "nothing is lost" if each.diff.unreadable and not each.diff.lost else "",
        f"The ownership record in annotation {APPLIED_ANNOTATION} cannot be read{{why}}. These nodes have no "
        "label or taint of the pool.",
        "Remove nothing. The operator writes a new record when it next writes to the node.",
    ),
    NodeIssue(
        IssueReason.OWNERSHIP_RECORD_UNREADABLE,
        lambda each: each.diff.lost if each.claim is Claim.LEFT else "",
        f"{_LOST}stay on the node when the pool releases it: {{cause}}.",
        "Remove the keys that no one needs: {remove_few}",
    ),
    NodeIssue(
        IssueReason.OWNERSHIP_RECORD_UNREADABLE,
        lambda each: each.diff.lost if each.claim is not Claim.LEFT else "",
        f"{_LOST}no longer belong to the pool, and stay on the node when the pool is deleted: {{cause}}.",
        "Remove these keys. The pool then sets again, as its own, what its spec asks for: {remove_few}",
    ),
)


def node_findings(nodes: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding for each cause, with the names of all nodes that have it."""
    found = grouped(((row, cause), each) for each in nodes for row in _OF_NODES if (cause := row.cause(each)))
    refusals = sorted(
        (key for key in found if key[0] is _REFUSED),
        key=lambda key: (-len(found[key]), min(each.node.name for each in found[key])),
    )
    if various := sorted(refusals[MOST_REFUSALS:], key=lambda key: str(key[1])):
        rest = [each for key in various for each in found.pop(key)]
        yield _finding(_REFUSED_VARIOUSLY, various[0][1], rest, key="various reasons")
    for (row, cause), there in found.items():
        yield _finding(row, cause, there)


def _finding(row: NodeIssue, cause: str | Keys, nodes: Sequence[Assessment], key: str = "") -> Finding:
    names = [each.node.name for each in nodes]
    why = next((f" ({each.diff.unreadable})" for each in nodes if each.diff.unreadable), "")
    words = {"cause": cause, "why": why}
    if isinstance(cause, Keys):
        few = removal(" ".join(names) if len(names) <= NAMES_SHOWN else NODE, cause)
        words |= {"cause": named(cause), "remove_few": few, **_removal(names, cause)}
    message, fix = row.message.format(**words), row.fix.format(**words)
    return Finding(row.reason, names, message, fix, cause=f"{row.message} {key or words['cause']}")


def _removal(names: Sequence[str], keys: Keys) -> Words:
    """Return the commands that remove ``keys`` from these nodes, as many as an issue shows."""
    on_each = " from each of these nodes" if len(names) > MAX_ISSUE_NODES else ""
    return {"remove": removal(" ".join(sorted(names)[:MAX_ISSUE_NODES]), keys), "on_each": on_each}


def holds_end_at(nodes: Iterable[Assessment]) -> datetime | None:
    """Return when the first hold ends; None where none ends by itself."""
    ends = (hold_end(each.node) for each in nodes if each.is_held)
    return min((end for end in ends if end is not None), default=None)


UNTOLD_SECONDS: Final = 10
"""Some writes of the status. A kubelet that damages and mends its record all the time must not hold up the
deletion of the pool."""


def unreported_nodes(
    nodes: Iterable[Assessment],
    reported: WindowsNodePoolStatus,
    standing: WindowsNodePoolStatus,
    *,
    now: datetime,
) -> frozenset[str]:
    """Return the nodes of a deleted pool that wait until the status names what stays behind there.

    Once the status names the node, it waits no more, whatever its kubelet adds and removes meanwhile. And no
    node waits for longer than UNTOLD_SECONDS after the status first reported the deletion.
    """
    unreadable = IssueReason.OWNERSHIP_RECORD_UNREADABLE
    deleting = standing.condition(ConditionType.DELETING)
    told_at = deleting.last_transition_time if deleting and deleting.status == "True" else None
    if told_at and now >= told_at + timedelta(seconds=UNTOLD_SECONDS):
        return frozenset()
    before = [each for each in standing.issues if each.reason == unreadable]
    news = {each.message for each in reported.issues if each.reason == unreadable}
    news -= {each.message for each in before}
    if not news:
        return frozenset()
    named_nodes = {name for each in before for name in each.nodes} if told_at else set()
    found = (
        finding.nodes
        for finding in node_findings(nodes)
        if finding.reason is unreadable and SENTENCE.clip(finding.message) in news
    )
    return frozenset(name for names in found for name in names).difference(named_nodes)


def owner_findings(snapshot: Snapshot, nodes: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding for all nodes of which the same is to be said, whichever owners their records name.

    Its fix names the time at which the last of their owners is decided on. The time is no part of message and
    cause: a kubelet without the guard can name another owner each second.
    """
    rights = record_trust_of(snapshot)
    found: dict[tuple[bool, bool], list[tuple[str, datetime | None]]] = {}
    for each in nodes:
        record = record_of(each.node) if each.claim is Claim.UNKNOWN else None
        if isinstance(record, Record):
            is_trusted = rights.know_owner(record) or rights.is_undecided(record)
            decided_at = snapshot.others.decided_at.get(record.pool_uid)
            found.setdefault((each.owner_is_gone, is_trusted), []).append((each.node.name, decided_at))
    for (is_gone, is_trusted), there in found.items():
        names = [name for name, _ in there]
        last = max((moment for _, moment in there if moment), default=None)
        doubt = "" if is_trusted else " was written without the guard, and"
        message = f"The annotation {APPLIED_ANNOTATION}{doubt} names a pool that the operator does not know."
        if is_gone:
            message = (
                f"The annotation {APPLIED_ANNOTATION} was written without the guard. It names a pool that "
                "does not exist and that this operator has never seen."
            )
            fix = (
                "Check the labels and taints that it names by hand. Then let the pool have the node: kubectl "
                f"annotate node {names[0] if len(names) == 1 else NODE} {APPLIED_ANNOTATION}-"
            )
        elif last is None:
            fix = "Wait until the operator has listed all pools twice."
        else:
            then = "this pool takes over the nodes" if is_trusted else "this issue says what to do"
            at = written_moment(last)
            fix = f"Wait until {at}. If a second list of all pools lacks that pool too, {then}."
        cause = f"{'gone' if is_gone else 'undecided'} {'trusted' if is_trusted else 'untrusted'}"
        yield Finding(IssueReason.OWNER_UNKNOWN, names, message, fix, cause)


def stray_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for the nodes that are no Windows nodes any more, and on which the same stays.

    A pool that is being deleted releases them. Why the operator leaves it there: ``ownership/leftovers.py``.
    """
    if snapshot.pool.deleting or not snapshot.strays:
        return
    rights, windows = record_trust_of(snapshot), {node.name for node in snapshot.nodes}
    found: dict[Keys, list[str]] = {}
    for node in snapshot.strays:
        # One may be a Windows node again, since the list of strays.
        if node.name not in windows and (kept := kept_on(node, rights=rights)):
            found.setdefault(kept, []).append(node.name)
    for kept, names in found.items():
        words = _removal(names, kept)
        yield Finding(
            IssueReason.NODE_NOT_WINDOWS,
            names,
            f"These nodes were in the pool, and do not have the label {OS_LABEL}={OS_WINDOWS} any more. "
            "Kubelets may change that label. The operator leaves what a kubelet may not remove: "
            f"{named(kept)}.",
            "Check what runs on the nodes. If it is Windows, find out who changed the label. If it is not, "
            f"remove the rest{words['on_each']}: {words['remove']}",
            cause=named(kept),
        )


def findings_of_reserved(pool: Pool, nodes: Assessed) -> Iterator[Finding]:
    """Yield what is wrong with the reserved memory of the pool's own nodes; of none, nothing is."""
    memory = pool.spec.reserved_memory if pool.spec and not pool.deleting else None
    if memory and nodes.own_nodes():
        compared = ((each.reserved, alike) for each, alike in nodes.by_finding())
        found = {node.name: reserved for reserved, alike in compared if reserved for node in alike}
        yield from reserved_findings(pool.name, memory, found)


UNREADY_SECONDS: Final = 300.0
"""How long a node is not Ready before it is an issue: as long as Kubernetes leaves pods on such a node by
default. https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions"""

TAINT_SECONDS: Final = 600.0
"""How long a node has been Ready before a taint of its cloud is an issue. A cloud controller manager takes
``shutdown`` from a Ready node every five seconds, and ``uninitialized`` once the cloud has answered. This is
twice its slowest period, which is five minutes by default. Neither taint has a time of its own.
kubernetes/cloud-provider config/v1alpha1/defaults.go, controllers/nodelifecycle/node_lifecycle_controller.go
"""

TOGETHER_SECONDS: Final = 30.0
"""Nodes whose time comes within so long are reported together: when a zone fails, its nodes follow each other
for a minute, and each second would have a pass and a report of its own."""

CAUSE_LENGTH: Final = 600
"""Characters of what a kubelet says that are reported. It was cut once before, behind names of different
length: so much of it is the same for all nodes."""

MOST_CAUSES: Final = 3
"""Causes that are reported one by one: each kubelet may write words of its own, and the status has room for
ten issues, most of which come after these."""

_UNREADY_FIX: Final = (
    "Repair what the message names: the network plugin, the container runtime, the kubelet or the machine. "
    f"See the events and the conditions: kubectl describe node {NODE}"
)


def readiness_findings(nodes: Iterable[Assessment], *, now: datetime) -> Iterator[Finding]:
    """Yield one finding for each cause that nodes of the pool share."""
    ours = [each.node for each in nodes if each.claim is Claim.OURS and _is_ripe(each.node, now)]
    unready = grouped((_cause(node), node.name) for node in ours if not is_ready(node))
    causes = sorted(unready, key=lambda cause: (-len(unready[cause]), min(unready[cause])))
    for cause in causes[:MOST_CAUSES]:
        said = f'The condition Ready says: "{cause}"' if cause else "The condition Ready gives no reason"
        yield _unready(unready[cause], said, cause=cause)
    if rest := sorted(causes[MOST_CAUSES:]):
        names = [name for cause in rest for name in unready[cause]]
        said = f'Their conditions Ready say various things, such as: "{rest[0]}"'
        yield _unready(names, said, cause="various")
    taints = grouped(
        (each.identity, node.name) for node in ours if is_ready(node) for each in cloud_taints(node)
    )
    for (key, effect), names in taints.items():
        yield Finding(
            IssueReason.CLOUD_TAINT_STAYS,
            names,
            f"The taint {key}:{effect} is still on these nodes, which have been Ready for ten minutes or "
            "longer. A cloud controller manager removes it, and the operator does not. Pods that do not "
            "tolerate it are not scheduled there.",
            "Check that a cloud controller manager runs (on Azure also cloud-node-manager, a pod on each "
            "node), and what its log says of these nodes. If the "
            "cluster has none, start the kubelets without --cloud-provider=external, and remove the taint: "
            f"kubectl taint nodes {NODE} {key}:{effect}-",
            f"{key}:{effect}",
        )


def ripens_at(nodes: Iterable[Assessment], *, now: datetime) -> datetime | None:
    """Return when the next node becomes part of a finding by time alone; None where none does."""
    moments = (_ripe_at(each.node) for each in nodes if each.claim is Claim.OURS)
    return min((moment for moment in moments if moment and moment > now), default=None)


def _is_ripe(node: Node, now: datetime) -> bool:
    moment = _ripe_at(node)
    return moment is not None and moment <= now


def _ripe_at(node: Node) -> datetime | None:
    """Return when what is found of the node is an issue; None where nothing is, or its time is not known.

    A machine that the operator has handed over to be upgraded may restart, several times. One that is stopped
    in its cloud is not Ready for as long as someone wants: AKS keeps such nodes with the scale-down mode
    Deallocate.
    """
    if node.ready_since is None:
        return None
    if not is_ready(node):
        is_upgraded = node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.UPGRADING
        is_stopped = any(taint.key == SHUTDOWN for taint in node.taints)
        return None if is_upgraded or is_stopped else _together(later(node.ready_since, UNREADY_SECONDS))
    if not cloud_taints(node):
        return None
    return _together(later(max(node.ready_since, node.created or node.ready_since), TAINT_SECONDS))


def _together(moment: datetime) -> datetime:
    return later(moment, -moment.timestamp() % TOGETHER_SECONDS)


def _cause(node: Node) -> str:
    """Return what the kubelet says, without what is of this node alone."""
    said = nameless(node.unready, name=node.name)
    return said if len(said) <= CAUSE_LENGTH else f"{said[: CAUSE_LENGTH - 1]}…"


def _unready(names: list[str], said: str, *, cause: str) -> Finding:
    message = f"These nodes have not been Ready for five minutes or longer. {ended(said)}"
    return Finding(IssueReason.NODES_NOT_READY, names, message, _UNREADY_FIX, cause)


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


def nearest(selector: NodeSelector, nodes: Sequence[Mapping[str, str]]) -> str:
    """Say what the nodes with these labels have in place of what the selector asks for.

    The nearest are those that meet the most of it. The text does not depend on the order of the nodes, nor,
    as long as no more than COMPARED differ, on how many are alike.
    """
    if not nodes:
        return "The cluster has no Windows nodes."
    asked = selector.requirements
    distances = [_distance(asked, labels) for labels in nodes]
    shortest = min(distances)
    near = [labels for labels, distance in zip(nodes, distances, strict=True) if distance == shortest]
    return " ".join(_instead(asked[place], near) for place in shortest[2][:UNMET_TOLD])


def _distance(
    asked: Sequence[LabelRequirement], labels: Mapping[str, str]
) -> tuple[int, int, tuple[int, ...]]:
    """Return how far a node is: how much it does not meet, how many keys it lacks, and what that is."""
    unmet = tuple([place for place, each in enumerate(asked) if not each.is_met_by(labels)])
    return len(unmet), sum(asked[place].key not in labels for place in unmet), unmet


def _instead(asked: LabelRequirement, near: Sequence[Mapping[str, str]]) -> str:
    """Say what the nearest nodes have in place of ``asked``, which none of them meets."""
    key = asked.key
    values = Counter(labels[key] for labels in near if key in labels)
    wanted_values = sorted(each for each in asked.values if each is not None)
    if asked.is_wanted is not bool(wanted_values):  # NotIn or DoesNotExist
        return f"It excludes {_listed(key, sorted(values))}, which the nearest Windows nodes have."
    wanted = f"It asks for {_listed(key, wanted_values) if wanted_values else f'the label {key}'}"
    if values:
        return f"{wanted}. The nearest Windows nodes have {_listed(key, _closest(wanted_values, values))}."
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
    names = grouped((_name_of(each), each) for each in _most_frequent(keys) if not is_own(each))
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
        chosen = (*frequent, *begin_alike[: share - len(frequent)])
        compared = grouped((text[:CLIPPED], text) for text in chosen)
        close = get_close_matches(each[:CLIPPED], compared, n=NEAREST, cutoff=CUTOFF)
        found += [text for clipped in close for text in compared[clipped]]
    return tuple(dict.fromkeys(found))


def _alike_from_the_start(one: str, other: str) -> int:
    """Return how many of the first characters are the same in both."""
    pairs = zip(one[:CLIPPED], other[:CLIPPED], strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other), CLIPPED))


def _name_of(key: str) -> str:
    return key.rpartition("/")[2]
