"""Which nodes of a pool are upgraded first, and how long they are watched before others follow."""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.model import ApiModel
from winpool.api.rules import Rule, Validation
from winpool.api.selector import NodeSelector

MAX_CANARIES: Final = 5000
"""The largest cluster that Kubernetes is tested with.
https://kubernetes.io/docs/setup/best-practices/cluster-large/"""


class Canary(ApiModel):
    """The nodes that are upgraded before all others."""

    nodes: Annotated[int, Field(strict=True, ge=1, le=MAX_CANARIES)] | None = Field(
        default=None,
        description="How many nodes are upgraded before the others. Either this or `nodeSelector`. An "
        "integer.",
    )
    node_selector: NodeSelector | None = Field(
        default=None,
        description="Which nodes of the pool are upgraded before the others. Either this or `nodes`.",
    )
    soak_seconds: Annotated[int, Field(strict=True, ge=0, le=604800)] = Field(
        default_factory=lambda: 900,
        description="How long these nodes must be healthy before others follow. Until the operator upgrades "
        "nodes itself, only the plan uses it. Seconds, an integer, 900 if absent.",
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "has(self.nodes) != has(self.nodeSelector)",
            "must have either `nodes` or `nodeSelector`; for no canary, remove `canary`",
            lambda self: (self.nodes is None) != (self.node_selector is None),
        ),
    )
