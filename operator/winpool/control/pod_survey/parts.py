"""Assembles what lists pods: all of them, and those of single nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.cluster.disruption_budgets import BudgetLister
from winpool.cluster.node_pods import list_node_pods
from winpool.cluster.pod_lister import PodLister
from winpool.control.pod_survey.node_looks import NodeLooks
from winpool.control.pod_survey.pod_pass import PodPass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from winpool.cluster.transport import Transport
    from winpool.control.clock import Clock
    from winpool.control.relist.pools import Pools
    from winpool.objects.node import Node
    from winpool.pods.survey import PoolQuestion


@dataclass(frozen=True, slots=True)
class SurveyParts:
    """``pod_pass`` lists all pods, ``node_looks`` those of single nodes."""

    pod_pass: PodPass
    node_looks: NodeLooks


def survey_parts(
    transport: Transport,
    *,
    pools: Pools,
    nodes: Mapping[str, Node],
    questions: Callable[[], Sequence[PoolQuestion]],
    on_surveyed: Callable[[], None],
    on_looked: Callable[[str], None],
    period_seconds: float,
    clock: Clock,
) -> SurveyParts:
    """Make the parts. ``nodes`` are those that are known, by name; the callbacks are those of the parts."""
    pod_pass = PodPass(
        list_pods=PodLister(transport.request).list,
        list_budgets=BudgetLister(transport.request).list,
        questions=questions,
        on_surveyed=on_surveyed,
        period_seconds=period_seconds,
        now=clock.now,
        monotonic=clock.monotonic,
    )
    node_looks = NodeLooks(
        list_pods=lambda name, see: list_node_pods(transport.request, name, see=see),
        pools=pools,
        nodes=nodes,
        on_looked=on_looked,
        ask_for_all=pod_pass.ask,
        now=clock.now,
        monotonic=clock.monotonic,
    )
    return SurveyParts(pod_pass, node_looks)
