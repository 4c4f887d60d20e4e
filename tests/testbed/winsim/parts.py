"""What a fleet is made of, beside its list of machines."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from testbed.winsim.kubelet import Environment
from testbed.winsim.mirror import Mirror
from testbed.winsim.pods.keeper import Keeper
from testbed.winsim.removal import Removal
from testbed.winsim.troubles import Troubles
from testbed.winsim.volumes import Attacher

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.winsim.clock import Clock
    from testbed.winsim.endpoint.server import Endpoint
    from testbed.winsim.objects import Node
    from testbed.winsim.pods.steps import PodTiming
    from testbed.winsim.schedule import Timing
    from testbed.winsim.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the parts share: the API server, the time, and how long things take.

    ``detach_seconds`` is how long volumes take to be detached; None: nobody attaches any.
    """

    wire: Wire
    clock: Clock
    timing: Timing
    pod_timing: PodTiming
    detach_seconds: float | None = None
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All of them; ``environment`` is for kubelets."""

    mirror: Mirror
    pods: Keeper
    attacher: Attacher | None
    removal: Removal
    environment: Environment


def build_parts(
    settings: Settings,
    *,
    seed: str,
    endpoint: Endpoint | None,
    on_change: Callable[[str, Node | None], None],
    is_ours: Callable[[str], bool],
    prefix: str,
) -> Parts:
    """Build the parts.

    Args:
        settings: what they share.
        seed: of everything that is random.
        endpoint: gets every change of a pod; None: there are no endpoints.
        on_change: gets every change of a Node, and None once it is gone.
        is_ours: whether a node of this name is of this fleet.
        prefix: of the names of the fleet.

    """
    wire, clock = settings.wire, settings.clock
    troubles = Troubles(clock=clock, say=settings.say)
    mirror = Mirror(wire, clock=clock, random=Random(seed), troubles=troubles, on_change=on_change)
    pods = Keeper(
        wire,
        clock=clock,
        random=Random(seed),
        troubles=troubles,
        timing=settings.pod_timing,
        seed=seed,
        on_pod=endpoint.tenants.note if endpoint is not None else None,
    )
    attacher = None
    if settings.detach_seconds is not None:
        attacher = Attacher(
            wire,
            clock=clock,
            random=Random(seed),
            troubles=troubles,
            is_ours=is_ours,
            prefix=prefix,
            detach_seconds=settings.detach_seconds,
        )
    return Parts(
        mirror=mirror,
        pods=pods,
        attacher=attacher,
        removal=Removal(wire, clock=clock, troubles=troubles),
        environment=Environment(
            wire=wire, mirror=mirror, clock=clock, timing=settings.timing, troubles=troubles
        ),
    )
