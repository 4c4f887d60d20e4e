"""The four conditions that a kubelet keeps on its node, and the health of the machine behind them.

Pure; follows the setters of the kubelet at v1.36 (``pkg/kubelet/nodestatus/setters.go``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from testbed.winsim.clock import timestamp
from testbed.winsim.objects import Condition

if TYPE_CHECKING:
    from datetime import datetime

# Says for a first moment what a kubelet says before the CNI plugin is there.
_STARTING: Final = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)


NOT_READY_REASON: Final = "KubeletNotReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the machine feels. ``not_ready`` is the message of Ready=False; empty means Ready.

    A kubelet gives one reason for everything; another one can be told to it, for tests of whoever reads it.
    """

    not_ready: str = ""
    reason: str = NOT_READY_REASON
    memory_pressure: bool = False
    disk_pressure: bool = False
    pid_pressure: bool = False


STARTING: Final = Health(not_ready=_STARTING)
HEALTHY: Final = Health()


@dataclass(frozen=True, slots=True)
class _Pressure:
    type: str
    relieved: tuple[str, str]
    pressed: tuple[str, str]


_MEMORY: Final = _Pressure(
    "MemoryPressure",
    ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
)
_DISK: Final = _Pressure(
    "DiskPressure",
    ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("KubeletHasDiskPressure", "kubelet has disk pressure"),
)
_PID: Final = _Pressure(
    "PIDPressure",
    ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
)


def conditions(seen: tuple[Condition, ...], *, health: Health, now: datetime) -> tuple[Condition, ...]:
    """Renew the kubelet's four conditions within the list that stands on the node.

    A pressure whose status is right keeps its reason and message, whoever wrote them; Ready is
    written anew but keeps its transition time while the status holds. Others' conditions stay
    where they are; missing ones are appended, Ready last.
    """
    moment = timestamp(now)
    fresh = {
        pressure.type: _pressure(pressure, _find(seen, pressure.type), pressed=pressed, moment=moment)
        for pressure, pressed in (
            (_MEMORY, health.memory_pressure),
            (_DISK, health.disk_pressure),
            (_PID, health.pid_pressure),
        )
    }
    fresh["Ready"] = _ready(_find(seen, "Ready"), health=health, moment=moment)
    kept = tuple(fresh.pop(each.type, each) for each in seen)
    return kept + tuple(fresh.values())


def _find(seen: tuple[Condition, ...], kind: str) -> Condition | None:
    return next((each for each in seen if each.type == kind), None)


def _pressure(pressure: _Pressure, seen: Condition | None, *, pressed: bool, moment: str) -> Condition:
    status = "True" if pressed else "False"
    if seen is not None and seen.status == status:
        return replace(seen, last_heartbeat_time=moment)
    reason, message = pressure.pressed if pressed else pressure.relieved
    return Condition(pressure.type, status, moment, moment, reason, message)


def _ready(seen: Condition | None, *, health: Health, moment: str) -> Condition:
    if health.not_ready:
        status, reason, message = "False", health.reason, health.not_ready
    else:
        status, reason, message = "True", "KubeletReady", "kubelet is posting ready status"
    steady = seen is not None and seen.status == status
    since = seen.last_transition_time if seen is not None and steady else moment
    return Condition("Ready", status, moment, since, reason, message)
