"""The pods of a node as candidates: what the API server, the kubelet and the pool's rules say of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.evictions import EvictionBehavior
from winpool.memory.candidates import Behavior, Candidate
from winpool.objects.pressure import PodUsage
from winpool.ownership.membership import selects
from winpool.pods.evicted import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from winpool.api.evictions import EvictionRule
    from winpool.pods.evicted import Answered
    from winpool.pods.node_pods import NodePod, NodePods

_UNKNOWN: Final = PodUsage()
_BEHAVIORS: Final = {EvictionBehavior.NEVER: Behavior.NEVER, EvictionBehavior.PREFER: Behavior.PREFER}


def candidates_of(
    pods: NodePods,
    *,
    usage: Mapping[str, PodUsage],
    rules: Sequence[EvictionRule],
    answers: Mapping[str, Answered],
    now: datetime,
) -> tuple[Candidate, ...]:
    """Return a candidate for each pod. A pod that was refused lately is blocked."""
    return tuple(
        _candidate(
            pod,
            usage.get(pod.uid, _UNKNOWN),
            behavior=behavior_of(pod, rules),
            is_refused=pod.uid in answers and answers[pod.uid].answer is Answer.REFUSED,
            now=now,
        )
        for pod in pods.pods
    )


def behavior_of(pod: NodePod, rules: Sequence[EvictionRule]) -> Behavior | None:
    """Return what the first rule that matches ``pod`` says; None where none does."""
    return next((_BEHAVIORS[rule.behavior] for rule in rules if _matches(rule, pod)), None)


def _matches(rule: EvictionRule, pod: NodePod) -> bool:
    if rule.namespaces and pod.namespace not in rule.namespaces:
        return False
    return rule.pod_selector is None or selects(rule.pod_selector, pod.labels)


def _candidate(
    pod: NodePod, usage: PodUsage, *, behavior: Behavior | None, is_refused: bool, now: datetime
) -> Candidate:
    return Candidate(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        owner_kind=pod.owner_kind,
        priority=pod.priority,
        is_static=pod.is_static,
        is_host_process=pod.is_host_process,
        is_finished=pod.is_finished,
        is_terminating=pod.is_terminating,
        is_blocked=pod.is_blocked or is_refused,
        # One whose age is not known, or that is from the future, is too young.
        age_seconds=-1.0 if pod.created is None else (now - pod.created).total_seconds(),
        grace_seconds=pod.grace_seconds,
        requests=pod.requests,
        commit=usage.commit,
        working_set=usage.working_set,
        commit_growth=usage.commit_growth,
        working_set_growth=usage.working_set_growth,
        deletion_cost=pod.deletion_cost,
        behavior=behavior,
    )
