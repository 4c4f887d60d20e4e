"""Checks whether pods run on a Windows version or on the nodes of a pool: ``kubectl winpool check``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final, TypeAlias

from winpool.api.keys import WINDOWS_BUILD_ANNOTATION
from winpool.api.matrix import Verdict
from winpool.api.text import grouped, printable
from winpool.cli.counts import listed
from winpool.cli.lenient import Fields
from winpool.cli.manifests import Manifest, read
from winpool.cli.parsing import Exit, RefusedError, UsageError, add_filename, note, note_offline, pool_name
from winpool.cli.workloads import (
    Host,
    Workload,
    judged,
    node_selectors,
    version_named,
    workload_of,
)
from winpool.support.compat import Isolation
from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from winpool.features.audit.workloads import NodeSelectors

    Hosts: TypeAlias = Mapping[Host, Sequence[str]]

SUMMARY: Final = "Check whether pods can run on a Windows version or on a pool."

DESCRIPTION: Final = f"""\
Check whether pods can run on a Windows version or on the nodes of a pool, by
Microsoft's rules for container images and hosts.

The Windows version of an image is the first of these that is given:
  1. --image-build
  2. the annotation {WINDOWS_BUILD_ANNOTATION} of the pod
  3. the build in the node selector of the pod or of its RuntimeClass, or in the
     required node affinity of the pod
  4. the tag of the image; a tag can be wrong, so it only causes a warning

