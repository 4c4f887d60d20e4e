"""What can be chosen about one testbed."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from testbed.tokens import DEFAULT_LIFETIME_SECONDS
from testbed.winsim.endpoint.modelled import parse_page_file
from testbed.winsim.memory import parse_memory

GIBIBYTE: Final = 1 << 30


def _check_memory(text: str) -> str:
    parse_memory(text)
    return text


def _check_page_file(text: str) -> str:
    parse_page_file(text)
    return text


class Options(BaseModel):
    """Choices of one testbed, handed to its supervisor as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    windows: int = Field(default=0, ge=0)
    """Simulated Windows nodes to start with."""
    linux: int = Field(default=0, ge=0)
    """Simulated Linux nodes to start with."""
    windows_memory: tuple[Annotated[str, AfterValidator(_check_memory)], ...] = ()
    """Memory of Windows machines and what their kubelets hold back, in turn: ``32Gi/4Gi``; none: as usual.

    ``32Gi/4Gi/1Gi/512Mi`` also says how much of it is for hard eviction and for Kubernetes.
    """
    kubelet_endpoints: bool = False
    """Whether Windows nodes serve their kubelets' endpoints, and windows_exporter beside them."""
    windows_page_file: Annotated[str, AfterValidator(_check_page_file)] = "managed"
    """Page file of Windows machines that serve endpoints: ``managed``, or a fixed size such as ``8096Mi``."""
    further_pods: int = Field(default=0, ge=0)
    """Pods of each Windows node that are in the answers of its kubelet only, and use no memory."""
    kubelet_trust_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """How long kubelets remember what the API server said about a token; None: as real ones."""
    token_lifetime_seconds: float = Field(default=DEFAULT_LIFETIME_SECONDS, gt=0)
    """Lifetime of the operator's token; it is renewed at half of it."""
    lease_duration_seconds: int | None = Field(default=None, gt=0)
    """Length of a node's Lease, renewed at a quarter of it; None: by the number of nodes (``heartbeats``)."""
    node_monitor_grace_seconds: int | None = Field(default=None, gt=0)
    """After how long a silent node becomes Unknown; None: by the number of nodes (``heartbeats``)."""
    pod_start_seconds: float = Field(default=0.3, ge=0, allow_inf_nan=False)
    """How long the containers of a simulated pod take to be Ready; at 0 a pod costs one write, not two."""
    pod_stop_seconds: float = Field(default=0.3, ge=0, allow_inf_nan=False)
    """How long they take to stop, at most the pod's grace."""
    time_scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """How many times as fast pulls of images and the pauses between them are."""
    detach_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """How long volumes take to be detached from simulated nodes; None: none is attached."""
    etcd_quota_bytes: int = Field(default=4 * GIBIBYTE, gt=0)
    """Size at which etcd goes read-only; a scale run needs more than etcd's own 2 GiB."""
