"""What holds for any pool: unknown permits nothing, a stop stops, and time passes without a word."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import pytest
from hypothesis import Phase, assume, find, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from harness.builders import NOON
from harness.gate_scenes import blocked, declares, large
from harness.upgrade_feature import (
    DAY,
    W2019,
    W2022,
    W2025,
    overview_of,
    passed,
    reserved,
    settled_node,
    upgrade_pool,
    upgrade_snapshot,
    wishes,
)
from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_REQUESTED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.spec import Mode
from winpool.api.text import written_moment
from winpool.api.upgrade import NEVER_OVERRIDDEN, Gate, Trigger, UpgradeState
from winpool.features.feature import AllowedActions
from winpool.features.upgrade.records import OPEN_WHEN_UNKNOWN, Stand, UpgradeOverview
from winpool.model.node import Node, NodeMemory, is_available
from winpool.model.pods import NO_WORKLOAD, BlockedBy, Workload
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import KEEP

NAMES: Final = tuple(f"w{place}" for place in range(6))
MINUTE: Final = timedelta(minutes=1)
MOSTLY: Final = 8
"""How often the usual comes for each time that something is wrong: many things have to be right at once."""

moments: Final = st.integers(-40, 20).map(lambda minutes: NOON + minutes * MINUTE)
maybe_moments: Final = st.one_of(st.just(NOON - DAY), st.just(NOON - DAY), st.none(), moments)
states: Final = st.sampled_from([None, "Required", "Gated", "UpToDate", "Failed", "gibberish"])

notes: Final = st.dictionaries(
    st.sampled_from([HOLD_ANNOTATION, UPGRADE_REQUESTED_ANNOTATION]),
    st.sampled_from(["", "x", written_moment(NOON + 3 * MINUTE), written_moment(NOON - MINUTE)]),
    max_size=1,
)

kernels: Final = st.sampled_from(
    [W2022, W2022, "10.0.20348.6000", W2019, W2025, "10.0.20348", "gibberish", ""]
)
kubelets: Final = st.sampled_from([*4 * ["v1.36.3"], "v1.36.0", "v1.34.0", "v1.30.0", "v1.37.0", "gibberish"])

movers: Final = [NO_WORKLOAD, large(), large(2), large(unclear="a volume")]
resting: Final = [
    NO_WORKLOAD,
    declares("10.0.17763"),
    declares("10.0.20348", is_bound=True),
    declares("gibberish"),
    Workload(undeclared=1),
    blocked(BlockedBy.NONE_ALLOWED),
    blocked(BlockedBy.SEVERAL_BUDGETS),
    blocked(BlockedBy.UNREADABLE),
    Workload(budgets_known=False),
    Workload(is_complete=False),
]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Draw a node that reports anything."""
    node = settled_node(
        name,
        kernel=draw(kernels),
        kubelet=draw(kubelets),
        state=draw(states),
        annotations=draw(notes),
        ready=draw(st.sampled_from([*MOSTLY * ["True"], "False", "Unknown"])),
        unschedulable=draw(st.integers(0, MOSTLY)) == 1,
        deleting=draw(st.integers(0, MOSTLY)) == 1,
    )
    memory = draw(st.sampled_from([node.memory, NodeMemory()]))
    return replace(node, created=draw(maybe_moments), ready_since=draw(maybe_moments), memory=memory)


def until(minutes: int) -> str:
    return written_moment(NOON + minutes * MINUTE)


able: Final = [each for each in Gate if each not in NEVER_OVERRIDDEN]
overrides: Final = st.one_of(
    st.just(dict.fromkeys(able, 600)),
    st.dictionaries(st.sampled_from(able), st.sampled_from([-5, 0, 7, 600]), max_size=3),
).map(lambda found: [{"gate": gate, "until": until(end), "reason": "x"} for gate, end in found.items()])

windows: Final = st.lists(
    st.sampled_from(
        [
            {"schedule": "0 12 * * *", "durationSeconds": 600},
            {"schedule": "*/20 * * * *", "durationSeconds": 300, "timeZone": "Asia/Kathmandu"},
            {"schedule": "0 22 * * 6", "durationSeconds": 3600, "timeZone": "Europe/Berlin"},
            {"schedule": "0 1 * * *", "durationSeconds": 3600, "timeZone": "Middle/Earth"},
        ]
    ),
    max_size=2,
    unique_by=str,
)
exclusions: Final = st.lists(
    st.sampled_from([{"start": until(-30), "end": until(2)}, {"start": until(4), "end": until(9)}]),
    max_size=2,
    unique_by=str,
)
timeless: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "method": st.sampled_from(["InPlace", "Replace"]),
    "triggers": st.lists(st.sampled_from(list(Trigger)), min_size=1, max_size=5, unique=True),
    "maxUnavailable": st.sampled_from([3, 1, 0, "100%", "0%", "10%"]),
    "maxFailedNodes": st.sampled_from([0, 3]),
    "pauseRequests": st.sampled_from([[], [], [], [{"owner": "sre"}]]),
}
timed: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "maintenanceWindows": windows,
    "maintenanceExclusions": exclusions,
    "overrides": overrides,
}


