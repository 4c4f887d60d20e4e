"""Says whether a machine that has come back is fit for work, and whether what its drain moved is back.

The machine shows what ``spec.validation`` asks of a node. The next node waits for the workloads:
before its first eviction a claim writes down which controllers lose pods, and how many of theirs are Ready.
They are back once each has as many Ready pods again, or as many as it wants now, where that is less. What is
not known is never back (P4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.selector import NodeAgents, NodeValidation, selects
from winpool.api.text import later
from winpool.features.upgrade.claims import Claim
from winpool.features.upgrade.drain import FOLLOWED_SECONDS
from winpool.model.node import Node
from winpool.model.node_pods import KnownEvictions
from winpool.model.pods import Pod
from winpool.model.rollout import MARK_LETTERS, Controller, Workloads, mark_of

PROOF_SECONDS: Final = 30.0
"""How old the list of pods may be by which something is proven of a node: that it is drained, or valid."""


class Validation(msgspec.Struct, frozen=True):
    """What a node lacks; empty where it is valid.

    With ``looks`` its pods have to be listed. At ``again_at`` time alone may change it; None where it does
    not.
    """

    missing: str
    looks: bool = False
    again_at: datetime | None = None


def validation_of(
    node: Node, claim: Claim, rules: NodeValidation | None, known: KnownEvictions, *, now: datetime
) -> Validation:
    """Return what ``node`` lacks to be fit for work at its target."""
    if not is_ready_for(node, claim.limits.ready, now=now):
        return Validation(
            f"the kubelet reports Ready for {claim.limits.ready} s",
            again_at=ready_at(node, claim.limits.ready),
        )
    pods = known.pods.get(node.uid)
    since = max(claim.since, node.ready_since or claim.since)
    if pods is None or pods.started < since or not pods.is_young(known.read_at, PROOF_SECONDS):
        return Validation("a list of its pods", looks=True)
    missing = _unready(pods.pods, rules or NodeValidation())
    if claim.restarted_at and claim.drained_at and not _has_sandbox(pods.pods, since=claim.drained_at):
        missing.append("a pod with a sandbox that was made after the restart")
    again = later(pods.started, FOLLOWED_SECONDS) if missing else None
    return Validation(", ".join(missing), again is not None and again <= now, again)


def is_ready_for(node: Node, seconds: int, *, now: datetime) -> bool:
    """Whether the node is Ready for so many seconds."""
    since = ready_at(node, seconds)
    return since is not None and now >= since


def ready_at(node: Node, seconds: int) -> datetime | None:
    """Return when the node is Ready for so many seconds; None where it is not Ready."""
    since = node.ready_since if node.ready == "True" else None
    return since and later(since, seconds)


def _has_sandbox(pods: Iterable[Pod], *, since: datetime) -> bool:
    """Whether the node has made a sandbox with a network ``since`` it was drained, where a pod needs one.

    A kubelet is Ready while networks of Windows may still be missing. HostProcess pods have the network of
    their node. https://github.com/Azure/azure-container-networking/issues/283
    """
    facts = [
        each.eviction for each in pods if each.eviction and not (each.is_finished or each.is_terminating)
    ]
    networked = [each.sandboxed for each in facts if not each.is_host_process]
    return not networked or any(each is not None and each >= since for each in networked)


def _unready(pods: Iterable[Pod], rules: NodeValidation) -> list[str]:
    """Return which node agents and required pods are not Ready on a node."""
    serving, lacking = [], set[str]()
    for pod in pods:
        if pod.is_ready and not pod.is_finished and not pod.is_terminating:
            serving.append(pod)
        elif pod.is_of_daemon_set and (
            rules.node_agents is NodeAgents.ALL
            or (rules.node_agents is NodeAgents.CRITICAL and pod.is_critical)
        ):
            lacking.add(f"{pod.namespace}/{pod.controller} Ready")
    for each in rules.required_pods:
        if not any(
            pod.namespace == each.namespace and selects(each.pod_selector, pod.labels) for pod in serving
        ):
            lacking.add(f"a pod of {each.namespace} that is required Ready")
    return sorted(lacking)[:5]


MOST_COUNTED: Final = 40
"""Controllers whose Ready pods are written down. A node has pods of ten to thirty, and LONGEST has no room
for the counts of all that it could have."""

MOST_MARKED: Final = 80
"""Controllers that are written down, with and without that number: what fits LONGEST. A Windows node has at
most 110 pods by default, and most controllers have two or more of them."""

LONGEST: Final = 1_000
"""Characters of a written baseline, of the 4 KiB that the annotation of a claim may have."""

OTHERS_SECONDS: Final = 60.0
"""After the last eviction, for controllers of which it is not known what they want: as long as it takes to
schedule a pod and to start a Windows container from an image that is on the node."""

LIST_SECONDS: Final = 15.0
"""Between the begins of two lists of all controllers: a large cluster has tens of megabytes of them."""

OLDEST_SECONDS: Final = 60.0
"""The age of a list that still says how things are. All its parts together take at most 50 s."""


class Baseline(msgspec.Struct, frozen=True):
    """The controllers that lose pods by a drain.

    ``ready`` has, by the mark of each, how many Ready pods it had before the first eviction; None for as many
    as it wants. ``has_others``: pods of further controllers are lost, of which this is not known.
    """

    ready: Mapping[str, int | None] = msgspec.field(default_factory=dict)
    has_others: bool = False


class Settled(msgspec.Struct, frozen=True):
    """Whether the workloads are back.

    ``waiting`` are the controllers that are not, in order, each with what it has: "Deployment shop/web (2 of
    3 Ready)". ``unknown`` says why it is not known, for people. ``list_at`` is when to judge again, by a list
    of controllers that begins then or later; None where time and lists change nothing.
    """

    is_settled: bool
    waiting: tuple[str, ...] = ()
    unknown: str = ""
    list_at: datetime | None = None


def baseline_of(pods: Iterable[Pod], workloads: Workloads) -> Baseline:
    """Return the baseline of a claim whose drain evicts ``pods``, by a list from before the first eviction.

    The counts of controllers that lack Ready pods come first: of the others it is known that they are back
    when they have what they want.
    """
    found: dict[str, Controller] = {}
    has_others = False
    for pod in pods:
        if not pod.is_evicted_by_drain or not pod.controller_kind:
            continue  # nothing makes it again
        controller = workloads.of(pod)
        if controller is None:
            has_others = True
        else:
            found[mark_of(controller.uid)] = controller
    order = sorted(found.items(), key=lambda each: (each[1].ready >= each[1].wanted, each[1].title))
    ready = {
        mark: controller.ready if place < MOST_COUNTED else None
        for place, (mark, controller) in enumerate(order[:MOST_MARKED])
    }
    return Baseline(ready, has_others or len(order) > MOST_MARKED)


_WRITTEN: Final = re.compile(
    rf"1(\+?)((?:,[A-Za-z0-9_-]{{{MARK_LETTERS}}}[0-9a-f]{{0,8}}){{0,{MOST_MARKED}}})", re.ASCII
)
"""The version, "+" where there are others, and for each controller its mark and its count, in hexadecimal."""


def encode_baseline(baseline: Baseline) -> str:
    """Write a baseline in at most LONGEST characters."""
    parts = ["1+" if baseline.has_others else "1"]
    parts += [mark + ("" if ready is None else f"{ready:x}") for mark, ready in baseline.ready.items()]
    return ",".join(parts)


def decode_baseline(text: str) -> Baseline | None:
    """Read a baseline; None, unknown, for anything that ``encode_baseline`` does not write."""
    found = _WRITTEN.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    each = found[2].split(",")[1:]
    ready = {
        part[:MARK_LETTERS]: int(part[MARK_LETTERS:], 16) if part[MARK_LETTERS:] else None for part in each
    }
    return Baseline(ready, bool(found[1])) if len(ready) == len(each) else None


def merge(own: Baseline | None, others: Iterable[Baseline | None]) -> Baseline | None:
    """Return ``own`` with the highest count of each of its controllers in all slots in work; None is unknown.

    A claim that begins while another drains finds a controller of both with fewer Ready pods than it had.
    """
    if own is None:
        return None
    ready = dict(own.ready)
    for other in others:
        if other is None:
            return None
        for mark, count in other.ready.items():
            if mark in ready:
                ready[mark] = _highest(ready[mark], count)
    return replace(own, ready=ready)


def _highest(one: int | None, another: int | None) -> int | None:
    return None if one is None or another is None else max(one, another)


_UNREADABLE: Final = (
    "It is not known which workloads had pods on the node, since that part of the claim cannot be read."
)
_NOT_LISTED: Final = "Workloads have not been listed since the last eviction."
_LEFT_OUT: Final = "Some workloads are not known, since there are too many in {namespaces}."


def settled(
    baseline: Baseline | None, workloads: Workloads | None, *, last_eviction: datetime, now: datetime
) -> Settled:
    """Judge by a list that began after the last eviction of the claim whether its workloads are back.

    ``baseline`` is merged with those of the other slots in work. A controller that wants no pods, is paused
    or is deleted is back. This is for a node that is drained: a StatefulSet counts a pod as Ready until it
    has ended, and a status follows its pods after a moment.
    """
    if baseline is None:
        return Settled(False, unknown=_UNREADABLE)
    if baseline.ready:
        if workloads is None:
            return Settled(False, unknown=_NOT_LISTED, list_at=now)
        again = later(workloads.started, LIST_SECONDS)
        if not last_eviction < workloads.started <= now <= later(workloads.started, OLDEST_SECONDS):
            return Settled(False, unknown=_NOT_LISTED, list_at=max(now, again))
        waiting, unknown = _waiting(baseline, workloads)
        if waiting or unknown:
            return Settled(False, waiting, unknown, list_at=again)
    quiet = later(last_eviction, OTHERS_SECONDS)
    if baseline.has_others and now < quiet:
        return Settled(False, (_OTHERS,), list_at=quiet)
    return Settled(True)


_OTHERS: Final = f"other controllers ({OTHERS_SECONDS:.0f} s after the last eviction)"


def _waiting(baseline: Baseline, workloads: Workloads) -> tuple[tuple[str, ...], str]:
    """Return the controllers that are not back, and why that is not known of others."""
    waiting: list[str] = []
    unknown = ""
    for mark, before in baseline.ready.items():
        controller = workloads.controllers.get(mark)
        if controller is None:
            if workloads.left_out:
                unknown = _LEFT_OUT.format(namespaces=", ".join(sorted(workloads.left_out)[:3]))
            continue
        goal = controller.wanted if before is None else min(before, controller.wanted)
        if controller.ready < goal and not controller.is_paused:
            waiting.append(f"{controller.title} ({controller.ready} of {goal} Ready)")
    return tuple(sorted(waiting)), unknown
