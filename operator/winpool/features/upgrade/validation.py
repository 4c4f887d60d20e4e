"""Says whether a machine that has come back is fit for work: what ``spec.validation`` asks of a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from winpool.api.selector import NodeAgents, NodeValidation, selects
from winpool.api.text import later
from winpool.features.upgrade.claims import Claim
from winpool.features.upgrade.drain import FOLLOWED_SECONDS
from winpool.model.node import Node
from winpool.model.node_pods import KnownEvictions
from winpool.model.pods import Pod

PROOF_SECONDS: Final = 30.0
"""How old the list of pods may be by which something is proven of a node: that it is drained, or valid."""


@dataclass(frozen=True)
class Validation:
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
            f"the kubelet reports Ready for {claim.limits.ready} s", again_at=ready_at(node, claim)
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
    since = node.ready_since
    return node.ready == "True" and since is not None and now >= later(since, seconds)


def ready_at(node: Node, claim: Claim) -> datetime | None:
    """Return when the node is Ready for as long as validation asks for; None where it is not Ready."""
    since = node.ready_since if node.ready == "True" else None
    return since and later(since, claim.limits.ready)


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
