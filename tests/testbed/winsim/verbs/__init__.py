"""All verbs by name. What can be done to nodes is what is in here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from testbed.winsim.verbs.base import SelectingVerb, Verb
from testbed.winsim.verbs.endpoints import SetEndpointFault
from testbed.winsim.verbs.health import SetReady
from testbed.winsim.verbs.kubelets import Restart, Start, Stop
from testbed.winsim.verbs.machines import Hotpatch, Patch, Reboot, Reimage, SetUpdates
from testbed.winsim.verbs.membership import Join, Leave, Replace, Surge
from testbed.winsim.verbs.memory import LoseMemory
from testbed.winsim.verbs.pods import SetPodsReady
from testbed.winsim.verbs.ranges import AssignPodCidr

__all__ = ["VERBS", "SelectingVerb", "Verb"]

_ALL: Final = (
    Join,
    Leave,
    Replace,
    Stop,
    Start,
    Restart,
    Reboot,
    Patch,
    Reimage,
    SetReady,
    SetPodsReady,
    SetEndpointFault,
    LoseMemory,
    Hotpatch,
    SetUpdates,
    Surge,
    AssignPodCidr,
)
VERBS: Final[Mapping[str, type[Verb]]] = MappingProxyType({each.verb: each for each in _ALL})
