"""``kubectl winpool check``: whether pods run on hosts of some Windows, or on the nodes of a pool."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from winpool.api.text import printable
from winpool.api.verdicts import Verdict
from winpool.cli.files import UnreadableError, texts
from winpool.cli.hosts import Host, version_named
from winpool.cli.image_check import Question, judged
from winpool.cli.manifests import ManifestError, read
from winpool.cli.parsing import Exit, add_filename, add_verb, offline_note, pool_name
from winpool.cli.workloads import BUILD_ANNOTATION, Workload, workload_of
from winpool.support.compat import Isolation
from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from winpool.cli.parsing import Subparsers

_NAME: Final = "check"

_DESCRIPTION: Final = f"""\
Say whether the pods of some manifests run on hosts of a Windows, or on the
nodes of a pool, by Microsoft's rules for images on hosts.

Which Windows an image is made for is what --image-build says; else what the
pod declares, by the annotation {BUILD_ANNOTATION} or by the build
that it asks for; else what the tag gives away, which warns and never refuses.
No registry is asked. With --host-build no cluster is asked either.

exit codes:
  0   no pod is known not to run
  1   one does not run, a document cannot be read, or there is no pod
  2   the command line makes no sense, or a file or the API server cannot
      be read"""

_EXAMPLES: Final = (
    ("kubectl winpool check -f deployment.yaml --host-build 10.0.26100", "before nodes of 2025 come"),
    ("kubectl winpool check -f deployment.yaml --host-build 2022 --host-build 2025", "two kinds of hosts"),
    ("kubectl winpool check -f deployment.yaml --pool win-2022", "on the nodes that are there"),
    (
        "kubectl winpool check -f app.yaml --host-build 2025 --image-build ltsc2022",
        "of an image that you know",
    ),
)

_ISOLATIONS: Final[Mapping[str, Isolation]] = {"process": Isolation.PROCESS, "hyperv": Isolation.HYPER_V}

_NODES_NAMED: Final = 3
"""Nodes of one kind that a line names: as many as an issue of a pool."""


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        _NAME,
        summary="Say whether pods run on hosts of a Windows, or on the nodes of a pool.",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    add_filename(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--host-build",
        type=_version,
        metavar="BUILD",
        action="append",
        help="The Windows of a host: 10.0.20348.1607, 20348, 2022; can be given more than once.",
    )
    where.add_argument(
        "--pool", type=pool_name, metavar="POOL", help="Ask the cluster what the nodes of this pool run."
    )
    parser.add_argument(
        "--image-build", type=_version, metavar="BUILD", help="The Windows that all images are made for."
    )
    parser.add_argument(
        "--runtime",
        metavar="RUNTIME",
        default="",
        help="With --host-build: the hosts' runtime, such as containerd://1.7.24.",
    )
    parser.add_argument(
        "--isolation", choices=tuple(_ISOLATIONS), default="process", help="Default: process."
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Check the pods; return the exit code."""
    if given.pool is None and (note := offline_note(given, why="without --pool no cluster is asked")):
        _note(note)
    if given.pool is not None and given.runtime:
        return _usage("--runtime goes with --host-build: the nodes of a pool tell theirs")
    try:
        found = [text for name in given.filename for text in texts(name, recursive=given.recursive)]
    except UnreadableError as error:
        return _usage(str(error))
    hosts = _of_pool(given) if given.pool is not None else _named(given)
    if isinstance(hosts, Exit):
        return hosts
    return _check(found, Question(hosts, given.image_build or "", _ISOLATIONS[given.isolation]))


def _version(text: str) -> str:
    found = version_named(text, matrix=built_in())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no Windows: write it as 10.0.20348, 20348 or 2022")
    return found


def _named(given: argparse.Namespace) -> dict[Host, list[str]]:
    return {Host(each, given.runtime): [] for each in given.host_build}


def _of_pool(given: argparse.Namespace) -> dict[Host, list[str]] | Exit:
    # Imported here: what asks a server takes half a second to load, and with a build it is not needed.
    from winpool.cli.node_reader import read_hosts
    from winpool.cli.reasons import NoSuchPoolError, NotAskedError

    try:
        found = read_hosts(given.pool, kubeconfig=given.kubeconfig, context=given.context)
    except NoSuchPoolError as error:
        _note(str(error))
        return Exit.REFUSED
    except NotAskedError as error:
        return _usage(str(error))
    for each in found.unread:
        _note(f"left out: {each}")
    if not found.hosts:
        _note(f"no Windows node that can be read is selected by the pool {given.pool}")
        return Exit.REFUSED
    return found.hosts


def _check(found: Sequence[tuple[str, str]], question: Question) -> int:
    pods = refused = 0
    for file, text in found:
        for each in read(text):
            if isinstance(each, ManifestError):
                _say(f"{file}:{each.line}: {each.message}")
                refused += 1
                continue
            workload = workload_of(each.content)
            where = f"{file}:{each.line}: "
            if workload is None or workload.is_linux:
                what = "for Linux" if workload else "it makes no pods"
                _note(f"{where}{workload.title if workload else 'an object'}: passed over, {what}")
                continue
            pods += 1
            for problem in each.problems:
                _say(f"{file}:{problem.line}: {workload.title}: {problem.message}")
                refused += 1
            refused += _workload(where, workload, question)
    if not pods:
        _say("there are no pods for Windows in what was given")
        return Exit.REFUSED
    return Exit.REFUSED if refused else Exit.DONE


def _workload(where: str, workload: Workload, question: Question) -> int:
    """Print a line for each container and kind of host; return how many pods do not run: 0 or 1."""
    fails = False
    reached = [host for host in question.hosts if _goes_to(workload, host)]
    for container in workload.containers:
        for host, nodes in question.hosts.items():
            verdict, told = judged(container, workload, host, question)
            away = "" if host in reached else f" It is not scheduled there: it asks for {_asked(workload)}."
            fails = fails or (verdict is Verdict.UNSUPPORTED and not away)
            title = f"{where}{workload.title}, container {container.name} on {_host(host, nodes)}"
            _say(f"{title}: {verdict}: {told}{away}")
    if not reached:
        _say(f"{where}{workload.title}: asks for {_asked(workload)}, and none of these hosts has it")
    return int(fails or not reached)


def _goes_to(workload: Workload, host: Host) -> bool:
    return not workload.asks_for or not host.build_text or host.build_text in workload.asks_for


def _asked(workload: Workload) -> str:
    return " or ".join(workload.asks_for)


def _host(host: Host, nodes: Sequence[str]) -> str:
    if not nodes:
        return host.kernel_version
    more = f" and {len(nodes) - _NODES_NAMED} more" if len(nodes) > _NODES_NAMED else ""
    return f"{host.kernel_version or 'an unknown Windows'} ({', '.join(nodes[:_NODES_NAMED])}{more})"


def _say(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")


def _note(text: str) -> None:
    """Print what is no answer, beside the answers, which are for programs too."""
    sys.stderr.write(f"{printable(text)}\n")


def _usage(text: str) -> Exit:
    _note(f"kubectl winpool {_NAME}: {text}")
    return Exit.USAGE
