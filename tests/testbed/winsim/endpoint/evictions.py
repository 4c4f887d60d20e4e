"""Kubelets that evict by themselves where little commit is left, as they do on Windows from 1.31 on.

When and whom is decided by ``testbed.memory.kubelet_eviction``; here it is done: the pod becomes Failed with
the reason Evicted, an Event says so, and the node reports MemoryPressure. No PodDisruptionBudget is asked.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from testbed.memory.kubelet_eviction import PERIOD_SECONDS, EvictionState, KubeletPod, look
from testbed.winsim.clock import timestamp
from testbed.winsim.endpoint.summary import COMMIT_CONTAINER_SINCE
from testbed.winsim.identities import node_identity
from testbed.winsim.nodestatus import binary_quantity, minor_of
from testbed.winsim.pods.events import warning
from testbed.winsim.wire import METADATA_ONLY, STRATEGIC_MERGE, ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from testbed.memory.reading import MemoryReading
    from testbed.winsim.clock import Clock
    from testbed.winsim.endpoint.looks import Looks
    from testbed.winsim.endpoint.tenants import Tenant
    from testbed.winsim.machines import Machine
    from testbed.winsim.troubles import Troubles
    from testbed.winsim.wire import Wire

# The finest step of the model, and how soon a kubelet sees that the pod it has evicted is gone.
_STEP_SECONDS: Final = 1.0
_LOOKS_AFTER_A_CHANGE: Final = 2
_CRITICAL_PRIORITY: Final = 2_000_000_000
"""``SystemCriticalPriority``; pods from it on are never evicted."""


class Evictions:
    """The eviction managers of all kubelets of a process.

    Args:
        wire: to the API server.
        clock: the time.
        looks: at the memory of machines.
        changes: counts what may have changed the memory of a machine; None: it may change at any time.
        troubles: reports what the API server refuses.

    """

    def __init__(
        self,
        wire: Wire,
        *,
        clock: Clock,
        looks: Looks,
        changes: Callable[[str], int | None],
        troubles: Troubles,
    ) -> None:
        self._wire = wire
        self._clock = clock
        self._looks = looks
        self._changes = changes
        self._seen: dict[str, tuple[int | None, int]] = {}
        self._troubles = troubles
        self._states: dict[str, EvictionState] = {}
        self._pressed: set[str] = set()

    async def run(
        self, machines: Callable[[], Iterable[Machine]], *, press: Callable[[str, bool], None]
    ) -> None:
        """Watch machines until cancelled; ``press`` gets a node and whether it is under pressure."""
        while True:
            armed = [each for each in machines() if threshold_of(each) is not None]
            # First all are looked at, then is waited: who leaves meanwhile is not looked at again.
            victims = [(machine, self._look_at(machine, press)) for machine in armed]
            for machine, victim in victims:
                if victim is not None:
                    await self._evict(machine, *victim)
            await self._clock.sleep(_STEP_SECONDS)

    def forget(self, node: str) -> None:
        """Drop the state of a kubelet: a new one starts."""
        self._states.pop(node, None)
        self._seen.pop(node, None)
        self._pressed.discard(node)

    def _look_at(
        self, machine: Machine, press: Callable[[str, bool], None]
    ) -> tuple[Tenant, MemoryReading] | None:
        """Return the pod that is to be evicted now, and why."""
        victim: tuple[Tenant, MemoryReading] | None = None
        name, now = machine.name, self._clock.monotonic()
        state = self._states.get(name)
        if state is None:
            # Drawn by the name, so that a thousand kubelets do not look in the same second.
            state = EvictionState(next_pass=now + PERIOD_SECONDS * Random(name).random())
        elif state.awaited_uid is None and now < state.next_pass:
            pass
        elif not state.memory_pressure_at(now) and self._is_as_before(name):
            state = replace(state, next_pass=now + PERIOD_SECONDS)
        else:
            at = self._looks.at(name, now)
            tenants = at.tenants
            pods = [_known(tenant) for tenant in tenants.values()]
            done = look(state, at.reading, pods=pods, threshold_bytes=threshold_of(machine))
            state = done.state
            if done.evicted is not None:
                victim = tenants[done.evicted.uid], at.reading
        self._states[name] = state
        pressed = state.memory_pressure_at(now)
        if pressed != (name in self._pressed):
            (self._pressed.add if pressed else self._pressed.discard)(name)
            press(name, pressed)
        return victim

    def _is_as_before(self, name: str) -> bool:
        """Tell whether a look would show what the last one has; a thousand looks each ten seconds are dear.

        The first look after a change may not show it yet, so there are two before one is spared.
        """
        changes = self._changes(name)
        known, looks = self._seen.get(name, (None, 0))
        looks = looks + 1 if changes == known else 1
        self._seen[name] = (changes, looks)
        return changes is not None and looks > _LOOKS_AFTER_A_CHANGE

    async def _evict(self, machine: Machine, tenant: Tenant, reading: MemoryReading) -> None:
        message = eviction_message(machine, reading)
        namespace = f"/api/v1/namespaces/{tenant.namespace}"
        identity, moment = node_identity(machine.name), timestamp(self._clock.now())
        try:
            await self._wire.request(
                "PATCH",
                f"{namespace}/pods/{tenant.name}/status",
                identity=identity,
                body=evicted(tenant, message=message, moment=moment),
                content_type=STRATEGIC_MERGE,
                accept=METADATA_ONLY,
            )
            event = eviction_event(machine, tenant, message=message, moment=moment)
            await self._wire.request("POST", f"{namespace}/events", identity=identity, body=event)
        except UnreachableError:
            return  # the next pass finds the pod as it was
        except ApiError as error:
            self._troubles.report(machine.name, "evicting a pod", error)


def threshold_of(machine: Machine) -> int | None:
    """Return the bytes of commit below which the kubelet of a machine evicts; None: it does not."""
    armed = machine.hardware.eviction_ki > 0 and minor_of(machine) >= COMMIT_CONTAINER_SINCE
    return machine.hardware.eviction_ki * 1024 if armed else None


def eviction_message(machine: Machine, reading: MemoryReading) -> str:
    """Say why, as a kubelet does (``evictionMessage`` in pkg/kubelet/eviction/helpers.go)."""
    threshold = binary_quantity(machine.hardware.eviction_ki * 1024)
    left = (reading.commit_limit_bytes - reading.commit_total_bytes) // 1024
    return f"The node was low on resource: memory. Threshold quantity: {threshold}, available: {left}Ki. "


def evicted(tenant: Tenant, *, message: str, moment: str) -> dict[str, Any]:
    """Return the patch of the status of a pod that has been evicted by its kubelet."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": message,
        "lastTransitionTime": moment,
    }
    unready = [
        {"type": kind, "status": "False", "reason": "PodFailed", "lastTransitionTime": moment}
        for kind in ("Ready", "ContainersReady")
    ]
    return {
        "metadata": {"uid": tenant.uid},
        "status": {
            "phase": "Failed",
            "reason": "Evicted",
            "message": message,
            "conditions": [condition, *unready],
        },
    }


def eviction_event(machine: Machine, tenant: Tenant, *, message: str, moment: str) -> dict[str, Any]:
    """Return the Event of an eviction."""
    return warning(
        machine,
        namespace=tenant.namespace,
        name=tenant.name,
        uid=tenant.uid,
        reason="Evicted",
        message=message,
        moment=moment,
    )


def _known(tenant: Tenant) -> KubeletPod:
    return KubeletPod(
        uid=tenant.uid,
        request_bytes=tenant.request_bytes,
        priority=tenant.priority,
        critical=tenant.static or tenant.priority >= _CRITICAL_PRIORITY,
    )
