"""Nodes that are due for an upgrade, for tests of their order and of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_spec
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.upgrade import DEFAULT_TOPOLOGY_KEY, Gate, Trigger, Upgrade
from winpool.features.upgrade.records import DueReason, GateFinding, NodeUpgrade, Stand, Stop
from winpool.model.pods import NO_WORKLOAD, PodShape, Requests, Workload

DUE: Final = (DueReason(Trigger.OS_REVISION, "The revision is below the target."),)
SHAPE: Final = PodShape(Requests(100, 2**20, 1))
CLOSED: Final = GateFinding(Gate.CAPACITY, Stand.CLOSED, "They do not fit.", "Add nodes.")
HELD: Final = Stop("Held", "It is held.", "Remove the annotation.")
TWO_DAYS: Final = timedelta(days=2)


def moving(pods: int, **more: Any) -> Workload:
    """Return the workload of a node from which so many pods would move."""
    return Workload(moving=((SHAPE, pods),), **more)


def due(
    name: str,
    *,
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    age: timedelta | None = timedelta(days=1),
    workload: Workload | None = NO_WORKLOAD,
    **more: Any,
) -> NodeUpgrade:
    """Return a node that is due; nothing keeps it and nothing runs there, where nothing else is given."""
    node = a_node(name, labels={**({DEFAULT_TOPOLOGY_KEY: zone} if zone else {}), **(labels or {})})
    return NodeUpgrade(
        replace(node, created=None if age is None else NOON - age), DUE, workload=workload, **more
    )


def block(**fields: Any) -> Upgrade:
    """Return ``spec.upgrade`` with ``fields`` as in a manifest."""
    found = a_spec(more={"upgrade": fields}).upgrade
    assert found is not None
    return found


@st.composite
def due_nodes(draw: st.DrawFn) -> list[NodeUpgrade]:
    """Draw the nodes of a pool that are due."""
    return [
        due(
            f"w{number}",
            zone=draw(st.sampled_from(["", "a", "b", "c"])),
            labels=draw(st.sampled_from([{}, {}, {UPGRADE_STATE_LABEL: "Failed"}, {"tier": "test"}])),
            age=draw(st.sampled_from([None, timedelta(days=1), timedelta(days=2)])),
            workload=draw(
                st.sampled_from(
                    [None, NO_WORKLOAD, moving(1), moving(2), moving(1, blocked=1, longest_grace=90)]
                )
            ),
            gates=draw(st.sampled_from([(), (), (CLOSED,)])),
            stops=draw(st.sampled_from([(), (), (HELD,)])),
        )
        for number in range(draw(st.integers(0, 12)))
    ]
