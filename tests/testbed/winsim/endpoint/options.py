"""The part of the command line that is about endpoints."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from testbed.memory.hardware import SystemManagedPageFile
from testbed.winsim.endpoint.modelled import parse_page_file
from testbed.winsim.endpoint.reviews import Trust

if TYPE_CHECKING:
    from testbed.memory.hardware import PageFile

_LAST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """What is served and where. A port of 0 is any that is free."""

    ca: Path
    """The authority that signs the kubelets' certificates."""
    ca_key: Path
    port: int = 0
    exporter_port: int | None = None
    """None: there is no exporter."""
    exporter_containers: bool = True
    """Whether the exporter's container collector is on."""
    stats_from_cri: bool = False
    """Gate PodAndContainerStatsFromCRI, off by default up to 1.37 at least."""
    page_file: PageFile = field(default_factory=SystemManagedPageFile)
    """Of all Windows machines."""
    further_pods: int = 0
    """Pods of each node that are in the answers of its kubelet only (``furtherpods``)."""
    trust: Trust = field(default_factory=Trust)
    """How long kubelets remember what the API server said about a token."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Offer them."""
    group = parser.add_argument_group("endpoints of Windows nodes")
    group.add_argument(
        "--kubelet-port",
        type=_port,
        metavar="N",
        help="serve the kubelets' endpoints at this port of the nodes' addresses, and name it in the Nodes; "
        "0: any that is free (default: no listener)",
    )
    group.add_argument("--kubelet-ca", type=Path, metavar="FILE", help="CA of the kubelets' certificates")
    group.add_argument("--kubelet-ca-key", type=Path, metavar="FILE", help="key of that CA")
    group.add_argument(
        "--kubelet-trust-seconds",
        type=float,
        metavar="N",
        help="how long kubelets remember an answer about a token (default as in the kubelet: 120 for who it "
        "is, 300 for a permission, 30 for a refusal)",
    )
    group.add_argument(
        "--pod-stats-from-cri",
        action="store_true",
        help="have kubelets report the commit of pods, as with the gate PodAndContainerStatsFromCRI",
    )
    group.add_argument(
        "--further-pods",
        type=int,
        default=0,
        metavar="N",
        help="have N more pods in the answer of each kubelet, which are nowhere else and use no memory, so "
        "that it is as large as that of a node in use (default: 0)",
    )
    group.add_argument(
        "--windows-page-file",
        type=_page_file,
        default=SystemManagedPageFile(),
        metavar="SIZE",
        help="page file of Windows machines: a fixed size, such as 8096Mi, or managed: by Windows (default)",
    )
    group.add_argument(
        "--exporter-port",
        type=_port,
        metavar="N",
        help="serve windows_exporter there too, over plain HTTP; 0: any that is free (default: none)",
    )
    group.add_argument(
        "--exporter-without-containers",
        action="store_true",
        help="have the exporter's container collector off, as it is by default",
    )


def endpoint_options(given: argparse.Namespace, parser: argparse.ArgumentParser) -> EndpointOptions | None:
    """Return what was chosen; None: no endpoints. On a mistake say what is wrong and exit with 2."""
    if given.kubelet_port is None:
        if given.exporter_port is not None:
            parser.error("--exporter-port: exporters are served beside kubelets; give --kubelet-port too")
        return None
    for flag, path in (("--kubelet-ca", given.kubelet_ca), ("--kubelet-ca-key", given.kubelet_ca_key)):
        if path is None or not path.is_file():
            parser.error(f"{flag}: {'is missing' if path is None else f'there is no file {path}'}")
    seconds: float | None = given.kubelet_trust_seconds
    if seconds is not None and not seconds >= 0:
        parser.error(f"--kubelet-trust-seconds: {seconds} is not a number of seconds")
    if given.further_pods < 0:
        parser.error(f"--further-pods: {given.further_pods} is not a number of pods")
    return EndpointOptions(
        ca=given.kubelet_ca,
        ca_key=given.kubelet_ca_key,
        port=given.kubelet_port,
        exporter_port=given.exporter_port,
        exporter_containers=not given.exporter_without_containers,
        stats_from_cri=given.pod_stats_from_cri,
        page_file=given.windows_page_file,
        further_pods=given.further_pods,
        trust=Trust() if seconds is None else Trust(token=seconds, allowed=seconds, denied=seconds),
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0, 10250 ...)")
    return int(text)


def _page_file(text: str) -> PageFile:
    try:
        return parse_page_file(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; or managed") from error