RuntimeClasses are read from the files, and with --pool also from the cluster.
It contacts no registry, and with --host-build no cluster."""

EXITS: Final = {
    Exit.YES: "every pod can run, or it is unknown whether it can",
    Exit.UNKNOWN: "a pod cannot run, a document or the API server cannot be read, or there is no pod",
    Exit.USAGE: "the command line is wrong, or a file cannot be opened",
}

EXAMPLES: Final = (
    (
        "kubectl winpool check -f deployment.yaml --host-build 10.0.26100",
        "before you add nodes with this version",
    ),
    (
        "kubectl winpool check -f deployment.yaml --host-build 2022 --host-build 2025",
        "on two Windows versions",
    ),
    ("kubectl winpool check -f deployment.yaml --pool win-2022", "on the current nodes of a pool"),
    (
        "kubectl winpool check -f app.yaml --host-build 2025 --image-build ltsc2022",
        "with the Windows version of the images",
    ),
)

_ISOLATIONS: Final[Mapping[str, Isolation]] = {"process": Isolation.PROCESS, "hyperv": Isolation.HYPER_V}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    add_filename(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--host-build",
        type=_version,
        metavar="BUILD",
        action="append",
        help="Check against hosts with this Windows version: 10.0.20348.1607, 20348 or 2022. Can be "
        "repeated.",
    )
    where.add_argument(
        "--pool", type=pool_name, metavar="POOL", help="Check against the nodes of this pool in the cluster."
    )
    parser.add_argument(
        "--image-build", type=_version, metavar="BUILD", help="Use this Windows version for all images."
    )
    parser.add_argument(
        "--runtime",
        metavar="RUNTIME",
        default="",
        help="With --host-build, use this runtime of the hosts, such as containerd://1.7.24.",
    )
    parser.add_argument(
        "--isolation",
        choices=tuple(_ISOLATIONS),
        default="process",
        help="Use this isolation mode of containers. Default: process.",
    )


def run(given: argparse.Namespace) -> int:
    """Check the pods; return the exit code."""
    if given.pool is None:
        note_offline(given, why="without --pool no cluster is contacted")
    elif given.runtime:
        raise UsageError("--runtime needs --host-build: the nodes of a pool report their runtime")
    found = read(given.filename, recursive=given.recursive)
    hosts: Hosts = {Host(each, given.runtime): [] for each in given.host_build or ()}
    return _check(found, hosts if given.pool is None else _of_pool(given), given)


def _version(text: str) -> str:
    found = version_named(text, matrix=built_in())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a Windows version: write it as 10.0.20348, 20348 or 2022"
        )
    return found


def _of_pool(given: argparse.Namespace) -> Hosts:
    # Imported here: what asks a server takes half a second to load, and with a build it is not needed.
    from winpool.cli.reader import read_members

    found = read_members(given.pool, given.flags)
    for each in found.unread:
        note(f"skipped: {each}")
    if not found.nodes:
        raise RefusedError(f"the pool {given.pool} selects no Windows node that can be read")
    return grouped((Host(each.versions.kernel, each.versions.runtime), each.name) for each in found.nodes)


def _selectors(found: Sequence[Manifest], given: argparse.Namespace) -> NodeSelectors:
    """Return the node selectors of RuntimeClasses: of those in the files, and of others in the cluster."""
    of_files = node_selectors(Fields.of(each.content) for each in found if _is_runtime_class(each))
    pods = [workload for each in found if (workload := workload_of(each.content, {}))]
    named = {each.runtime_class for each in pods if not each.is_linux}
    if given.pool is None or not named - {"", *of_files}:
        return of_files
    from winpool.cli.kubectl import NotAskedError
    from winpool.cli.reader import read_runtime_classes

    try:
        return {**node_selectors(read_runtime_classes(given.flags)), **of_files}
    except NotAskedError as error:
        note(f"RuntimeClasses are not read from the cluster: {error}")
        return of_files


def _is_runtime_class(manifest: Manifest) -> bool:
    return Fields.of(manifest.content).text("kind") == "RuntimeClass"


def _check(found: Sequence[Manifest], hosts: Hosts, given: argparse.Namespace) -> int:
    pods = refused = 0
    selectors = _selectors(found, given)
    for each in found:
        workload, where = workload_of(each.content, selectors), f"{each.file}:{each.line}: "
        makes_no_pods = each.content is not None and not _is_runtime_class(each)
        if makes_no_pods and (workload is None or workload.is_linux):
            what = "it is for Linux" if workload else "it creates no pods"
            note(f"{where}{workload.title if workload else 'an object'}: skipped, {what}")
            continue
        title = f"{workload.title}: " if workload else ""
        for line, fault in each.faults:
            _say(f"{each.file}:{line}: {title}{fault}")
        refused += len(each.faults)
        if workload:
            if workload.runtime_class not in ("", *selectors):
                place = "these files" if given.pool is None else "these files or the cluster"
                what = f"the RuntimeClass {workload.runtime_class} is not in {place}"
                note(f"{where}{title}{what}, so it is unknown which nodes it selects")
            pods += 1
            refused += _workload(where, workload, hosts, given)
    if not pods:
        _say("no pods for Windows found")
        return Exit.UNKNOWN
    return Exit.UNKNOWN if refused else Exit.YES


def _workload(where: str, workload: Workload, hosts: Hosts, given: argparse.Namespace) -> int:
    """Print a line for each container and kind of host; return how many pods do not run: 0 or 1."""
    if workload.refusal:
        _say(f"{where}{workload.title}: {workload.refusal}")
        return 1
    fails, builds, asked = False, workload.asks_for, " or ".join(workload.asks_for)
    reached = [host for host in hosts if not builds or not host.build_text or host.build_text in builds]
    declared = (given.image_build, "--image-build") if given.image_build else workload.declared
    for container in workload.containers:
        for host, nodes in hosts.items():
            verdict, told = judged(container, declared, host, _ISOLATIONS[given.isolation])
            away = "" if host in reached else f" The pod is not scheduled there: it selects {asked}."
            fails = fails or (verdict is Verdict.UNSUPPORTED and not away)
            name = host.kernel_version
            if nodes:
                name = f"{name or 'an unknown Windows version'} ({listed(nodes)})"
            _say(f"{where}{workload.title}, container {container.name} on {name}: {verdict}: {told}{away}")
    if not reached:
        _say(f"{where}{workload.title}: selects {asked}, and none of these hosts has it")
    return int(fails or not reached)


def _say(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
