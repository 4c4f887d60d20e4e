"""Shows the pods of one node by what they use, and which of them an eviction could take, in every mode.

The operator asks kubelets about pods on few nodes, and publishes none of it. So the plugin reads them itself,
with the rights of the person, and judges them by the rules of the operator
(docs/adr/0041-pods-by-the-rights-of-the-person.md).
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from winpool.api.memory_pressure import MemoryMode, MemoryPressure
from winpool.cli.console import Ink, Look, Paper
from winpool.cli.counts import NONE, amount, rate
from winpool.cli.kubectl import Kubectl, NotAskedError, decoded
from winpool.cli.kubelet import sampling
from winpool.cli.reader import read_pools
from winpool.features.memory.levels import missing
from winpool.features.memory.settings import settings_of
from winpool.features.memory.victims import (
    Basis,
    Candidate,
    Exclusion,
    Protection,
    candidates_of,
    grown_pods,
    judge,
)
from winpool.kube.budgets import BUDGETS
from winpool.kube.pods import decode_pod_page, node_request
from winpool.model.budgets import BudgetIndex
from winpool.model.node_pods import NodePods
from winpool.model.pressure import Axis, Reading, UsageSinceCalm

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from winpool.model.memory_report import NodeReport
    from winpool.model.pool import Pool


APART_SECONDS: Final = 12.0
"""Between the two samples that show growth: a kubelet reads its counters anew every ten seconds."""

PROTECTION_UNKNOWN: Final = (
    f"EVICTABLE is {NONE} where it would be Yes if the namespace is not protected: the operator is older and "
    "does not say which are."
)

GROWERS_ONLY: Final = (
    "Of those with Yes, the operator evicts one that has grown since the node was calm, and none if most of "
    "that growth is of pods that have to stay."
)

WITH_URL: Final = "not read with --url, since kubectl may be set to another cluster: leave --url out"


class PodMemory(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The memory of a pod, in bytes. ``reason`` is why it would not be evicted. What is unknown is absent.

    ``evictable`` is unknown where only a protected namespace could keep the pod, and those are not known.
    """

    namespace: str
    name: str
    request: int
    evictable: bool | None = None
    reason: str = ""
    commit: float | None = None
    working_set: float | None = None
    growth_bytes_per_second: float | None = None


