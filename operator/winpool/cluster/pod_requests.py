"""What the scheduler counts for a pod, by the rule of ``PodRequests`` (k8s.io/component-helpers/resource).

The spec alone says it: Windows pods do not support resizing in place, which would leave other amounts in the
status. https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/#limitations
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.quantity import bytes_of, milli_of
from winpool.pods.workloads import Requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.cluster.pod_work_wire import Amounts, Container, Resources

CPU: Final = "cpu"
MEMORY: Final = "memory"
_SIDECAR: Final = "Always"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pod requests. ``has_others``: also a resource that is not CPU or memory.

    ``has_host_ports``: a port of it is one of the node.
    """

    requests: Requests
    has_others: bool = False
    has_host_ports: bool = False


def asked_by(
    containers: Sequence[Container],
    inits: Sequence[Container],
    *,
    whole: Resources | None,
    overhead: Amounts | None,
) -> Asked:
    """Return what a pod with these containers requests. Raises ValueError where an amount is none.

    All containers and sidecars run at once. Before them the init containers run one after the other, each
    beside the sidecars that come before it. Requests of the pod as a whole (KEP-2837) replace that, and the
    overhead of its runtime class is added.
    """
    parts = [(each.resources and each.resources.requests) or {} for each in (*containers, *inits)]
    of_pod, more = (whole and whole.requests) or {}, overhead or {}
    return Asked(
        Requests(
            cpu_milli=_peak(containers, inits, of_pod, CPU) + _amount(more, CPU),
            memory=_peak(containers, inits, of_pod, MEMORY) + _amount(more, MEMORY),
            pods=1,
        ),
        has_others=any(map(_has_others, (*parts, of_pod, more))),
        has_host_ports=any(each.host_port for one in (*containers, *inits) for each in one.ports or ()),
    )


def _peak(containers: Sequence[Container], inits: Sequence[Container], of_pod: Amounts, resource: str) -> int:
    if resource in of_pod:
        return _amount(of_pod, resource)
    beside = first = 0
    for each in inits:
        own = _of(each, resource)
        if each.restart_policy == _SIDECAR:
            beside += own
            first = max(first, beside)
        else:
            first = max(first, beside + own)
    return max(first, beside + sum(_of(each, resource) for each in containers))


def _of(container: Container, resource: str) -> int:
    requests = container.resources and container.resources.requests
    return _amount(requests, resource) if requests else 0


def _amount(amounts: Amounts, resource: str) -> int:
    found = amounts.get(resource)
    if found is None:
        return 0
    return max(0, milli_of(found) if resource == CPU else bytes_of(found))


def _has_others(amounts: Amounts) -> bool:
    return any(bytes_of(amount) > 0 for key, amount in amounts.items() if key not in {CPU, MEMORY})
