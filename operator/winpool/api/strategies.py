"""Who upgrades the nodes of a pool and how, why a node is due, and what its label says of it."""

from enum import StrEnum
from typing import Final


class Strategy(StrEnum):
    """Who upgrades the nodes."""

    MANUAL = "Manual"
    ON_REQUEST = "OnRequest"
    ROLLING_UPDATE = "RollingUpdate"


class Method(StrEnum):
    """How a node is brought to its target."""

    IN_PLACE = "InPlace"
    REPLACE = "Replace"


class Trigger(StrEnum):
    """Why a node is due for an upgrade, in the order in which several are reported."""

    OS_VERSION = "OSVersion"
    OS_REVISION = "OSRevision"
    REQUEST = "Request"
    RESERVED_MEMORY = "ReservedMemory"
    KUBELET_SKEW = "KubeletSkew"


DEFAULT_TRIGGERS: Final = (Trigger.OS_VERSION, Trigger.OS_REVISION, Trigger.REQUEST)


class UpgradeState(StrEnum):
    """How far the upgrade of a node is: the value of the label ``winpool.dev/upgrade-state``.

    The states of a rollout come with it.
    """

    UP_TO_DATE = "UpToDate"
    REQUIRED = "Required"
    """The node is due, and it may be upgraded now: a permission, under the strategy Manual."""
    GATED = "Gated"
    """The node is due, and must not be upgraded now."""
