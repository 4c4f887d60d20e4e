"""Judges the gates of a pool by what a pass knows of it, and says what stops upgrades and is no gate.

The gates are about its target release and revision, its health, and when upgrades may begin. The evidence of
pods is one list of all pods that is recent enough, for the spec as it is. The version of the control plane
counts since when this process has seen it, or since when the status says so, so that a restart of the
operator does not begin the fifteen minutes of the gate ControlPlane again. No override opens a stop: the
mode, the request of a pause, a hold, the veto of a vendor, a spec that is not accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Final

import msgspec

from winpool.api.crd import SLOTS
from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.matrix import Verdict
from winpool.api.spec import Mode, WindowsNodePoolSpec
from winpool.api.status import ControlPlaneSeen
from winpool.api.text import later
from winpool.api.upgrade import Gate, MaintenanceExclusion, Upgrade, UpgradeState, is_budget
from winpool.features.feature import AllowedActions
from winpool.features.upgrade.claims import ENDED_BADLY, HANDED_OVER, Claim, Done, claim_of, veto_of
from winpool.features.upgrade.records import GateFinding, Stand, Stop, at, because, shown
from winpool.features.upgrade.slots import lost_nodes, whole
from winpool.features.upgrade.windows import UnusableWindowError, covers, opening, read_window
from winpool.model.node import Node, hold_end, is_available, is_held
from winpool.model.snapshot import Snapshot, current_survey
from winpool.model.survey import Survey
from winpool.support.rows import Layer, Layered
from winpool.support.servicing import class_reason, ended_reasons, revision_reasons
from winpool.support.versions import WindowsVersion, parse_minor

MAX_AGE_SECONDS: Final = 900.0
"""How old a list of all pods may be to permit an upgrade. There is one every ten minutes, which takes up to a
minute; one may fail."""

ASKS_AFTER_SECONDS: Final = 720.0
"""How old a list may become before another is asked for. By default one comes before that. Where the setting
--pod-pass-seconds makes lists rarer, no permission ends only because the last one is too old."""


def young_survey(snapshot: Snapshot) -> Survey | None:
    """Return the last list of all pods, if it has what runs on the nodes of the pool and is young enough."""
    survey = current_survey(snapshot)
    if survey is None or survey.workloads is None:
        return None
    # One from the future is none: a clock was set back.
    is_young = survey.started <= snapshot.now < later(survey.started, MAX_AGE_SECONDS)
    return survey if is_young else None


def to_remember(snapshot: Snapshot) -> ControlPlaneSeen | None:
    """Return what the status is to say of it.

    Before this process has read the version, that is what it says already.
    """
    known = snapshot.upgrades
    if known.control_plane_since is None and known.control_plane_is_first:
        return snapshot.pool.status.control_plane
    return _seen(snapshot)


def _seen(snapshot: Snapshot) -> ControlPlaneSeen | None:
    """Return the version that the API server reports, and since when; None where that is not known."""
    known, version = snapshot.upgrades, snapshot.support.control_plane
    if known.control_plane_since is None or not version:
        return None
    # The status has whole seconds; the first one that is not before it, so that nothing opens too early.
    own = ControlPlaneSeen(version=version, since=whole(known.control_plane_since))
    before = snapshot.pool.status.control_plane
    is_continued = (
        known.control_plane_is_first
        and before is not None
        and before.version == own.version
        and before.since <= own.since
    )
    return before if is_continued else own


NOT_ACCEPTED: Final = Stop(
    "NotAccepted", "The operator cannot act on the spec.", "Correct what the condition Accepted reports."
)
LACKS_PERMISSION: Final = Stop(
    "MissingPermission", "The operator lacks a permission.", "Grant what the condition Accepted reports."
)
PAUSED: Final = Stop("PausedBySpec", "spec.mode is Paused.", "Set spec.mode to Active.")
DRY_RUN: Final = Stop("DryRun", "spec.mode is DryRun.", "Set spec.mode to Active.")


NO_SLOTS: Final = Stop(
    "CRDOutdated",
    "The CRD in the cluster has no status.slots, so no node can get a slot.",
    "Apply the CRD of the operator's version.",
)


def pool_stops(
    snapshot: Snapshot, spec: WindowsNodePoolSpec, upgrade: Upgrade, allowed: AllowedActions
) -> Iterator[Stop]:
    """Yield what keeps all nodes of the pool from being upgraded."""
    if SLOTS in snapshot.lacking_fields:
        yield NO_SLOTS
    if allowed is AllowedActions.FINISH:
        yield NOT_ACCEPTED
    elif snapshot.missing_permission:
        yield LACKS_PERMISSION
    if spec.mode is Mode.PAUSED:
        yield PAUSED
    elif spec.mode is Mode.DRY_RUN:
        yield DRY_RUN
    for request in sorted(upgrade.pause_requests, key=lambda each: each.owner):
        owner = shown(request.owner)
        yield Stop(
            "PauseRequested",
            f"The owner {owner} requests in spec.upgrade.pauseRequests that no upgrade "
            f"begins{because(request.reason)}",
            f"Ask {owner} to remove that entry of spec.upgrade.pauseRequests.",
        )


OPERATOR_NODE: Final = Stop(
    "OperatorNode",
    "The operator runs on the node, and other nodes of the pool are due.",
    "Wait until no other node of the pool is due.",
)


def node_stops(node: Node, *, now: datetime, has_begun: bool = False) -> Iterator[Stop]:
    """Yield what keeps ``node`` from being upgraded, by what is on it: a hold, the veto of a vendor.

    ``has_begun`` says that someone has begun to upgrade it by its permission, such as that vendor itself.
    """
    if is_held(node, now=now):
        end = hold_end(node)
        until, wait = (f" until {at(end)}", f"Wait until {at(end)}, or remove") if end else ("", "Remove")
        said = f"Someone holds the node with the annotation {HOLD_ANNOTATION}{until}."
        yield Stop("Held", said, f"{wait} the annotation {HOLD_ANNOTATION} from the node.")
    if not has_begun and (veto := veto_of(node)):
        yield Stop("Vetoed", f"The node has {veto}.", f"Wait until {veto} is removed from the node.")


class World:
    """What the gates of a pool are judged by.

    ``release`` is what nodes are brought to, as the support matrix names it. ``minor`` is that of the control
    plane, None where its version is not known. ``nodes`` are those of the pool, and ``in_slots``
    the names of those that have a slot. ``allowed`` is how many nodes may be unavailable, None where it
    cannot be read.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        spec: WindowsNodePoolSpec,
        upgrade: Upgrade,
        *,
        layers: Layered,
        nodes: tuple[Node, ...],
        in_slots: Collection[str] = (),
    ) -> None:
        self.snapshot = snapshot
        self.spec = spec
        self.upgrade = upgrade
        self.layers = layers
        self.release = layers.matrix.judged_as(spec.os.version)
        self.control_plane = snapshot.support.control_plane
        self.minor = parse_minor(self.control_plane)
        seen = _seen(snapshot)
        self.control_plane_since = seen.since if seen else None
        self.now = snapshot.now
        self.nodes = nodes
        self.in_slots = in_slots
        self.allowed = max_unavailable(upgrade.max_unavailable, nodes=len(nodes))
        self._found: dict[Hashable, GateFinding] = {}

    def once(self, key: Hashable, judge: Callable[[], GateFinding]) -> GateFinding:
        """Return what ``judge`` finds; nodes with the same ``key`` are alike, and are judged once."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = judge()
        return found


def max_unavailable(asked: int | str, *, nodes: int) -> int | None:
    """Return how many of ``nodes`` may be unavailable; None where it cannot be read.

    A percentage rounds down and is at least one node; 0 and 0% permit none.
    """
    if not is_budget(asked):
        return None
    if isinstance(asked, int):
        return asked
    percent = int(asked.removesuffix("%"))
    return max(1, percent * nodes // 100) if percent else 0


class FindingsOf(msgspec.Struct, frozen=True):
    """Makes the findings of ``gate``."""

    gate: Gate

    def opened(self, message: str, *, changes_at: datetime | None = None) -> GateFinding:
        """Return that the gate is open."""
        return GateFinding(self.gate, Stand.OPEN, message, changes_at=changes_at)

    def closed(self, message: str, opens: str, *, changes_at: datetime | None = None) -> GateFinding:
        """Return that the gate is closed, and what opens it."""
        return GateFinding(self.gate, Stand.CLOSED, message, opens, changes_at=changes_at)

    def unknown(self, message: str, opens: str, *, changes_at: datetime | None = None) -> GateFinding:
        """Return that it is not known whether the gate is open, and what to do about that."""
        return GateFinding(self.gate, Stand.UNKNOWN, message, opens, changes_at=changes_at)


CONTROL_PLANE_UNKNOWN_FIX: Final = (
    "Check whether the API server answers /version, and read the operator's log."
)

DAY_SECONDS: Final = 86_400.0

_OTHER_RELEASE: Final = "Change spec.os.version to a release that the support matrix allows"
_ROW: Final = "a supportMatrix row"


def support_matrix(world: World) -> GateFinding:
    """Judge the target release under the minor version of the control plane, by all layers of the matrix."""
    gate = FindingsOf(Gate.SUPPORT_MATRIX)
    if world.minor is None:
        return gate.unknown(
            "The version of the control plane is not known, so the support matrix cannot be asked.",
            CONTROL_PLANE_UNKNOWN_FIX,
        )
    reason = class_reason(world.minor, world.release, layers=world.layers)
    if reason.verdict is Verdict.UNSUPPORTED:
        return gate.closed(
            reason.message, f"{_OTHER_RELEASE}, or, if your vendor supports it, allow it with {_ROW}."
        )
    if reason.verdict is Verdict.UNKNOWN:
        return gate.unknown(reason.message, f"Update winpool, or add {_ROW}.")
    return gate.opened(reason.message)


def end_of_support(world: World) -> GateFinding:
    """Judge whether the target release is still supported today, in UTC."""
    gate = FindingsOf(Gate.END_OF_SUPPORT)
    found = world.layers.end_of_support(world.release)
    if found is None:
        return gate.unknown(
            f"It is not known until when Windows Server {world.release} is supported.",
            f"Set endOfSupport for this release in {_ROW}.",
        )
    last, layer = found
    for reason in ended_reasons(world.release, last, layer=layer, today=world.now.date()):
        return gate.closed(
            reason.message,
            "Change spec.os.version to a newer release. If you have support beyond that day, set "
            f"endOfSupport in {_ROW}.",
        )
    return gate.opened(
        f"Windows Server {world.release} is supported until {last}.",
        changes_at=later(datetime.combine(last, time(), tzinfo=UTC), DAY_SECONDS),
    )


def revision_floor(world: World) -> GateFinding:
    """Judge the target revision by the highest floor of the pool and of all layers of the matrix."""
    gate = FindingsOf(Gate.REVISION_FLOOR)
    build, target = world.layers.build_of(world.release), world.spec.os.target_revision
    if build is None:
        return gate.unknown(
            f"Windows Server {world.release} is not in the support matrix, so its lowest supported revision "
            "is not known.",
            f"Correct spec.os.version, or name the build of this release in {_ROW}.",
        )
    floor = _floor(world)
    if floor is not None and target is not None and target < floor[0]:
        return gate.closed(
            f"spec.os.targetRevision is {target}, below revision {floor[0]}, the lowest that {floor[1].rows} "
            "allows.",
            f"Raise spec.os.targetRevision to {floor[0]} or a higher revision.",
        )
    if target is not None:
        # A revision that is known to break something is a warning: not every node uses that.
        bad = revision_reasons(WindowsVersion(build, target), matrix=world.layers.matrix)
        return gate.opened(next((each.message for each in bad), "No floor is above spec.os.targetRevision."))
    if floor is not None:
        return gate.opened(f"Install at least revision {floor[0]}, the lowest that {floor[1].rows} allows.")
    return gate.opened(f"No revision of Windows Server {world.release} is too low.")


def _floor(world: World) -> tuple[int, Layer] | None:
    found, own = world.layers.override(world.release).min_revision, world.spec.os.min_revision
    if own is not None and (found is None or own > found[0]):
        return own, Layer.POOL
    return found


STORM_NODES: Final = 3
"""More nodes than this must have changed Ready before it is a storm: a few do in any pool, by restarts."""

STORM_PERCENT: Final = 20
"""The same, in percent of the pool: a large pool always has some restarts."""

STORM: Final = timedelta(minutes=10)
"""Within this time they must have changed. A kubelet that restarts is Ready again in a few minutes, and the
controller manager marks the nodes of a zone that fails within one or two."""

JOINING: Final = timedelta(minutes=15)
"""A node that is younger when it changes Ready is joining the cluster, which is no trouble."""


def pool_health(world: World) -> GateFinding:
    """Judge how many nodes have failed, are blocked, or changed Ready lately."""
    gate, upgrade = FindingsOf(Gate.POOL_HEALTH), world.upgrade
    states = Counter(node.labels.get(UPGRADE_STATE_LABEL) for node in world.nodes)
    failed = sum(states[each] for each in ENDED_BADLY)
    if failed + len(lost_nodes(world.snapshot.pool.status.slots, now=world.now)) > upgrade.max_failed_nodes:
        return gate.closed(
            "The upgrade of more nodes has failed than spec.upgrade.maxFailedNodes "
            f"({upgrade.max_failed_nodes}) permits.",
            "Repair the nodes whose label winpool.dev/upgrade-state is Failed or Quarantined, bring those "
            "back that were deleted, or raise spec.upgrade.maxFailedNodes.",
        )
    if states[UpgradeState.DRAIN_BLOCKED] > upgrade.max_blocked_nodes:
        return gate.closed(
            "More nodes cannot be drained than spec.upgrade.maxBlockedNodes "
            f"({upgrade.max_blocked_nodes}) permits.",
            "Remove what blocks the nodes whose label winpool.dev/upgrade-state is DrainBlocked, or raise "
            "spec.upgrade.maxBlockedNodes.",
        )
    return _storm(world)


def _storm(world: World) -> GateFinding:
    """Judge how many nodes changed Ready lately; nodes that were joining when they did do not count."""
    gate = FindingsOf(Gate.POOL_HEALTH)
    allowed = max(STORM_NODES, STORM_PERCENT * len(world.nodes) // 100)
    recent, unclear = _changed(world.nodes, since=world.now - STORM)
    if len(recent) > allowed:
        return gate.closed(
            "Many nodes of the pool changed their condition Ready within ten minutes.",
            "Find out what makes the nodes restless. The gate opens ten minutes after most of them changed "
            "Ready.",
            changes_at=_calm_at(recent, allowed),
        )
    if len(recent) + unclear > allowed:
        return gate.unknown(
            "Of many nodes of the pool it is not known since when their condition Ready has its status.",
            "Check the kubelets of the nodes, and lastTransitionTime of their condition Ready.",
            changes_at=_calm_at(recent, allowed - unclear),
        )
    return gate.opened("Few nodes of the pool changed their condition Ready lately.")


def _calm_at(recent: Sequence[datetime], allowed: int) -> datetime | None:
    """Return when at most ``allowed`` of the changes are within ``STORM``; None where that never comes."""
    if allowed < 0:
        return None
    return later(sorted(recent)[len(recent) - allowed - 1], STORM.total_seconds())


def _changed(nodes: Iterable[Node], *, since: datetime) -> tuple[list[datetime], int]:
    """Return when nodes changed Ready after ``since``, and of how many that is not known.

    What a node does while the operator upgrades it is expected.
    """
    recent: list[datetime] = []
    unknown_nodes = 0
    for node in nodes:
        changed = node.ready_since
        if changed is None:
            unknown_nodes += 1
        elif changed > since and not _was_expected(node, changed):
            recent.append(changed)
    return recent, unknown_nodes


def _was_expected(node: Node, changed: datetime) -> bool:
    """Whether ``node`` joined, or the operator had its machine upgraded, when it ``changed`` Ready."""
    if node.created is not None and changed - node.created < JOINING:
        return True
    found = claim_of(node)
    if isinstance(found, Done):
        return changed <= found.done_at
    return isinstance(found, Claim) and found.state in HANDED_OVER | {UpgradeState.SOAKING}


def budget(world: World) -> GateFinding:
    """Judge how many nodes of the pool are unavailable: not Ready, cordoned by anyone, or being deleted.

    Nodes that have a slot do not count here: how many slots there are to have depends on them (``slots``).
    """
    gate, asked, allowed = FindingsOf(Gate.BUDGET), world.upgrade.max_unavailable, world.allowed
    if allowed is None:
        return gate.unknown(
            "spec.upgrade.maxUnavailable cannot be read.",
            'Set spec.upgrade.maxUnavailable to a number, such as 2, or to a percentage, such as "10%".',
        )
    if allowed == 0:
        return gate.closed(
            f"spec.upgrade.maxUnavailable is {asked}, which permits no upgrade.",
            "Raise spec.upgrade.maxUnavailable.",
        )
    if sum(not is_available(node) and node.name not in world.in_slots for node in world.nodes) >= allowed:
        return gate.closed(
            "As many nodes of the pool without a slot are unavailable as spec.upgrade.maxUnavailable "
            f"({asked}) permits: not Ready, cordoned, or being deleted.",
            "Wait until these nodes are Ready and schedulable again, or make them so.",
        )
    return gate.opened(f"Fewer nodes are unavailable than spec.upgrade.maxUnavailable ({asked}) permits.")


SETTLED_SECONDS: Final = 900.0
"""How long the control plane has to have its version. Its API servers are upgraded one after the other, a few
minutes each, and a kubelet must not be newer than any of them."""


def control_plane(world: World) -> GateFinding:
    """Judge whether the control plane is being upgraded itself, as far as this process has seen."""
    gate, since = FindingsOf(Gate.CONTROL_PLANE), world.control_plane_since
    if world.minor is None or since is None:
        return gate.unknown(
            "The version of the control plane is not known, or not since when it is so.",
            CONTROL_PLANE_UNKNOWN_FIX,
        )
    settles_at = later(since, SETTLED_SECONDS)
    if world.now < settles_at:
        return gate.closed(
            f"The control plane reports the version {world.control_plane[:_VERSION_LENGTH]} only since "
            f"{at(since)}, as far as the operator has seen.",
            f"Wait until {at(settles_at)}: then it is unchanged for 15 minutes.",
            changes_at=settles_at,
        )
    return gate.opened("The version of the control plane is unchanged for 15 minutes.")


_VERSION_LENGTH: Final = 63
"""Characters of the version of the control plane that are shown; vendors append to it."""


def maintenance_window(world: World) -> GateFinding:
    """Judge whether a maintenance window is open, and no exclusion closes it."""
    gate, exclusions = FindingsOf(Gate.MAINTENANCE_WINDOW), world.upgrade.maintenance_exclusions
    try:
        windows = [read_window(each) for each in world.upgrade.maintenance_windows]
    except UnusableWindowError as error:
        return gate.unknown(
            f"A maintenance window cannot be used: {error}", "Correct spec.upgrade.maintenanceWindows."
        )
    found = opening(windows, exclusions, now=world.now)
    excluded = [each for each in exclusions if covers(each, world.now)]
    if found.is_open:
        said = "A maintenance window is open." if windows else _ALWAYS
        return gate.opened(said, changes_at=found.changes_at)
    said = _excluded(excluded) if excluded else "No maintenance window is open."
    if found.changes_at is None:
        return gate.closed(said, f"Change {_FIELDS}: no window opens in the next 50 years.")
    return gate.closed(
        said, f"Wait until {at(found.changes_at)}, or change {_FIELDS}.", changes_at=found.changes_at
    )


_ALWAYS: Final = "spec.upgrade.maintenanceWindows has no entry, and no exclusion closes the pool now."
_FIELDS: Final = "spec.upgrade.maintenanceWindows and spec.upgrade.maintenanceExclusions"


def _excluded(exclusions: list[MaintenanceExclusion]) -> str:
    """Say which exclusion closes the windows: the one that ends last."""
    last = max(exclusions, key=lambda each: (each.end, each.start, each.reason))
    until = f"An entry of spec.upgrade.maintenanceExclusions permits no upgrade until {at(last.end)}"
    return f"{until}{because(last.reason)}"
