"""Pods as JSON carries them: only the fields that the simulator reads."""

from __future__ import annotations

from typing import Final

import msgspec

TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What all parts have in common: camelCase in JSON, empty fields left out."""


class PodMetadata(_Part, frozen=True):
    """ObjectMeta as far as it decides what a kubelet does."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class Container(_Part, frozen=True):
    """A container; an init container that restarts Always is a sidecar."""

    name: str
    image: str = ""
    restart_policy: str = ""

    @property
    def sidecar(self) -> bool:
        """Whether it runs beside the others, where it is an init container."""
        return self.restart_policy == "Always"


class PodOS(_Part, frozen=True):
    """The operating system that the pod is for."""

    name: str = ""


class ReadinessGate(_Part, frozen=True):
    """A condition, written by somebody else, without which the pod is not Ready."""

    condition_type: str = ""


class PodSpec(_Part, frozen=True):
    """What is to run, and where."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    host_network: bool = False
    os: PodOS | None = None
    readiness_gates: tuple[ReadinessGate, ...] = ()


class PodCondition(_Part, frozen=True):
    """A condition of a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Running(_Part, frozen=True):
    """Since when a container runs."""

    started_at: str | None = None


class State(_Part, frozen=True):
    """The state of a container, as far as it matters: whether it runs."""

    running: Running | None = None


class ContainerStatus(_Part, frozen=True):
    """What is known of a container."""

    name: str
    state: State = State()


class PodStatus(_Part, frozen=True):
    """What the kubelet and others have reported."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(_Part, frozen=True):
    """A Pod as read."""

    metadata: PodMetadata = PodMetadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> PodCondition | None:
        """Return the condition of that type, or None where the pod has none."""
        return next((each for each in self.status.conditions if each.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Whether the pod has that condition and it is True."""
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"

    @property
    def terminal(self) -> bool:
        """Whether nothing of it runs any more, for good."""
        return self.status.phase in TERMINAL
