"""Pods as JSON carries them: only the fields that the simulator reads."""

from __future__ import annotations

from typing import Any, Final

import msgspec

TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What all parts have in common: camelCase in JSON, empty fields left out."""


class PodOwner(_Part, frozen=True):
    """Who the pod belongs to; a pod has one controller at most."""

    name: str = ""
    controller: bool = False


class PodMetadata(_Part, frozen=True):
    """ObjectMeta as far as it decides what a kubelet does."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[PodOwner, ...] = ()


class Resources(_Part, frozen=True):
    """What a container asks for."""

    requests: dict[str, str] = msgspec.field(default_factory=dict)


_NO_RESOURCES: Final = Resources()


class Container(_Part, frozen=True):
    """A container; an init container that restarts Always is a sidecar."""

    name: str
    image: str = ""
    restart_policy: str = ""
    resources: Resources = _NO_RESOURCES

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


class WindowsOptions(_Part, frozen=True):
    """What is said about the processes of a pod on Windows."""

    host_process: bool = False


class SecurityContext(_Part, frozen=True):
    """As far as it concerns Windows."""

    windows_options: WindowsOptions = WindowsOptions()


class Volume(_Part, frozen=True):
    """A volume."""

    name: str = ""


class PodSpec(_Part, frozen=True):
    """What is to run, and where."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    host_network: bool = False
    os: PodOS | None = None
    readiness_gates: tuple[ReadinessGate, ...] = ()
    security_context: SecurityContext | None = None
    priority: int = 0
    restart_policy: str = "Always"
    volumes: tuple[Volume, ...] = ()

    @property
    def token_volume(self) -> str:
        """The volume with the token of its ServiceAccount; empty where there is none."""
        named = (each.name for each in self.volumes)
        return next((name for name in named if name.startswith("kube-api-access-")), "")

    @property
    def host_process(self) -> bool:
        """Whether its processes run on the host, with no sandbox around them."""
        return self.security_context is not None and self.security_context.windows_options.host_process


class PodCondition(_Part, frozen=True):
    """A condition of a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Running(_Part, frozen=True):
    """Since when a container runs."""

    started_at: str | None = None


class Waiting(_Part, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""


class State(_Part, frozen=True):
    """The state of a container, as far as it matters: whether it runs, and why it does not yet."""

    running: Running | None = None
    waiting: Waiting | None = None


class ContainerStatus(_Part, frozen=True):
    """What is known of a container."""

    name: str
    state: State = State()
    last_state: dict[str, Any] = msgspec.field(default_factory=dict)
    """As it stands: it is only written back."""
    restart_count: int = 0


class PodStatus(_Part, frozen=True):
    """What the kubelet and others have reported."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()

    @property
    def running_since(self) -> str:
        """Since when the longest running container runs; empty where none does, or none says so."""
        running = (each.state.running for each in self.container_statuses)
        return min((each.started_at for each in running if each and each.started_at), default="")


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
    def waiting(self) -> frozenset[str]:
        """Return the reasons for which containers wait, init containers too."""
        containers = (*self.status.init_container_statuses, *self.status.container_statuses)
        return frozenset(each.state.waiting.reason for each in containers if each.state.waiting)

    @property
    def called(self) -> frozenset[str]:
        """Return what one may call it by: its own name and that of its controller, as NAMESPACE/NAME."""
        meta = self.metadata
        names = [meta.name, *(owner.name for owner in meta.owner_references if owner.controller)]
        return frozenset(f"{meta.namespace}/{name}" for name in names)

    @property
    def terminal(self) -> bool:
        """Whether nothing of it runs any more, for good."""
        return self.status.phase in TERMINAL
