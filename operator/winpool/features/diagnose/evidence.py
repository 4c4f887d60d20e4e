"""Keeps what was read about a node, and what is not known of it and why.

Texts of conditions, containers and events are from kubelets and runtimes: they may be of any length and have
any letters. They are kept as they are, for the rules to search; ``quoted`` makes what people see of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from winpool.api.text import printable

TEXT_READ: Final = 4096
"""Characters of a message that are kept and searched."""

_BEFORE, _QUOTED, _WORD = 80, 200, 60
"""Characters of a quote: before what a rule has found, in all, and of one word."""

_CUT: Final = "…"

_CRASHED: Final = "CrashLoopBackOff"
_CREATING: Final = ("ContainerCreating", "PodInitializing")
_SCHEDULING: Final = "FailedScheduling"


class Source(StrEnum):
    """What rules read. The text is how people know it."""

    NODES = "nodes"
    PODS = "pods"
    EVENTS = "events"
    DAEMON_SETS = "DaemonSets"
    FLANNEL = "the ConfigMap of flannel"
    DNS = "the Service of the DNS"
    CONFIGZ = "/configz"
    LOGS = "logs"


OF_KUBELET: Final = (Source.CONFIGZ, Source.LOGS)
"""What only those can read who may run commands on nodes. Without it a diagnosis is whole."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node; ``ready`` is the status of its condition Ready, empty without one.

    ``build`` is None where kernelVersion has none. ``images`` are the names of each pause image, of the 50
    images that a node lists at most. ``backend`` and ``backend_data`` are what flannel has written into
    annotations. ``pool`` is a label that nodes have in common that get their addresses alike. ``is_new`` says
    that it joined a few minutes ago. ``upgrade`` is the label winpool.dev/upgrade-state, ``is_held`` whether
    someone holds the node.
    """

    name: str
    ready: str = ""
    reason: str = ""
    message: str = ""
    build: int | None = None
    runtime: str = ""
    images: tuple[tuple[str, ...], ...] = ()
    pod_cidrs: tuple[str, ...] = ()
    max_pods: int | None = None
    backend: str = ""
    backend_data: str = ""
    pool: str = ""
    is_new: bool = False
    upgrade: str = ""
    is_held: bool = False


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod. ``name`` has its namespace; ``os`` is that for which it is, as far as it says it.

    ``waits`` are the reasons for which its containers wait, ``messages`` what is said of those that do not
    run. ``is_up`` says that a container runs, ``is_late`` that the pod was created minutes ago.
    """

    name: str
    node: str = ""
    uid: str = ""
    os: str = ""
    daemon_set: str = ""
    waits: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    has_host_network: bool = False
    is_ready: bool = False
    is_up: bool = False
    is_late: bool = False
    runs_as_user: bool = False


class Event(NamedTuple):
    """The latest warning of a reason about a pod; about the node itself, ``pod`` is empty."""

    reason: str
    message: str
    pod: str = ""


class Flannel(NamedTuple):
    """The backend of flannel; None is not known, and ``by`` says where it is from.

    An annotation has no more than its type and its VNI, and so no ``is_whole``.
    """

    type: str
    vni: int | None
    by: str
    is_whole: bool = False
    port: int | None = None
    has_direct_routing: bool = False
    has_gbp: bool = False


class Agent(NamedTuple):
    """A DaemonSet of a CNI that has a pod on the node, or has to have one."""

    name: str
    pod: Pod | None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was read about one node. ``unknown`` are the sources that were not read whole, and why.

    ``name`` is empty for pods without a node. ``node`` is None where nodes cannot be read. ``uses_flannel``
    says that the cluster runs flannel; None: not known. ``twins`` are the nodes that have the same podCIDR,
    ``peers`` counts those of its pool that have any. ``dns`` are the addresses of the Service of the DNS, and
    ``cluster_dns`` those that the kubelet gives to pods. ``log`` counts lines of the logs of the node by the
    cause that they show.
    """

    name: str
    node: Node | None = None
    pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()
    agents: tuple[Agent, ...] = ()
    uses_flannel: bool | None = None
    flannel: Flannel | None = None
    twins: tuple[str, ...] = ()
    peers: int = 0
    dns: tuple[str, ...] = ()
    cluster_dns: tuple[str, ...] | None = None
    log: Mapping[str, int] = msgspec.field(default_factory=dict)
    unknown: Mapping[Source, str] = msgspec.field(default_factory=dict)

    def stuck(self) -> Iterator[tuple[Pod, str]]:
        """Yield the pods that the node has not started, and the reason for which each waits.

        To create containers takes a while: a pod is stuck that takes minutes, or that has warnings. A
        container that runs and ends is no matter of the node.
        """
        warned = {each.pod for each in self.events if each.reason != _SCHEDULING}
        for pod in self.pods:
            is_slow = pod.name in warned or (pod.is_late and not pod.is_up)
            reasons = [each for each in pod.waits if each and (is_slow or each not in _CREATING)]
            if reasons and _CRASHED not in pod.waits:
                yield pod, reasons[0]


class Found(NamedTuple):
    """What a rule found on a node.

    ``quote`` is what ``by`` says, empty where a field and no message is the evidence. ``more`` is what this
    node adds to the words of the rule, ``fix`` replaces its fix. ``is_mild`` makes an Error a Warning.
    """

    by: str
    quote: str = ""
    more: str = ""
    fix: str = ""
    pods: tuple[str, ...] = ()
    is_mild: bool = False


def quoted(text: str, found: re.Match[str] | None = None) -> str:
    """Return ``text`` on one line, short and printable; the part of it with ``found``."""
    begin = max(0, found.start() - _BEFORE) if found else 0
    part = text[begin : begin + 2 * _QUOTED]
    if begin:  # not from the middle of a word
        part = f"{_CUT} {part.partition(' ')[2] or part}"
    words = [printable(each) for each in part.split()]
    line = " ".join(each if len(each) <= _WORD else f"{each[:_WORD]}{_CUT}" for each in words)
    if len(line) > _QUOTED:
        line = line[:_QUOTED].rpartition(" ")[0] + f" {_CUT}"
    elif begin + 2 * _QUOTED < len(text):
        line = f"{line} {_CUT}"
    return line
