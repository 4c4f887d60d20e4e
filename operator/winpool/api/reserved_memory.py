"""How much memory the kubelets of a pool must reserve, in the kubelet's own names.

On Windows a reservation only makes a node's Allocatable smaller, so that fewer pods are scheduled there;
nothing holds the memory free. It is a kubelet's setting, and the operator never sets it: it compares what
is declared here with what the nodes report.
https://kubernetes.io/docs/concepts/configuration/windows-resource-management/#resource-reservation
"""

from enum import StrEnum
from typing import ClassVar, Final

from pydantic import Field

from winpool.api.model import ApiModel
from winpool.api.quantity import Memory, bytes_of, exact
from winpool.api.rules import Rule, Validation

DEFAULT_SYSTEM_RESERVED: Final = "2Gi"
"""What Kubernetes' page on Windows nodes calls good practice."""

DEFAULT_KUBE_RESERVED: Final = "0"
"""As the kubelet itself. On Windows nobody tells the two apart, so one of them is enough."""

DEFAULT_EVICTION_HARD: Final = "500Mi"
"""The kubelet's own ``memory.available`` on Windows since 1.31 (kubernetes/kubernetes#122922)."""


class OnMismatch(StrEnum):
    """What becomes of a node whose kubelet reserves another amount than the pool declares."""

    REPORT = "Report"
    TAINT = "Taint"


def _is_above_zero(field: str) -> str:
    """Return the CEL for it. What is no quantity at all is the other rule's to refuse."""
    return f"!isQuantity(string(self.{field})) || quantity(string(self.{field})).isGreaterThan(quantity('0'))"


class ReservedMemory(ApiModel):
    """Memory that the kubelets of the pool must reserve, as the pool declares it."""

    system_reserved: Memory = Field(
        default_factory=lambda: DEFAULT_SYSTEM_RESERVED,
        description="The kubelet's `systemReserved.memory`, for Windows and its services. An integer of "
        "bytes or a string such as 2Gi, 2Gi if absent.",
    )
    kube_reserved: Memory = Field(
        default_factory=lambda: DEFAULT_KUBE_RESERVED,
        description="The kubelet's `kubeReserved.memory`, for the kubelet and the container runtime. An "
        "integer of bytes or a string such as 512Mi, 0 if absent.",
    )
    eviction_hard: Memory = Field(
        default_factory=lambda: DEFAULT_EVICTION_HARD,
        description="The kubelet's `evictionHard` threshold for `memory.available`, which it also subtracts "
        "from Allocatable. An integer of bytes or a string such as 500Mi, 500Mi if absent.",
    )
    on_mismatch: OnMismatch = Field(
        default=OnMismatch.REPORT,
        description="What to do if the kubelet of a node reserves another amount. Report: the operator "
        "reports an issue. Taint: it also adds a taint that keeps new pods away. A string, default Report.",
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        # None of the three is below 0, so their sum is above it where one of them is, and two of them are
        # by default.
        Rule(
            f"!has(self.systemReserved) || {_is_above_zero('systemReserved')} || "
            f"!has(self.evictionHard) || {_is_above_zero('evictionHard')} || "
            f"(has(self.kubeReserved) && ({_is_above_zero('kubeReserved')}))",
            "must have a sum of `systemReserved`, `kubeReserved` and `evictionHard` above 0; to compare "
            "nothing, remove `reservedMemory`",
            lambda self: self.declared_bytes > 0,
        ),
    )

    @property
    def declared_bytes(self) -> int:
        """What a node's Allocatable is to be below its Capacity, in bytes."""
        return sum(bytes_of(each) for each in (self.system_reserved, self.kube_reserved, self.eviction_hard))

    @property
    def told(self) -> str:
        """The sum and what it is made of, as a sentence has room for it."""
        parts = (
            f"systemReserved {self.system_reserved}",
            f"kubeReserved {self.kube_reserved}",
            f"evictionHard {self.eviction_hard}",
        )
        return f"{exact(self.declared_bytes)} ({' + '.join(parts)})"
