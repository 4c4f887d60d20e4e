"""What a pod asks of a node, and what a drain does to it: a part of ``pod.Pod``, where it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from winpool.pods.workloads import PodShape

DEFAULT_GRACE_SECONDS: Final = 30
"""What the API server sets where a pod sets none."""

MOST_GRACE_SECONDS: Final = 30 * 86400
"""A longer grace counts as this one: the API server permits three hundred billion years, with which no time
can be computed."""


class Unclear(StrEnum):
    """Why it is not known which other nodes would take a pod, in the order in which it is checked.

    The text is what of the pod it is because of.
    """

    SIZE = "node labels or tolerations that are too long"
    """They are not kept: anyone who may create pods could make the operator keep a megabyte for each."""
    NODE_AFFINITY = "its node affinity"
    POD_AFFINITY = "its affinity to other pods"
    SPREAD = "its topology spread constraints"
    VOLUMES = "its volumes"
    RESOURCES = "its request of a resource that is not CPU or memory"
    CLAIMS = "its resource claims"
    HOST_PORTS = "its host ports"
    SCHEDULER = "its scheduler"


@dataclass(frozen=True, slots=True)
class PodWork:
    """What is read of a pod on a node that may be upgraded.

    ``build`` is the Windows that it declares to be made for, such as 10.0.17763, empty where it declares
    none; ``is_bound``: it can only be scheduled to nodes of that build. ``is_local``: it has an emptyDir.
    ``grace_seconds`` is its grace, at most MOST_GRACE_SECONDS.
    """

    shape: PodShape
    build: str = ""
    is_bound: bool = False
    is_local: bool = False
    grace_seconds: int = DEFAULT_GRACE_SECONDS