class SeenPods(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The pods of a node, the largest first; None where the problem says why they are not known.

    Their memory is as it was ``pods_at``, by the clock of the node. ``evicts``: the pool has the mode Evict.
    """

    pods: tuple[PodMemory, ...] | None = None
    pods_at: datetime | None = None
    evicts: bool = False
    pods_problem: str = ""


def read_pods(kubectl: Kubectl, node: NodeReport, *, protected: Collection[str] | None) -> SeenPods:
    """Return the pods of ``node`` as an eviction would judge them now, by two samples, the largest first.

    Those in the namespaces ``protected`` are never evicted; None: the operator does not say which these are.
    What pods used while the node was calm is not known here: ``GROWERS_ONLY`` says so.
    """
    try:
        with sampling(kubectl, node.node) as sample:
            first_at, first = sample()
            time.sleep(APART_SECONDS)
            reads_pools = kubectl.begin(partial(read_pools, kubectl))
            lists_pods = kubectl.begin(partial(kubectl.get, node_request(node.node, with_failed=False).path))
            lists_budgets = kubectl.begin(partial(kubectl.objects, BUDGETS.collection, BUDGETS.decode))
            at, last = sample()
        page = decoded(partial(decode_pod_page, for_eviction=True), lists_pods.result())
        pressure = _pressure(reads_pools.result(), node.pool)
        budgets = BudgetIndex(lists_budgets.result())
    except NotAskedError as error:
        return SeenPods(pods_problem=str(error))
    if page.unreadable:
        return SeenPods(pods_problem=f"{page.unreadable[0]}")
    # A kubelet that cannot read its counters answers with the old values, and their old time. How much a pod
    # grew that is only in the second sample is not known: it may have started long before.
    both = {uid: each for uid, each in last.items() if uid in first} if at > first_at else {}
    usage, now = UsageSinceCalm({**last, **grown_pods(first, both)}), datetime.now(UTC)
    blocked = frozenset(pod.uid for pod in page.pods if budgets.block_of(pod) is not None)
    pods, rules = NodePods(now, 0.0, page.pods, blocked), pressure.eviction.pod_rules
    basis, found = judge(
        candidates_of(pods, usage=usage, rules=rules, answers={}, now=now),
        axis=node.axis or Axis.COMMIT,
        missing=_missing(node, pressure),
        protection=Protection(frozenset(protected or ()), pressure.eviction.min_pod_age_seconds),
        is_hard=node.level == "Hard",
        by_growth=False,
    )
    found.sort(key=lambda each: (-(each[0].used(basis) or 0.0), each[0].pod.full_name))
    rows = tuple(_row(*each, basis, seconds=at - first_at, is_sure=protected is not None) for each in found)
    evicts = pressure.mode is MemoryMode.EVICT
    return SeenPods(pods=rows, pods_at=datetime.fromtimestamp(at, UTC), evicts=evicts)


def _pressure(pools: Collection[Pool], name: str) -> MemoryPressure:
    spec = next((each.spec for each in pools if each.name == name), None)
    if spec is None or spec.memory_pressure is None:
        raise NotAskedError(
            f'the pool "{name}" has no spec.memoryPressure that can be used: read it with '
            f"kubectl get wnp {name} -o yaml"
        )
    return spec.memory_pressure


def _missing(node: NodeReport, pressure: MemoryPressure) -> float:
    """Return what has to become free, by the last report of the operator; 0 where that is not known."""
    commit, ram = node.commit, node.physical
    if node.axis is Axis.COMMIT and commit is not None:
        reading = Reading(Axis.COMMIT, left=commit.ceiling - commit.used, whole=commit.ceiling)
    elif node.axis is Axis.PHYSICAL and ram is not None:
        reading = Reading(Axis.PHYSICAL, left=ram.available, whole=ram.total)
    else:
        return 0.0
    return missing(reading, reading.whole, settings_of(pressure))


def _row(
    candidate: Candidate, exclusion: Exclusion | None, basis: Basis, *, seconds: float, is_sure: bool
) -> PodMemory:
    usage = candidate.usage
    growth = usage.commit_growth if basis is Basis.COMMIT else usage.working_set_growth
    return PodMemory(
        namespace=candidate.pod.namespace,
        name=candidate.pod.name,
        request=candidate.facts.requests,
        evictable=False if exclusion is not None else (True if is_sure else None),
        reason="" if exclusion is None else exclusion.name.title().replace("_", ""),
        commit=candidate.used(Basis.COMMIT),
        working_set=candidate.used(Basis.WORKING_SET),
        growth_bytes_per_second=None if growth is None else growth / seconds,
    )


def render_pods(seen: SeenPods, *, look: Look) -> str:
    """Return the table of the pods, or why there is none."""
    paper = Paper(look)
    if seen.pods is None or seen.pods_at is None:
        paper.heading("Pods:")
        paper.marked(seen.pods_problem, ink=Ink.BUSY)
        return paper.text
    paper.heading(f"Pods at {seen.pods_at:%H:%M:%S} UTC, by the clock of the node: {len(seen.pods)}")
    if seen.pods:
        paper.table([_cells(each) for each in seen.pods], dropped=("WORKING-SET",), indent="  ")
    if any(each.evictable is None for each in seen.pods):
        paper.line(f"  {PROTECTION_UNKNOWN}")
    if any(each.evictable for each in seen.pods):
        paper.line(f"  {GROWERS_ONLY}")
    if not seen.evicts:
        paper.line("  The mode of the pool is not Evict: EVICTABLE says what it would permit.")
    return paper.text


def _cells(pod: PodMemory) -> Mapping[str, str]:
    return {
        "NAMESPACE/POD": f"{pod.namespace}/{pod.name}",
        "COMMIT": amount(pod.commit),
        "WORKING-SET": amount(pod.working_set),
        "REQUEST": amount(pod.request),
        "GROWTH": rate(pod.growth_bytes_per_second),
        "EVICTABLE": NONE if pod.evictable is None else "Yes" if pod.evictable else pod.reason,
    }