OTHER_FIELDS: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"reservedMemory": {"systemReserved": "2Gi", "kubeReserved": "0", "evictionHard": "0"}},
    {"supportMatrix": [{"osVersion": "2022", "endOfSupport": "2026-11-01"}]},
    {"supportMatrix": [{"osVersion": "2025", "verdict": "Warn", "minRevision": 4000}]},
)


class Drawn(Snapshot, frozen=True):
    """A world that shows what was drawn, and not the whole support matrix."""

    def __repr__(self) -> str:
        """Return what the properties are about."""
        spec = self.pool.spec
        assert spec is not None
        return f"{spec.model_dump(exclude_unset=True)} {self.nodes} {self.pods} {self.upgrades}"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(repr(self))


@st.composite
def worlds(draw: st.DrawFn, fields: Mapping[str, st.SearchStrategy[Any]], works: list[Workload]) -> Snapshot:
    """Draw what a pass sees of a pool with these ``fields`` of ``spec.upgrade``."""
    pool = upgrade_pool(
        draw(st.fixed_dictionaries({}, optional=dict(fields))),
        os={
            "version": draw(st.sampled_from([*4 * ["2022"], "2025", "2028"])),
            **draw(st.sampled_from([{}, {"targetRevision": 5000}])),
        },
        more=draw(st.sampled_from(OTHER_FIELDS)),
    )
    listed = [draw(nodes(name)) for name in NAMES[: draw(st.integers(0, len(NAMES)))]]
    looked = draw(st.sampled_from([*4 * [timedelta()], 10 * MINUTE, 15 * MINUTE, 16 * MINUTE, None]))
    seen = upgrade_snapshot(
        pool,
        listed,
        workloads={node.name: draw(st.sampled_from([*MOSTLY * [NO_WORKLOAD], *works])) for node in listed},
        looked=looked,
        settled=draw(st.sampled_from([*MOSTLY * [DAY], 15 * MINUTE, 14 * MINUTE, None])),
        control_plane=draw(st.sampled_from([*MOSTLY * ["v1.36.3"], "v1.38.0", "", "gibberish"])),
        pods_problem=draw(st.sampled_from(["", "timeout"])),
    )
    return Drawn(**asdict(seen))


any_world: Final = worlds({**timeless, **timed}, [*movers, *resting])


def permits_one(snapshot: Snapshot) -> bool:
    return bool(overview_of(snapshot).permitted)


def permits_some(snapshot: Snapshot) -> bool:
    overview = overview_of(snapshot)
    return 0 < len(overview.permitted) < len(overview.due)


def is_overridden(snapshot: Snapshot) -> bool:
    overview = overview_of(snapshot)
    return bool(overview.permitted) and any(each.stand is not Stand.OPEN for each in overview.gates)


@pytest.mark.slow
@pytest.mark.parametrize("happens", [permits_one, permits_some, is_overridden])
def test_the_worlds_reach_what_the_properties_are_about(happens: Callable[[Snapshot], bool]) -> None:
    """A property of permissions says nothing over worlds without one."""
    quick = hypothesis_settings(max_examples=3000, phases=[Phase.generate])
    assert happens(find(any_world, happens, settings=quick))


def is_in_work(node: Node) -> bool:
    """Whether a node has the permission, and has become unavailable since: it may keep it."""
    return node.labels.get(UPGRADE_STATE_LABEL) == "Required" and not is_available(node)


@given(any_world)
def test_unknown_never_permits(snapshot: Snapshot) -> None:
    overview = overview_of(snapshot)
    for each in overview.due:
        if each.node.name not in overview.permitted:
            assert each.state is not UpgradeState.REQUIRED or is_in_work(each.node)
            continue
        assert each.due
        for gate in (*overview.gates, *each.gates):
            is_known = gate.stand is Stand.OPEN or (
                gate.override is not None and gate.gate not in NEVER_OVERRIDDEN
            )
            assert is_known or (gate.stand is Stand.UNKNOWN and gate.gate in OPEN_WHEN_UNKNOWN)


