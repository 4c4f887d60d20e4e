"""What a fleet tells about itself over its control socket."""

from pydantic import BaseModel, ConfigDict


class Reply(BaseModel):
    """What all replies have in common."""

    model_config = ConfigDict(frozen=True)


class Summary(Reply):
    """A fleet in numbers."""

    nodes: int
    """Machines of this fleet, whatever has become of their Nodes."""
    running: int
    """Those whose kubelet runs."""
    registered: int
    """Those with a Node on the API server."""
    ready: int
    """Those that the API server holds as Ready and whose kubelet has reported in its present life."""
    pods: int
    """Pods that are bound to its nodes."""
    kubelet_port: int | None = None
    """Where the kubelets of its Windows nodes listen, at the addresses of the nodes; None: nowhere."""
    exporter_port: int | None = None
    """The same of their windows_exporters."""


class NodeView(Reply):
    """One machine of a fleet and its Node."""

    name: str
    os: str
    address: str
    running: bool
    """Whether its kubelet runs."""
    registered: bool
    """Whether the API server has a Node of that name."""
    ready: bool
    """Whether the API server holds it as Ready and the kubelet has reported in its present life."""
    uid: str
    """Of the Node; empty where there is none."""
    generation: int
    """How many machines have had this name before."""
    reason: str
    """Why the kubelet reports Ready=False; empty where it does not."""
    pods: int
    """Pods that are bound to it."""


class Nodes(Reply):
    """All machines of a fleet, in the order in which they came."""

    items: tuple[NodeView, ...]


class Truth(Reply):
    """What has really happened to the memory of a machine (``testbed.memory.truth``); not for operators."""

    allocations_denied: int
    seconds_denied: int
    seconds_thrashing: int
    seconds_lost: float
    stall: float


class Asked(Reply):
    """What has been asked of the kubelets of a fleet since it started."""

    requests: dict[str, int]
    """By path, those too that were refused or never answered."""
    most_of_a_node: int
    """How many requests to the same node were under way at once at most."""
    connections: int
    """That were taken."""


class Outcome(Reply):
    """The nodes that a verb was for."""

    names: tuple[str, ...]


class Refusal(Reply):
    """Why a request was not served."""

    error: str
