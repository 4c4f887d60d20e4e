"""Has what the gates of a pool are judged by, made once for a pass, and what stops upgrades and is no gate.

The evidence of pods is one list of all pods that is recent enough, for the spec as it is. The version of the
control plane counts since when this process has seen it, or since when the status says so, so that a restart
of the operator does not begin the fifteen minutes of the gate ControlPlane again. No override opens a stop:
the mode, the request of a pause, a hold, the veto of a vendor, a spec that is not accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Hashable
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from winpool.api.crd import FieldPath
from winpool.api.crd import SLOTS
from winpool.api.keys import HOLD_ANNOTATION
from winpool.api.spec import Mode
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.status import ControlPlaneSeen
from winpool.api.text import later
from winpool.api.upgrade import Gate
from winpool.api.upgrade import PauseRequest
from winpool.api.upgrade import Upgrade
from winpool.api.upgrade import is_budget
from winpool.features.feature import AllowedActions
from winpool.features.upgrade.claims import veto_of
from winpool.features.upgrade.records import GateFinding
from winpool.features.upgrade.records import Stand
from winpool.features.upgrade.records import Stop
from winpool.features.upgrade.records import at
from winpool.features.upgrade.records import because
from winpool.features.upgrade.records import shown
from winpool.model.evidence import current_survey
from winpool.model.node import Node
from winpool.model.node import hold_end
from winpool.model.node import is_held
from winpool.model.pods import Workload
from winpool.model.snapshot import Snapshot
from winpool.model.survey import Survey
from winpool.support.rows import Layered
from winpool.support.versions import parse_minor


MAX_AGE_SECONDS: Final = 900.0
"""How old a list of all pods may be to permit an upgrade. There is one every ten minutes, which takes up to a
minute; one may fail."""

ASKS_AFTER_SECONDS: Final = 720.0
"""How old a list may become before another is asked for. By default one comes before that. Where the setting
--pod-pass-seconds makes lists rarer, no permission ends only because the last one is too old."""


@dataclass(frozen=True, slots=True)
class WorkloadEvidence:
    """What runs on nodes, as far as it is known. ``survey`` is None where nothing is."""

    survey: Survey | None = None

    def of(self, node: Node) -> Workload | None:
        """Return what runs on this very node; None where it is not known."""
        survey = self.survey
        return (survey.workloads or {}).get(node.name) if survey and survey.saw(node) else None

    def covers(self, node: Node) -> bool:
        """Whether it is about this very node, so that a newer list of pods would say no more."""
        return self.survey is not None and self.survey.saw(node)

    @property
    def expires_at(self) -> datetime | None:
        """When it becomes too old; None where there is none."""
        return later(self.survey.started, MAX_AGE_SECONDS) if self.survey else None

    @property
    def asks_at(self) -> datetime | None:
        """When a newer one is to be asked for; None where there is none."""
        return later(self.survey.started, ASKS_AFTER_SECONDS) if self.survey else None


NO_EVIDENCE: Final = WorkloadEvidence()


def evidence_of(snapshot: Snapshot) -> WorkloadEvidence:
    """Return what the last list of all pods says of the pool, if it is young enough."""
    survey = current_survey(snapshot)
    if survey is None or survey.workloads is None:
        return NO_EVIDENCE
    # One from the future is none: a clock was set back.
    is_young = survey.started <= snapshot.now < later(survey.started, MAX_AGE_SECONDS)
    return WorkloadEvidence(survey) if is_young else NO_EVIDENCE


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


def whole(moment: datetime) -> datetime:
    """Return the first whole second that is not before ``moment``."""
    return later(moment.replace(microsecond=0), 1) if moment.microsecond else moment


NOT_ACCEPTED: Final = Stop(
    "NotAccepted",
    "The operator cannot act on the spec.",
    "Correct what the condition Accepted reports.",
)
LACKS_PERMISSION: Final = Stop(
    "MissingPermission",
    "The operator lacks a permission.",
    "Grant what the condition Accepted reports.",
)
PAUSED: Final = Stop("PausedBySpec", "spec.mode is Paused.", "Set spec.mode to Active.")
DRY_RUN: Final = Stop("DryRun", "spec.mode is DryRun.", "Set spec.mode to Active.")


NO_SLOTS: Final = Stop(
    "CRDOutdated",
    "The CRD in the cluster has no status.slots, so no node can get a slot.",
    "Apply the CRD of the operator's version.",
)


def pool_stops(
    spec: WindowsNodePoolSpec,
    upgrade: Upgrade,
    allowed: AllowedActions,
    *,
    missing_permission: str,
    lacking_fields: Collection[FieldPath] = (),
) -> Iterator[Stop]:
    """Yield what keeps all nodes of the pool from being upgraded.

    ``missing_permission`` says which right the operator lacks; empty where it lacks none. ``lacking_fields``
    are those that the CRD in the cluster lacks.
    """
    if SLOTS in lacking_fields:
        yield NO_SLOTS
    if allowed is AllowedActions.FINISH:
        yield NOT_ACCEPTED
    elif missing_permission:
        yield LACKS_PERMISSION
    if spec.mode is Mode.PAUSED:
        yield PAUSED
    elif spec.mode is Mode.DRY_RUN:
        yield DRY_RUN
    for request in sorted(upgrade.pause_requests, key=lambda each: each.owner):
        yield paused_by(request)


def paused_by(request: PauseRequest) -> Stop:
    """Return that an owner requests that no upgrade begins."""
    owner = shown(request.owner)
    return Stop(
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


def node_stops(node: Node, *, now: datetime, has_begun: bool = False) -> tuple[Stop, ...]:
    """Return what keeps ``node`` from being upgraded, by what is on it: a hold, the veto of a vendor.

    ``has_begun`` says that someone has begun to upgrade it by its permission, such as that vendor itself.
    """
    return (*_hold(node, now=now), *(() if has_begun else _veto(node)))


def _hold(node: Node, *, now: datetime) -> Iterator[Stop]:
    if not is_held(node, now=now):
        return
    end = hold_end(node)
    until, wait = (f" until {at(end)}", f"Wait until {at(end)}, or remove") if end else ("", "Remove")
    said = f"Someone holds the node with the annotation {HOLD_ANNOTATION}{until}."
    yield Stop("Held", said, f"{wait} the annotation {HOLD_ANNOTATION} from the node.")


def _veto(node: Node) -> Iterator[Stop]:
    if veto := veto_of(node):
        yield Stop("Vetoed", f"The node has {veto}.", f"Wait until {veto} is removed from the node.")


class World:
    """What the gates of a pool are judged by.

    ``release`` is what nodes are brought to, as the support matrix names it. ``minor`` is that of the control
    plane, None where its version is not known. ``nodes`` are those of the pool, ``slots`` what the status has
    of them, and ``in_slots`` the names of those that have a slot. ``allowed`` is how many nodes may be
    unavailable, None where it cannot be read.
    ``budgets_forbidden`` says which right is missing to list PodDisruptionBudgets,
    ``runtime_classes_forbidden`` which one to list RuntimeClasses; empty where none is known to be.
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
        self.slots = snapshot.pool.status.slots
        self.in_slots = in_slots
        self.allowed = max_unavailable(upgrade.max_unavailable, nodes=len(nodes))
        self.budgets_forbidden = snapshot.pods.budgets_forbidden
        self.runtime_classes_forbidden = snapshot.pods.runtime_classes_forbidden
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


@dataclass(frozen=True, slots=True)
class FindingsOf:
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
