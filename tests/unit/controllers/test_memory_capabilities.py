"""What is told of the sources of a pool's nodes: unknown is never no, and it is renewed rarely."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from harness.memory_fleet import KUBELET_SOURCE, PROMETHEUS_SOURCE, Stage, a_mixed_stage, a_watching_pool
from harness.virtual_time import in_virtual_time, running
from winpool.controllers import memory_polls as probes
from winpool.controllers.memory import FIRST_SECONDS, RENEW_SECONDS
from winpool.model.pressure import Capabilities, Capability

POOL = a_watching_pool(mode="Evict", sources=[KUBELET_SOURCE, PROMETHEUS_SOURCE])
OBSERVING = a_watching_pool()


@in_virtual_time
async def test_what_no_source_has_said_is_unknown_and_not_no() -> None:
    stage = a_mixed_stage()
    stage.collector.want(POOL, stage.nodes)
    async with running(stage.collector.run()):
        assert stage.known(POOL).capabilities is None
        await asyncio.sleep(FIRST_SECONDS - 1)
        assert stage.known(POOL).capabilities is None, "some sources give no samples"
        await asyncio.sleep(2)
        assert stage.known(POOL).capabilities == Capabilities(
            nodes=5,
            commit_limit=Capability(have=3, unknown=1),
            pod_commit=Capability(have=1, unknown=1),
            paging=Capability(have=3, unknown=2),
            kubelet_eviction=Capability(have=2, unknown=2),
        )


@in_virtual_time
async def test_without_an_exporter_it_is_known_that_no_node_reports_paging() -> None:
    stage = Stage(range(2))
    stage.collector.want(OBSERVING, stage.nodes)
    async with running(stage.collector.run()):
        await asyncio.sleep(130)
        found = stage.known(OBSERVING).capabilities
    assert found is not None
    assert found.paging == Capability(have=0, unknown=0)


@pytest.mark.slow
@in_virtual_time
async def test_while_kubelets_are_asked_the_counts_change_every_hour_at_most_and_once_when_all_were() -> None:
    """One a minute, after the first ones, with a pass every minute."""
    stage = Stage(range(100))
    stage.collector.want(OBSERVING, stage.nodes)
    told: list[Capabilities] = []
    changes: list[float] = []
    with patch.object(probes, "PROBE_SPACING_SECONDS", 60.0):
        async with running(stage.collector.run()):
            while stage.time < 5400:
                found = stage.known(OBSERVING).capabilities
                if found is not None and (not told or found != told[-1]):
                    told.append(found)
                    changes.append(stage.time)
                await asyncio.sleep(60)
    first, second, last = changes
    assert first <= 180.0, "as soon as each node has given a sample"
    assert RENEW_SECONDS <= second - first <= RENEW_SECONDS + 60
    assert last > second + 60
    unknown = [each.kubelet_eviction.unknown for each in told]
    assert unknown[0] > unknown[1] > unknown[2] == 0
    assert {each.nodes for each in told} == {100}


@in_virtual_time
async def test_a_source_that_the_spec_adds_is_told_of_at_once() -> None:
    stage = Stage(range(2))
    stage.collector.want(OBSERVING, stage.nodes)
    async with running(stage.collector.run()):
        await asyncio.sleep(130)
        before = stage.known(OBSERVING).capabilities
        assert before is not None
        assert before.paging == Capability(have=0, unknown=0)
        edited = a_watching_pool(sources=[KUBELET_SOURCE, PROMETHEUS_SOURCE])
        stage.collector.want(replace(edited, generation=OBSERVING.generation + 1), stage.nodes)
        after = stage.known(OBSERVING).capabilities
    assert after is not None
    assert after.paging == Capability(have=0, unknown=2)


@in_virtual_time
async def test_a_node_that_joins_or_leaves_is_told_at_once_and_a_pool_that_is_gone_leaves_nothing() -> None:
    stage = Stage(range(4))
    stage.collector.want(OBSERVING, stage.nodes[:3])
    async with running(stage.collector.run()):
        stage.known(OBSERVING)
        await asyncio.sleep(130)
        first = stage.known(OBSERVING).capabilities
        assert first is not None
        assert (first.nodes, first.kubelet_eviction) == (3, Capability(have=3, unknown=0))
        stage.collector.want(OBSERVING, stage.nodes)
        second = stage.known(OBSERVING).capabilities
        assert second is not None
        assert (second.nodes, second.kubelet_eviction) == (4, Capability(have=3, unknown=1))
        stage.collector.want(OBSERVING, [])
        assert stage.known(OBSERVING).capabilities is None
        stage.collector.want(OBSERVING, stage.nodes)
        assert stage.known(OBSERVING).capabilities is None
