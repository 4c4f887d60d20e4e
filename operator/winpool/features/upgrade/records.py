"""Has the records of the upgrades of a pool: reasons why nodes are due, how gates stand, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Final

import msgspec

from winpool.api.status import ControlPlaneSeen, Slot, SlotState
from winpool.api.text import printable, written_moment
from winpool.api.upgrade import Gate, Override, Trigger, UpgradeState
from winpool.features.feature import FeatureResult
from winpool.features.upgrade.capacity import Fit
from winpool.features.upgrade.claims import DRAINING, Claim, read
from winpool.features.upgrade.drain import NOTHING_TO_DRAIN, DrainProgress
from winpool.model.node import Eviction, Node
from winpool.model.node_pods import PodListRequest
from winpool.model.pods import Workload
from winpool.ownership.desired import Desired


class Stand(Enum):
    """How a gate stands."""

    OPEN = "open"
    CLOSED = "closed"
    UNKNOWN = "unknown"
    """It is not known. Unknown closes every gate but those of ``OPEN_WHEN_UNKNOWN``."""


OPEN_WHEN_UNKNOWN: Final = (Gate.CAPACITY, Gate.IMAGES)
"""These close only where a misfit is known: of most pods neither requests nor images tell enough."""


class GateFinding(msgspec.Struct, frozen=True):
    """How one gate stands, for the pool or for one node.

    ``message`` says why, in a sentence; ``opens`` what opens it, in a sentence that begins with a verb; empty
    where it is open. ``override`` is in force. At ``changes_at`` time alone may change it.
    """

    gate: Gate
    stand: Stand
    message: str
    opens: str = ""
    override: Override | None = None
    changes_at: datetime | None = None

    @property
    def permits(self) -> bool:
        """Whether it keeps no node from being upgraded."""
        if self.stand is Stand.OPEN or self.override is not None:
            return True
        return self.stand is Stand.UNKNOWN and self.gate in OPEN_WHEN_UNKNOWN


class Stop(msgspec.Struct, frozen=True):
    """What keeps nodes from being upgraded and is no gate: a pause, a hold, a spec that is not accepted.

    ``name`` is one word for programs: PausedBySpec, DryRun, PauseRequested, NotAccepted, MissingPermission,
    CRDOutdated, Held, Vetoed, OperatorNode.
    """

    name: str
    message: str
    opens: str


class DueReason(msgspec.Struct, frozen=True, gc=False):
    """One reason why a node is due, with a sentence for people."""

    trigger: Trigger
    said: str


class NodeUpgrade(msgspec.Struct, frozen=True):
    """What is known of the upgrade of one node.

    ``due`` says why it is due, ``os_version`` which release it runs, empty where unknown. ``gates`` are those
    that are judged node by node, in the order of ``Gate``; ``stops`` those of the node. ``state`` is what the
    label is to say; None where the label is to stay as it is. ``fit`` says whether its pods fit on others.
    """

    node: Node
    due: tuple[DueReason, ...] = ()
    os_version: str = ""
    gates: tuple[GateFinding, ...] = ()
    stops: tuple[Stop, ...] = ()
    workload: Workload | None = None
    state: UpgradeState | None = None
    fit: Fit | None = None

    @property
    def closed(self) -> tuple[GateFinding, ...]:
        """The gates of the node that keep it from being upgraded."""
        return tuple(each for each in self.gates if not each.permits)

    @property
    def is_open(self) -> bool:
        """Whether nothing of the node itself keeps it from being upgraded."""
        return bool(self.due) and not self.closed and not self.stops


class NodeStep(msgspec.Struct, frozen=True):
    """What a pass does about a node whose upgrade is under way or has failed.

    ``claim`` is as the patch of this pass leaves it, None where it ends. ``said`` is what it waits for, in a
    sentence, and ``drain`` how far the drain of the node is. At ``again_at`` time alone may change the step.
    From ``late_at`` on a node that soaks, and whose upgrade has not ended, is late.
    """

    node: Node
    claim: Claim | None
    desired: Desired
    state: UpgradeState | None = None
    said: str = ""
    drain: DrainProgress = NOTHING_TO_DRAIN
    look: PodListRequest | None = None
    wants_volumes: bool = False
    wants_workloads: bool = False
    again_at: datetime | None = None
    late_at: datetime | None = None


class RolloutResult(msgspec.Struct, frozen=True):
    """What a pass does about all nodes that the operator upgrades itself.

    ``steps`` are by the names of nodes, ``slots`` is what the status is to have. ``looks`` are also those of
    nodes that have a slot and no claim yet. ``said`` is why no further node gets a slot, empty where all
    have. At ``again_at`` time alone may change it.
    """

    steps: Mapping[str, NodeStep] = msgspec.field(default_factory=dict)
    slots: tuple[Slot, ...] = ()
    looks: tuple[PodListRequest, ...] = ()
    said: str = ""
    again_at: datetime | None = None

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        """The evictions of all nodes, of each in its order."""
        return tuple(each for step in self.steps.values() for each in step.drain.evictions)

    @property
    def wants_volumes(self) -> bool:
        """Whether the volumes that are attached have to be listed."""
        return any(each.wants_volumes for each in self.steps.values())

    @property
    def wants_workloads(self) -> bool:
        """Whether the controllers of pods have to be listed."""
        return any(each.wants_workloads for each in self.steps.values())

    @property
    def drains(self) -> bool:
        """Whether pods are evicted, or about to be."""
        return any(each.state in DRAINING for each in self.steps.values())

    @property
    def missing(self) -> Mapping[str, Claim]:
        """The claims of nodes that were handed over and are not in the pool now, by the nodes' names."""
        copies = ((each.node, read(each.claim)) for each in self.slots if each.node not in self.steps)
        return {name: copy for name, copy in copies if isinstance(copy, Claim)}

    @property
    def unhealthy(self) -> tuple[str, ...]:
        """The names of the nodes that are not Ready although they were, after their upgrade."""
        taken_back = (UpgradeState.VALIDATING, UpgradeState.SOAKING)
        found = (name for name, each in self.steps.items() if each.state in taken_back)
        return tuple(sorted(name for name in found if self.steps[name].node.ready != "True"))


