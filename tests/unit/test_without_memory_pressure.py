"""A pool without ``memoryPressure`` is as it was before there was one, whatever is known of its nodes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import Nodes, a_snapshot, deleted
from harness.strategies import fleets, pools
from harness.writes import settled
from winpool.decide import decide
from winpool.model.pool import Pool
from winpool.model.pressure import Axis, AxisPressure, Guard, Hold, KnownMemory, Level, NodePressure

levels = st.none() | st.sampled_from(Level)


def axis_views(axis: Axis) -> st.SearchStrategy[AxisPressure]:
    return st.builds(
        AxisPressure,
        axis=st.just(axis),
        level=levels,
        held=st.sampled_from(Level),
        since=st.none() | st.floats(0, 1e6),
        sampled_at=st.none() | st.floats(0, 1e6),
        source=st.sampled_from(("", "Kubelet", "Prometheus/main")),
        reading=st.none(),
        seconds_left=st.none() | st.floats(0, 1e6),
        missing=st.floats(0, 1e12),
        hold=st.none() | st.sampled_from(Hold),
    )


node_views = st.builds(
    NodePressure,
    axes=st.fixed_dictionaries({axis: axis_views(axis) for axis in Axis}),
    guard=st.none() | st.sampled_from(Guard),
    is_signalled=st.sampled_from((None, True, False)),
    outside_pods=st.none() | st.floats(0, 1e12),
)


def known(data: st.DataObject, fleet: Nodes) -> KnownMemory:
    """Return what may be known of the memory of these nodes, from when the pool had the block."""
    uids = sorted(node.uid for node in fleet.values())

    def views() -> Mapping[str, NodePressure]:
        return data.draw(st.dictionaries(st.sampled_from(uids), node_views, min_size=1))

    return KnownMemory(told=views(), views=views(), problems={uids[0]: "no answer"}, read_at=1e6)


@pytest.mark.slow
@given(pools(), fleets(), st.data())
def test_what_is_known_of_memory_changes_nothing(pool: Pool, fleet: Nodes, data: st.DataObject) -> None:
    assert pool.spec is not None
    assert pool.spec.memory_pressure is None
    kept, after = settled(pool, fleet)
    for mine, nodes in ((pool, fleet), (kept, after), (deleted(kept), after)):
        snapshot = a_snapshot(mine, nodes)
        decision = decide(snapshot)
        assert decision.sampled == ()
        assert decision.status.pressured_nodes == 0
        if nodes:
            assert decide(replace(snapshot, memory=known(data, nodes))) == decision
