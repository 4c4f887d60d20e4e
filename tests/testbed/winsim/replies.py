"""What a fleet tells about itself over its control socket."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Reply(BaseModel):
    """What all replies have in common."""

    model_config = ConfigDict(frozen=True)


class Summary(Reply):
    """A fleet in numbers."""

    nodes: int
    """Machines of this fleet, whatever has become of their Nodes."""
    registered: int
    """Those with a Node on the API server."""
    ready: int
    """Those that the API server holds as Ready and whose kubelet has reported in its present life."""