@given(any_world)
def test_only_a_permitted_node_gets_the_permission(snapshot: Snapshot) -> None:
    """One that has it keeps it until the first list of pods after a start, or while in work."""
    overview, result = overview_of(snapshot), passed(snapshot)
    for node in snapshot.nodes:
        if wishes(snapshot)[node.name] == "Required" and node.name not in overview.permitted:
            assert node.labels[UPGRADE_STATE_LABEL] == "Required"
            assert result.awaits_pods or is_in_work(node)


@given(any_world, st.sampled_from([AllowedActions.NOTHING, AllowedActions.FINISH]))
def test_no_node_gets_a_permission_where_nothing_may_be_written(
    snapshot: Snapshot, allowed: AllowedActions
) -> None:
    for mode in (Mode.PAUSED, Mode.DRY_RUN) if allowed is AllowedActions.NOTHING else (Mode.ACTIVE,):
        spec = snapshot.pool.spec
        assert spec is not None
        stopped = replace(snapshot, pool=replace(snapshot.pool, spec=spec.model_copy(update={"mode": mode})))
        assert overview_of(stopped, allowed).permitted == ()
        for name, wish in wishes(stopped, allowed).items():
            node = next(each for each in snapshot.nodes if each.name == name)
            standing = node.labels.get(UPGRADE_STATE_LABEL, "")
            expected = "Gated" if standing == "Required" else standing
            assert wish == (expected if standing in {*UpgradeState, ""} else KEEP)


@given(any_world)
def test_the_label_has_no_other_value(snapshot: Snapshot) -> None:
    for desired in passed(snapshot).desired.values():
        assert desired.labels.keys() <= {UPGRADE_STATE_LABEL}
        assert desired.labels.get(UPGRADE_STATE_LABEL, "Gated") in {*UpgradeState, KEEP}
        assert (*desired.annotations, *desired.taints, *desired.conditions, desired.unschedulable) == (None,)


@given(any_world)
def test_each_node_is_due_unknown_or_up_to_date(snapshot: Snapshot) -> None:
    overview = overview_of(snapshot)
    names = [each.node.name for each in overview.due]
    assert names == sorted(names)
    assert list(overview.unknown) == sorted(overview.unknown)
    assert len(names) + len(overview.unknown) + overview.up_to_date == len(snapshot.nodes)
    assert not {*names} & {*overview.unknown}


@given(any_world, st.randoms(use_true_random=False))
def test_the_order_of_nodes_changes_nothing(snapshot: Snapshot, source: random.Random) -> None:
    shuffled = list(snapshot.nodes)
    source.shuffle(shuffled)
    other = replace(snapshot, nodes=tuple(shuffled))
    one, two = passed(snapshot), passed(other)
    assert one.overview == two.overview
    assert one.findings == two.findings
    assert wishes(snapshot) == wishes(other)
    assert (one.requeue_at, one.needs_all_pods) == (two.requeue_at, two.needs_all_pods)


Closing = Callable[[Snapshot], Snapshot]


def respecified(snapshot: Snapshot, **upgrade: Any) -> Snapshot:
    """Return the world with other fields of ``spec.upgrade``, as a manifest names them."""
    spec = snapshot.pool.spec
    assert spec is not None
    assert spec.upgrade is not None
    other = upgrade_pool(upgrade).spec
    assert other is not None
    assert other.upgrade is not None
    changes = {name: getattr(other.upgrade, name) for name in other.upgrade.model_fields_set}
    block = spec.upgrade.model_copy(update=changes)
    return replace(snapshot, pool=replace(snapshot.pool, spec=spec.model_copy(update={"upgrade": block})))


def with_nodes(snapshot: Snapshot, change: Callable[[Node], Node]) -> Snapshot:
    return replace(snapshot, nodes=tuple(map(change, snapshot.nodes)))


def seen_since(snapshot: Snapshot, since: datetime | None) -> Snapshot:
    return replace(snapshot, upgrades=replace(snapshot.upgrades, control_plane_since=since))