VOLUMES: Final = "Volumes of pods that left have to detach from the node."
"""The reason of a claim whose node has no pods left, and volumes."""


def is_late(step: NodeStep, *, now: datetime) -> bool:
    """Whether a node soaks for longer than `settleTimeoutSeconds`: it, or what it lost, is not back."""
    return step.late_at is not None and step.late_at <= now


MOST_UNHEALTHY: Final = 2
"""So many nodes that are not Ready after their upgrade stop the pool: one can be bad luck.
https://github.com/bootc-dev/bootc-operator/blob/main/docs/ARCHITECTURE.md"""


NOTHING_ROLLED: Final = RolloutResult()


CAPPED: Final = "The operator's setting --max-nodes-in-work permits no more nodes at a time over all pools."
"""Why no further node gets a slot. The plugin knows the setting by this sentence alone."""


class UpgradeOverview(msgspec.Struct, frozen=True):
    """What is known of the upgrades of a pool.

    ``gates`` are those that are judged once for the pool, in the order of ``Gate``, ``stops`` what else keeps
    all nodes from being upgraded. ``due`` are the nodes that are due, by name, ``unknown`` names those of
    which it is not known, ``up_to_date`` counts the others. ``expired`` are overrides that are over,
    ``in_force`` those that hold. ``target`` is what nodes are brought to, such as "2022.4052" or "2022".
    ``slots`` and ``control_plane`` are what the status is to remember: which nodes may be upgraded at the
    same time, and the version of the control plane. ``disruptions_left`` is how many more nodes may be
    unavailable. ``rollout`` is None where the operator upgrades none. ``has_begun`` says that it has claimed
    a node for the target, ``is_capped`` that nodes wait for a slot, of which all pools have enough together.
    """

    target: str
    gates: tuple[GateFinding, ...]
    stops: tuple[Stop, ...] = ()
    due: tuple[NodeUpgrade, ...] = ()
    unknown: tuple[str, ...] = ()
    up_to_date: int = 0
    slots: tuple[Slot, ...] = ()
    in_force: tuple[Override, ...] = ()
    expired: tuple[Override, ...] = ()
    control_plane: ControlPlaneSeen | None = None
    disruptions_left: int = 0
    rollout: RolloutResult | None = None
    has_begun: bool = False
    is_capped: bool = False

    @property
    def closed(self) -> tuple[GateFinding, ...]:
        """The gates of the pool that keep all nodes from being upgraded."""
        return tuple(each for each in self.gates if not each.permits)

    @property
    def is_open(self) -> bool:
        """Whether nothing keeps the pool as a whole from being upgraded."""
        return not self.closed and not self.stops

    @property
    def permitted(self) -> tuple[str, ...]:
        """The names of the nodes whose upgrade may begin now."""
        reserved = {each.node for each in self.slots if each.state == SlotState.RESERVED}
        return tuple(each.node.name for each in self.open_nodes if each.node.name in reserved)

    @property
    def open_nodes(self) -> tuple[NodeUpgrade, ...]:
        """The nodes that nothing keeps from being upgraded, but that others may have the slots."""
        return tuple(each for each in self.due if each.is_open) if self.is_open else ()

    @property
    def in_work(self) -> tuple[Slot, ...]:
        """The slots of nodes whose upgrade has begun."""
        return tuple(each for each in self.slots if each.state in (SlotState.BEGUN, SlotState.GONE))


class UpgradeResult(FeatureResult, frozen=True):
    """What the feature wants and finds; ``overview`` is None without ``spec.upgrade``.

    ``slots`` are then those of nodes that are not done yet.
    """

    overview: UpgradeOverview | None = None
    slots: tuple[Slot, ...] = ()


NO_UPGRADES: Final = UpgradeResult(overview=None)


SHOWN_LENGTH: Final = 120
"""Characters of a text that a message shows: a sentence. An annotation may have 256 KiB."""


def shown(text: str, *, length: int = SHOWN_LENGTH) -> str:
    """Return ``text`` on one line, printable, and cut after ``length`` characters."""
    # What is written out can be ten times as long, so that the text is cut before and after.
    line = printable(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length and len(text) <= 4 * length else f"{line[:length].rstrip()}…"


def because(reason: str) -> str:
    """Return what follows a sentence without its full stop: the reason of a person, where there is one."""
    said = shown(reason).rstrip(".")
    return f": {said}." if said else "."


def at(moment: datetime) -> str:
    """Return ``moment`` as a sentence has it: UTC, to the second."""
    return written_moment(moment)
