"""Every gate: open, closed, not known, overridden, and with an override that is over."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import NOON
from harness.every import every
from harness.gate_scenes import SCENES, GateScenes
from harness.upgrade_feature import HOUR, gates_of, overview_of, wishes
from winpool.api.text import written_moment
from winpool.api.upgrade import NEVER_OVERRIDDEN, Gate, Override
from winpool.features.upgrade.records import OPEN_WHEN_UNKNOWN, Stand
from winpool.model.snapshot import Snapshot

BY_GATE: Final = [pytest.param(each, id=each.gate) for each in SCENES]


def test_every_gate_has_its_scenes() -> None:
    assert [each.gate for each in SCENES] == list(Gate)


def others(snapshot: Snapshot, gate: Gate) -> set[str]:
    """Return the names of the other gates that do not permit the upgrade."""
    return {name for name, found in gates_of(snapshot).items() if name != gate and not found.permits}


def overridden(gate: Gate, *, hours: int) -> dict[str, Any]:
    until = written_moment(NOON + hours * HOUR)
    return {"overrides": [{"gate": gate, "until": until, "reason": "incident 4711"}]}


@every("scenes", BY_GATE)
def test_an_open_gate_permits(scenes: GateScenes) -> None:
    snapshot = scenes.open.snapshot()
    found = gates_of(snapshot)[scenes.gate]
    assert found.stand is Stand.OPEN
    assert found.message
    assert not found.opens
    assert not others(snapshot, scenes.gate)
    assert wishes(snapshot)["w1"] == "Required"


@every("scenes", BY_GATE)
def test_a_closed_gate_does_not_permit_and_says_what_opens_it(scenes: GateScenes) -> None:
    snapshot = scenes.closed.snapshot()
    found = gates_of(snapshot)[scenes.gate]
    assert found.stand is Stand.CLOSED
    assert scenes.says in found.message
    assert found.opens.endswith(".")
    assert not others(snapshot, scenes.gate)
    assert wishes(snapshot)["w1"] == "Gated"


@every("scenes", BY_GATE)
def test_unknown_permits_only_where_requests_and_images_tell_too_little(scenes: GateScenes) -> None:
    snapshot = scenes.unknown.snapshot()
    found = gates_of(snapshot)[scenes.gate]
    assert found.stand is Stand.UNKNOWN
    assert found.opens.endswith(".")
    assert not others(snapshot, scenes.gate)
    assert found.permits == (scenes.gate in OPEN_WHEN_UNKNOWN)
    assert wishes(snapshot)["w1"] == ("Required" if found.permits else "Gated")


@every("is_closed", [True, False])
@every("scenes", [each for each in BY_GATE if each.id not in NEVER_OVERRIDDEN])
def test_an_override_opens_just_its_gate(scenes: GateScenes, *, is_closed: bool) -> None:
    scene = scenes.closed if is_closed else scenes.unknown
    snapshot = scene.snapshot(**overridden(scenes.gate, hours=1))
    found = gates_of(snapshot)[scenes.gate]
    assert found.stand is (Stand.CLOSED if is_closed else Stand.UNKNOWN), (
        "it says how it stands all the while"
    )
    assert found.permits
    assert wishes(snapshot)["w1"] == "Required"
    overview = overview_of(snapshot)
    assert [each.gate for each in overview.in_force] == [scenes.gate]
    assert not overview.expired


@every("hours", [0, -1])
@every("scenes", [each for each in BY_GATE if each.id not in NEVER_OVERRIDDEN])
def test_an_override_that_is_over_opens_nothing(scenes: GateScenes, hours: int) -> None:
    snapshot = scenes.closed.snapshot(**overridden(scenes.gate, hours=hours))
    assert not gates_of(snapshot)[scenes.gate].permits
    assert wishes(snapshot)["w1"] == "Gated"
    overview = overview_of(snapshot)
    assert [each.gate for each in overview.expired] == [scenes.gate]
    assert not overview.in_force


@every("scenes", BY_GATE)
def test_an_override_of_another_gate_opens_nothing(scenes: GateScenes) -> None:
    other = Gate.IMAGES if scenes.gate is not Gate.IMAGES else Gate.CAPACITY
    snapshot = scenes.closed.snapshot(**overridden(other, hours=1))
    assert not gates_of(snapshot)[scenes.gate].permits
    assert wishes(snapshot)["w1"] == "Gated"


@pytest.mark.parametrize("scenes", [each for each in BY_GATE if each.id in NEVER_OVERRIDDEN])
def test_no_override_opens_budgets(scenes: GateScenes) -> None:
    """The API server refuses such an override; one that got through has no effect."""
    snapshot = scenes.closed.snapshot()
    spec = snapshot.pool.spec
    assert spec is not None
    assert spec.upgrade is not None
    forged = Override.model_construct(gate=scenes.gate, until=NOON + HOUR, reason="incident 4711")
    block = spec.upgrade.model_copy(update={"overrides": (forged,)})
    pool = replace(snapshot.pool, spec=spec.model_copy(update={"upgrade": block}))
    snapshot = replace(snapshot, pool=pool)
    assert not gates_of(snapshot)[scenes.gate].permits
    assert wishes(snapshot)["w1"] == "Gated"
    assert not overview_of(snapshot).in_force


@every("scenes", BY_GATE)
def test_all_gates_are_judged_where_one_is_closed(scenes: GateScenes) -> None:
    assert set(gates_of(scenes.closed.snapshot())) == set(Gate)


@every("scenes", BY_GATE)
def test_messages_neither_name_nor_count_nodes(scenes: GateScenes) -> None:
    """They are parts of issues, which stay the same while nothing but the number of nodes changes."""
    for scene in (scenes.open, scenes.closed, scenes.unknown):
        for found in gates_of(scene.snapshot()).values():
            assert "w1" not in found.message + found.opens
