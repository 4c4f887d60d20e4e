"""What is found about the evictions of a pool's nodes, as issues: one for each cause."""

from __future__ import annotations

import re
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.keys import MEMORY_ANNOTATION
from winpool.api.syntax import DNS_SUBDOMAIN_PATTERN
from winpool.memory.candidates import Exclusion
from winpool.memory.steps import Stage
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from winpool.memory.intents import Intent
    from winpool.memory.steps import Step
    from winpool.pods.evicted import KnownEvictions

_PODS_NAMED: Final = 3
"""Pods that a message names, as many as an issue names nodes. Each name has at most 317 characters."""

SLOW_LIST_SECONDS: Final = 10.0
"""How long a list may take, in seconds. A node whose memory is short is sampled as often, by default."""

_POD: Final = re.compile(f"{DNS_SUBDOMAIN_PATTERN}/{DNS_SUBDOMAIN_PATTERN}", re.ASCII)

_BY_A_BUDGET: Final = (
    "These nodes are short of memory, and no pod of them may be evicted now. PodDisruptionBudgets permit no "
    "eviction of the pods that could be.",
    "Make the missing replicas Ready, add replicas, or let the PodDisruptionBudgets permit one more "
    "disruption.",
)
_BY_SILENCE: Final = (
    "These nodes are short of memory, and it is not known how much memory each of their pods uses. The "
    "operator evicts no pod of unknown memory. Only kubelets report the memory of pods.",
    "Add the source Kubelet to spec.memoryPressure.sources if it is missing. If it is there, correct what "
    "the pool reports about the samples of these nodes.",
)
_BY_RULE: Final = (
    "These nodes are short of memory, and no pod of them may be evicted: they are node agents, have no "
    "controller, are protected, are too young, or use too little.",
    "Find the pods there that use the most memory, and lower their memory or move them. If a rule in "
    "spec.memoryPressure.eviction.rules protects too many pods, change it.",
)

_BLOCKS: Final = (
    (Exclusion.BUDGET, _BY_A_BUDGET, "budget"),
    (Exclusion.UNKNOWN_USAGE, _BY_SILENCE, "usage"),
    (None, _BY_RULE, "rule"),
)
"""Why no pod of a node is evicted. Of several reasons, the first is reported."""


def eviction_findings(steps: Collection[Step], known: KnownEvictions) -> Iterator[Finding]:
    """Yield what is to be said of ``steps``, which were decided on what is ``known``."""
    yield from _stuck(steps)
    yield from _blocked(steps)
    if unreadable := [each.node.name for each in steps if each.stage is Stage.UNREADABLE]:
        yield Finding(
            IssueReason.EVICTION_RECORD_UNREADABLE,
            unreadable,
            f"The annotation {MEMORY_ANNOTATION} of these nodes cannot be read, so it is not known what was "
            "evicted there. The operator evicts no pod there. Each counts as a node with an eviction.",
            f"Remove it: kubectl annotate node NODE {MEMORY_ANNOTATION}-",
            cause="unreadable",
        )
    yield from _unlisted(steps, known)


def _unlisted(steps: Collection[Step], known: KnownEvictions) -> Iterator[Finding]:
    """Yield where lists of pods fail, or take so long that they permit no eviction."""
    if unlisted := [each.node.name for each in steps if each.look and each.node.uid in known.problems]:
        yield Finding(
            IssueReason.POD_LIST_FAILING,
            unlisted,
            "The operator cannot list the pods of these nodes, which are short of memory, or their "
            "PodDisruptionBudgets. It evicts no pod there, and tries again.",
            "Read the operator's log for the error, and correct what it names.",
            cause="evictions",
        )
    if late := [each.node.name for each in steps if _is_late(each, known)]:
        yield Finding(
            IssueReason.POD_LIST_FAILING,
            late,
            "These nodes are short of memory, and a list of their pods and PodDisruptionBudgets takes "
            f"{SLOW_LIST_SECONDS:.0f} s or longer. By then there is a sample that is newer than the list. "
            "The operator evicts no pod there until a list is newer than the last sample.",
            "Find out why the API server answers the operator so slowly: its load, its flow control "
            "(kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels), or the network.",
            cause="late",
        )


def _is_late(step: Step, known: KnownEvictions) -> bool:
    """Whether an eviction is next, and the last list for one took too long. One that fails is no late one."""
    uid = step.node.uid
    pods = known.pods.get(uid)
    is_next = step.look is not None and step.look.with_budgets and uid not in known.problems
    return is_next and pods is not None and pods.has_budgets and pods.seconds >= SLOW_LIST_SECONDS


def _stuck(steps: Collection[Step]) -> Iterator[Finding]:
    stuck = {each.node.name: each.intent for each in steps if each.stage is Stage.STUCK}
    if stuck:
        yield Finding(
            IssueReason.EVICTION_STUCK,
            list(stuck),
            "A pod that was evicted from these nodes is still being deleted, two minutes after its grace "
            "period, of which ten minutes count at most. The operator evicts no other pod there until it is "
            f"gone. {_named(stuck)}",
            "Find out why the pod does not end: a long grace period, a finalizer, a volume, or the container "
            "runtime.",
            cause="stuck",
        )


def _named(intents: Mapping[str, Intent | None]) -> str:
    """Return a sentence that names the pods of the first nodes; ``intents`` are by the names of the nodes.

    It changes only with the nodes and their intents.
    """
    first = (intents[node] for node in nsmallest(_PODS_NAMED, intents))
    pods = ", ".join(_pod(each) for each in first if each is not None)
    if len(intents) > _PODS_NAMED:
        return f"The first of these pods are {pods}. {MEMORY_ANNOTATION} on the others names theirs."
    return f"Pods: {pods}."


def _pod(intent: Intent) -> str:
    """Return namespace and name, or the UID where the annotation has no name that a pod can have.

    Others can write the annotation, so not every text in it becomes a message.
    """
    return intent.pod if _POD.fullmatch(intent.pod) else f"UID {intent.uid}"


def _blocked(steps: Collection[Step]) -> Iterator[Finding]:
    blocked = [each for each in steps if each.stage is Stage.BLOCKED and each.choice is not None]
    left = blocked
    for exclusion, (message, fix), cause in _BLOCKS:
        nodes = [each for each in left if _excludes(each, exclusion)]
        left = [each for each in left if each not in nodes]
        if nodes:
            yield Finding(
                IssueReason.EVICTION_BLOCKED,
                [each.node.name for each in nodes],
                message,
                fix,
                cause=cause,
            )


def _excludes(step: Step, exclusion: Exclusion | None) -> bool:
    """Whether a pod of the node is not evicted for that; None is for any."""
    return exclusion is None or (step.choice is not None and exclusion in step.choice.excluded)
