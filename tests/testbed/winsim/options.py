"""The command line of ``python -m testbed.winsim``."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

from testbed.winsim.endpoint.options import EndpointOptions, add_arguments, endpoint_options
from testbed.winsim.memory import Memory, parse_memory
from testbed.winsim.plan import Plan
from testbed.winsim.samples import SAMPLES, parse_sample
from testbed.winsim.spelling import parse_label, parse_taint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testbed.winsim.objects import Taint

# A node's name becomes its label kubernetes.io/hostname, and label values end at 63.
_LONGEST_NAME: Final = 63
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """The certificate that vouches for all nodes, and the CA of the API server that believes it."""

    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one process is to do: its nodes, the API server, and what happens around its end."""

    server: str
    front_proxy: FrontProxy | None
    kubectl_proxy: Path | None
    plan: Plan
    lease_duration_seconds: int
    status_sync_seconds: int
    pod_start_seconds: float
    pod_stop_seconds: float
    time_scale: float
    detach_seconds: float | None
    delete_on_exit: bool
    ready_file: Path | None
    control_socket: Path | None
    roster: Path | None
    endpoint: EndpointOptions | None


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; on a mistake say what is wrong and exit with 2, as argparse does."""
    parser = _parser()
    given = parser.parse_args(arguments)
    plan = Plan(
        prefix=given.prefix,
        windows=given.windows,
        linux=given.linux,
        labels=dict(given.label),
        taints=tuple(given.taint),
        samples=tuple(given.windows_sample),
        memory=tuple(given.windows_memory),
    )
    if not plan.names and given.control_socket is None:
        parser.error(
            "--windows and --linux are both 0: without --control-socket there is nothing to simulate"
        )
    longest = max(plan.names, key=len, default="")
    if len(longest) > _LONGEST_NAME:
        parser.error(f"--prefix: the node name {longest} is {len(longest)} long; at most {_LONGEST_NAME} fit")
    return Options(
        server=given.server,
        front_proxy=_front_proxy(given, parser),
        kubectl_proxy=given.kubectl_proxy,
        plan=plan,
        lease_duration_seconds=given.lease_duration_seconds,
        status_sync_seconds=given.status_sync_seconds,
        pod_start_seconds=given.pod_start_seconds,
        pod_stop_seconds=given.pod_stop_seconds,
        time_scale=given.time_scale,
        detach_seconds=given.detach_seconds,
        delete_on_exit=given.delete_on_exit,
        ready_file=given.ready_file,
        control_socket=given.control_socket,
        roster=given.roster,
        endpoint=endpoint_options(given, parser),
    )


def _front_proxy(given: argparse.Namespace, parser: argparse.ArgumentParser) -> FrontProxy | None:
    files = (given.ca, given.cert, given.key)
    if given.kubectl_proxy is not None:
        if any(files) or given.kubelet_port is not None:
            parser.error("--kubectl-proxy excludes --ca, --cert, --key and --kubelet-port")
        return None
    if not all(files):
        parser.error("the following arguments are required: --ca, --cert, --key, or else --kubectl-proxy")
    return FrontProxy(ca=given.ca, certificate=given.cert, key=given.key)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m testbed.winsim",
        description="Simulate Windows and Linux nodes on an API server until SIGTERM or Ctrl-C.",
        allow_abbrev=False,
    )
    parser.add_argument("--server", required=True, metavar="URL", help="URL of the API server")
    parser.add_argument("--ca", type=_file, metavar="FILE", help="CA of the API server")
    parser.add_argument("--cert", type=_file, metavar="FILE", help="front-proxy certificate")
    parser.add_argument("--key", type=_file, metavar="FILE", help="key of that certificate")
    parser.add_argument(
        "--kubectl-proxy",
        type=Path,
        metavar="SOCKET",
        help="in place of these: the Unix socket of a kubectl proxy, whose user impersonates the nodes "
        "(python -m testbed.guests)",
    )
    parser.add_argument("--windows", type=_count, default=12, metavar="N", help="Windows nodes (default 12)")
    parser.add_argument(
        "--windows-sample",
        type=_sample,
        action="append",
        default=[],
        metavar="NAME[@KUBELET]",
        help="real node that Windows nodes are copies of, in turn where this is repeated; KUBELET is the "
        f"version to say instead of its own; NAME is one of {', '.join(SAMPLES)}",
    )
    parser.add_argument(
        "--windows-memory",
        type=_memory,
        action="append",
        default=[],
        metavar="SIZE[/RESERVED[/EVICTION[/KUBE]]]",
        help="memory of Windows machines, what their kubelets reserve, and of this the threshold of hard "
        "eviction (or none) and kube-reserved; in turn where this is repeated, such as 32Gi/4Gi/1Gi/512Mi; "
        "any part may be missing (default 16776756Ki/2548Mi/500Mi/0Ki)",
    )
    parser.add_argument("--linux", type=_count, default=2, metavar="N", help="Linux nodes (default 2)")
    parser.add_argument(
        "--prefix",
        type=_prefix,
        default="win",
        help="node names are PREFIX-w01 ... and PREFIX-l01 ... (default win)",
    )
    parser.add_argument(
        "--label",
        type=_label,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="label that every node registers with; may be repeated",
    )
    parser.add_argument(
        "--taint",
        type=_taint,
        action="append",
        default=[],
        metavar="KEY[=VALUE]:EFFECT",
        help="taint that every node registers with; may be repeated",
    )
    parser.add_argument(
        "--delete-on-exit",
        action="store_true",
        help="delete the nodes at the end; otherwise they stay behind",
    )
    parser.add_argument(
        "--lease-duration-seconds",
        type=_seconds,
        default=40,
        metavar="N",
        help="length of the Leases, renewed at a quarter of it (default 40)",
    )
    parser.add_argument(
        "--status-sync-seconds",
        type=_seconds,
        default=10,
        metavar="N",
        help="how often a kubelet looks whether its status has changed (default 10)",
    )
    for verb, text in (("start", "to be Ready"), ("stop", "to stop, at most their grace")):
        parser.add_argument(
            f"--pod-{verb}-seconds",
            type=_time,
            default=0.3,
            metavar="N",
            help=f"how long the containers of a pod take {text} (default 0.3)",
        )
    parser.add_argument(
        "--time-scale",
        type=_factor,
        default=1.0,
        metavar="N",
        help="how many times as fast pulls of images and the pauses between them are (default 1)",
    )
    parser.add_argument(
        "--detach-seconds",
        type=_time,
        metavar="N",
        help="attach the volumes of these nodes, and detach them so long after they are to go (default: no "
        "volume is attached)",
    )
    parser.add_argument("--control-socket", type=Path, metavar="FILE", help="Unix socket for requests")
    parser.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="file that keeps the list of machines; where it exists it is gone by, not --windows and --linux",
    )
    parser.add_argument(
        "--ready-file", type=Path, metavar="FILE", help="file to write once all nodes are Ready"
    )
    add_arguments(parser)
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes (0, 1, 2 ...)")
    return int(text)


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds (1, 2, 3 ...)")
    return int(text)


def _time(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (isfinite(seconds) and seconds >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds (0, 0.5, 2 ...)")
    return seconds


def _factor(text: str) -> float:
    factor = _time(text)
    if factor == 0:
        raise argparse.ArgumentTypeError("0 is not how many times as fast something is (0.5, 1, 60 ...)")
    return factor


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} does not make node names: lowercase letters, digits and '-', no '-' at either end"
        )
    return text


def _sample(text: str) -> str:
    try:
        parse_sample(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _memory(text: str) -> Memory:
    try:
        return parse_memory(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _label(text: str) -> tuple[str, str]:
    try:
        return parse_label(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _taint(text: str) -> Taint:
    try:
        return parse_taint(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
