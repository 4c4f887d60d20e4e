"""What is known of the upgrades of a pool, without the feature that finds it out: for tests of reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import (
    NOON,
    Nodes,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    a_spec,
    by_name,
    deleted,
    unreadable,
    with_status,
)
from harness.writes import settled
from winpool.api.keys import RELEASE_FINALIZER
from winpool.api.status import Slot, SlotState
from winpool.api.upgrade import NEVER_OVERRIDDEN, Gate, Override, Trigger
from winpool.decide import Decision, decide
from winpool.features.contract.feature import contract
from winpool.features.feature import AllowedActions, Feature, Finding
from winpool.features.memory.feature import memory
from winpool.features.upgrade.records import (
    DueReason,
    GateFinding,
    NodeUpgrade,
    Stand,
    Stop,
    UpgradeOverview,
    UpgradeResult,
)
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import Members

UPGRADING: Final[Mapping[str, Any]] = {"upgrade": {}}
NAMES: Final = tuple(f"w{number}" for number in range(6))
POOL_GATES: Final = (
    Gate.SUPPORT_MATRIX,
    Gate.END_OF_SUPPORT,
    Gate.REVISION_FLOOR,
    Gate.CONTROL_PLANE,
    Gate.MAINTENANCE_WINDOW,
    Gate.POOL_HEALTH,
    Gate.BUDGET,
)
PAUSED: Final = Stop("PausedBySpec", "spec.mode is Paused.", "Set spec.mode to Active.")
DRY_RUN: Final = Stop("DryRun", "spec.mode is DryRun.", "Set spec.mode to Active.")
ASKED: Final = Stop(
    "PauseRequested",
    "sre asks for a pause: incident 4711.",
    "Remove the entry of sre from spec.upgrade.pauseRequests.",
)
HELD: Final = Stop("Held", "Someone holds the node.", "Remove the annotation winpool.dev/hold.")
UNTIL: Final = datetime(2026, 12, 1, tzinfo=UTC)


def opened(gate: Gate) -> GateFinding:
    """Return a gate that is open."""
    return GateFinding(gate, Stand.OPEN, f"Nothing closes {gate}.")


def closed(gate: Gate, message: str = "", opens: str = "") -> GateFinding:
    """Return a gate that is closed."""
    said = message or f"The check of {gate} fails."
    return GateFinding(gate, Stand.CLOSED, said, opens or f"Correct what {gate} checks.")


def overridden(gate: Gate, until: datetime = UNTIL) -> GateFinding:
    """Return a gate that would be closed."""
    return msgspec.structs.replace(closed(gate), override=an_override(gate, until))


def an_override(gate: Gate, until: datetime = UNTIL) -> Override:
    """Return an override of ``gate``."""
    return Override(gate=gate, until=until, reason="incident 4711")


def due(
    name: str,
    *gates: GateFinding,
    stops: Iterable[Stop] = (),
    triggers: Iterable[Trigger] = (Trigger.OS_REVISION,),
) -> NodeUpgrade:
    """Return a node that is due, with gates of its own."""
    return NodeUpgrade(
        a_node(name),
        due=tuple(DueReason(trigger, f"{trigger} asks for it.") for trigger in triggers),
        gates=gates,
        stops=tuple(stops),
    )


def a_slot(name: str, state: SlotState = SlotState.RESERVED) -> Slot:
    """Return the slot of a node."""
    return Slot(node=name, uid=f"uid-of-{name}", state=state, since=NOON)


def an_overview(
    *nodes: NodeUpgrade, gates: Iterable[GateFinding] = (), target: str = "2022.4052", **more: Any
) -> UpgradeOverview:
    """Return what is known where these nodes are due; gates of the pool are open, but for ``gates``.

    Each node that nothing of its own keeps has a slot, unless ``slots`` says otherwise.
    """
    given = {each.gate: each for each in gates}
    slots = tuple(a_slot(each.node.name) for each in nodes if each.is_open)
    return UpgradeOverview(
        target=target,
        gates=tuple(given.get(gate) or opened(gate) for gate in POOL_GATES),
        due=nodes,
        **{"up_to_date": len(NAMES) - len(nodes), "slots": slots, **more},
    )


ONE_DUE: Final = an_overview(due("w1"))
NOTHING_DUE: Final = an_overview()


def told(overview: UpgradeOverview | None, findings: Iterable[Finding] = ()) -> tuple[Feature, ...]:
    """Return features of which the last has found that out, for whatever pool."""
    found = UpgradeResult(overview=overview, findings=tuple(findings))

    def feature(snapshot: Snapshot, members: Members, allowed: AllowedActions) -> UpgradeResult:
        return UpgradeResult() if allowed is AllowedActions.RELEASE else found

    return (contract, memory, feature)


def six() -> Nodes:
    """Return the nodes of the pool."""
    return by_name(*map(a_node, NAMES))


def upgrading(
    *, now: datetime = NOON, more: Mapping[str, Any] | None = None, mode: str = "Active"
) -> Snapshot:
    """Return a settled pool of six nodes whose spec has ``upgrade``."""
    whole = {**UPGRADING, **(more or {})}
    pool, nodes = settled(a_pool(more=whole), six(), features=told(NOTHING_DUE))
    return a_snapshot(replace(pool, spec=a_spec(more=whole, mode=mode)), nodes, now=now)


def reported(snapshot: Snapshot, overview: UpgradeOverview | None, **more: Any) -> Snapshot:
    """Return ``snapshot`` with what its pool is to report as the status."""
    status = decide(snapshot, told(overview, **more)).status
    return replace(snapshot, pool=with_status(snapshot.pool, status))


def without_spec() -> Snapshot:
    """Return a pool that had the condition, and whose spec cannot be read any more."""
    before = reported(upgrading(), ONE_DUE)
    return replace(before, pool=unreadable(before.pool))


def released() -> Snapshot:
    """Return a pool that is being deleted."""
    pool = a_pool(more=UPGRADING, finalizers=(RELEASE_FINALIZER,))
    pool, nodes = settled(pool, six(), features=told(NOTHING_DUE))
    return a_snapshot(deleted(pool), nodes)


def of_others(owner: Pool | None) -> Snapshot:
    """Return a pool that owns none of the nodes that it selects: ``owner`` does, or no one knows who."""
    uid = owner.uid if owner else "stranger"
    nodes = [a_node(name, annotations=a_record(uid)) for name in NAMES]
    return a_snapshot(a_pool(more=UPGRADING), nodes, rivals=[owner] if owner else [])


def forbidden() -> Snapshot:
    """Return a pool whose nodes the operator may not write."""
    return replace(upgrading(), missing_permission="system:me may not patch nodes. Add the rule.")


UPGRADE_WORLDS: Final[Mapping[str, tuple[Callable[[], Snapshot], UpgradeOverview | None]]] = {
    "upgrade allowed": (upgrading, ONE_DUE),
    "nothing due": (upgrading, NOTHING_DUE),
    "unknown whether due": (upgrading, an_overview(unknown=("w2",))),
    "upgrade of no nodes": (lambda: a_snapshot(a_pool(more=UPGRADING)), NOTHING_DUE),
    "upgrade of others' nodes": (lambda: of_others(a_pool("rival")), NOTHING_DUE),
    "upgrade of nobody's nodes": (lambda: of_others(None), NOTHING_DUE),
    "upgrade of a deleted pool": (released, None),
    "upgrade by a rejected spec": (without_spec, None),
    "upgrade without a permission": (forbidden, ONE_DUE),
    "upgrade paused": (lambda: upgrading(mode="Paused"), replace(ONE_DUE, stops=(PAUSED,))),
    "upgrade in a dry run": (lambda: upgrading(mode="DryRun"), replace(ONE_DUE, stops=(DRY_RUN,))),
    "pause requested": (upgrading, replace(ONE_DUE, stops=(ASKED,))),
    "nodes gated": (upgrading, an_overview(due("w1", closed(Gate.IMAGES)), due("w2", stops=[HELD]))),
    **{f"{gate} closed": (upgrading, an_overview(due("w1"), gates=[closed(gate)])) for gate in POOL_GATES},
}
"""For each status and reason of UpgradeAllowed a pool, and what the feature has found."""


def decided(world: str) -> Decision:
    """Return the decision on one of ``UPGRADE_WORLDS``."""
    snapshot, overview = UPGRADE_WORLDS[world]
    return decide(snapshot(), told(overview))


# Any overview

_TEXTS: Final = st.sampled_from(("No window is open.", "It is so.", "Word " * 120 + "ends.", "Ünïcode ends."))
_STANDS: Final = st.sampled_from(Stand)


def _gates(of: Iterable[Gate]) -> st.SearchStrategy[tuple[GateFinding, ...]]:
    return st.tuples(
        *(
            st.builds(
                lambda gate, stand, message, opens, is_overridden: GateFinding(
                    gate,
                    stand,
                    message,
                    "" if stand is Stand.OPEN else opens,
                    an_override(gate) if is_overridden and gate not in NEVER_OVERRIDDEN else None,
                ),
                st.just(gate),
                _STANDS,
                _TEXTS,
                _TEXTS,
                st.booleans(),
            )
            for gate in of
        )
    )


_NODE_GATES: Final = tuple(gate for gate in Gate if gate not in POOL_GATES)


@st.composite
def overviews(draw: st.DrawFn) -> UpgradeOverview:
    """Return anything that the feature may find."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True).map(sorted))
    nodes = [
        due(
            name,
            *draw(_gates(_NODE_GATES)),
            stops=draw(st.sampled_from(((), (), (HELD,)))),
            triggers=draw(st.lists(st.sampled_from(Trigger), unique=True, min_size=1)),
        )
        for name in names
    ]
    unknown = draw(st.sets(st.sampled_from([name for name in NAMES if name not in names] or ["w9"])))
    return an_overview(
        *nodes,
        gates=draw(_gates(POOL_GATES)),
        target=draw(st.sampled_from(("2022.4052", "2022.4100", "x" * 80))),
        stops=draw(st.sampled_from(((), (), (PAUSED,), (ASKED, ASKED), (DRY_RUN, ASKED)))),
        unknown=tuple(sorted(unknown)),
        in_force=draw(st.sampled_from(((), (an_override(Gate.IMAGES),)))),
        expired=draw(st.sampled_from(((), (an_override(Gate.CAPACITY, NOON),)))),
    )