CLOSING: Final[Mapping[str, Closing]] = {
    "an unknown control plane": lambda world: replace(
        world, support=replace(world.support, control_plane="")
    ),
    "a control plane of unknown age": lambda world: seen_since(world, None),
    "a young control plane": lambda world: seen_since(world, NOON - MINUTE),
    "no budget": lambda world: respecified(world, maxUnavailable=0),
    "an exclusion": lambda world: respecified(
        world, maintenanceExclusions=[{"start": until(-1), "end": until(1)}]
    ),
    "no overrides": lambda world: respecified(world, overrides=[]),
    "a pause": lambda world: respecified(world, pauseRequests=[{"owner": "sre"}]),
    "no list of pods": lambda world: replace(world, pods=replace(world.pods, survey=None, problem="timeout")),
    "an old list of pods": lambda world: replace(
        world,
        pods=replace(
            world.pods,
            survey=world.pods.survey and dataclasses.replace(world.pods.survey, started=NOON - 16 * MINUTE),
        ),
    ),
    "restless nodes": lambda world: with_nodes(world, lambda node: replace(node, ready_since=NOON)),
    "nodes of unknown restlessness": lambda world: with_nodes(
        world, lambda node: replace(node, ready_since=None)
    ),
    "unknown kubelets": lambda world: with_nodes(
        world, lambda node: replace(node, versions=replace(node.versions, kubelet=""))
    ),
    "nodes that are not Ready": lambda world: with_nodes(world, lambda node: replace(node, ready="Unknown")),
    "cordons": lambda world: with_nodes(world, lambda node: replace(node, unschedulable=True)),
    "holds": lambda world: with_nodes(
        world, lambda node: replace(node, annotations={**node.annotations, HOLD_ANNOTATION: ""})
    ),
}
"""What takes information away, or closes something: none of it may ever permit more."""


@pytest.mark.slow
@pytest.mark.parametrize("closing", [pytest.param(each, id=name) for name, each in CLOSING.items()])
@given(world=worlds({**timeless, **timed}, resting))
def test_closing_anything_never_permits_more(closing: Closing, world: Snapshot) -> None:
    before, after = overview_of(world), overview_of(closing(world))
    assert {each.node.name for each in after.open_nodes} <= {each.node.name for each in before.open_nodes}
    assert len(after.permitted) <= len(before.permitted), "another node may have its turn instead"


@given(worlds(timeless, [*movers, *resting]), st.integers(-300, 300))
def test_only_time_between_events_counts(snapshot: Snapshot, days: int) -> None:
    """The whole world a while later is judged alike, but for the calendar: windows and the end of support."""
    spec = snapshot.pool.spec
    assert spec is not None
    assume(not spec.support_matrix)
    by = days * DAY + timedelta(seconds=days)

    def moved(moment: datetime | None) -> datetime | None:
        return moment and moment + by

    def moved_node(node: Node) -> Node:
        held = node.annotations.get(HOLD_ANNOTATION, "")
        kept = (
            {HOLD_ANNOTATION: written_moment(datetime.fromisoformat(held) + by)} if held[:4] == "2026" else {}
        )
        return replace(
            node,
            created=moved(node.created),
            ready_since=moved(node.ready_since),
            annotations={**node.annotations, **kept},
        )

    survey, known = snapshot.pods.survey, snapshot.upgrades
    later = replace(
        with_nodes(snapshot, moved_node),
        now=snapshot.now + by,
        pods=replace(
            snapshot.pods,
            survey=survey
            and dataclasses.replace(survey, started=survey.started + by, finished=survey.finished + by),
        ),
        upgrades=replace(
            known,
            control_plane_since=moved(known.control_plane_since),
        ),
    )
    assert wishes(later) == wishes(snapshot)
    assert overview_of(later).permitted == overview_of(snapshot).permitted
    one, two = passed(snapshot).requeue_at, passed(later).requeue_at
    assert (one and one + by) == two or (one and one.year > 2029)


def steady(overview: UpgradeOverview) -> UpgradeOverview:
    """Return it without when gates may change: that of a window may move on while it is open."""
    return replace(
        overview, gates=tuple(msgspec.structs.replace(each, changes_at=None) for each in overview.gates)
    )


@given(any_world, st.floats(0, 1, exclude_max=True))
def test_nothing_changes_before_it_is_checked_again(snapshot: Snapshot, part: float) -> None:
    """Time that passes writes nothing, and ``requeue_at`` misses no moment at which it does."""
    snapshot = reserved(snapshot)
    result = passed(snapshot)
    end = result.requeue_at or NOON + 3 * DAY
    assert end > NOON
    assume(end < NOON + 3650 * DAY)
    at = replace(snapshot, now=NOON + (end - NOON) * part)
    assert wishes(at) == wishes(snapshot)
    assert passed(at).findings == result.findings
    assert steady(overview_of(at)) == steady(overview_of(snapshot))
