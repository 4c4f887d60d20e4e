"""Shows how much memory is left on nodes, and until when: ``kubectl winpool memory``."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import msgspec

from winpool.api.keys import ADDRESS_ANNOTATION, SHORT_NAME
from winpool.cli.console import Look, Screen, dated, is_text, write
from winpool.cli.kubectl import NotAskedError
from winpool.cli.memory_pods import WITH_URL, SeenPods, read_pods, render_pods
from winpool.cli.memory_report import MemoryReader, is_this_host
from winpool.cli.memory_text import counted, render_node, render_nodes
from winpool.cli.parsing import (
    TABLE,
    Exit,
    RefusedError,
    UsageError,
    add_output,
    add_watch,
    node_name,
    note,
    pool_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from winpool.model.memory_report import MemoryReport

REFRESH_SECONDS: Final = 5.0
"""From one reading to the next. A node under pressure has a new sample every ten seconds."""

DESCRIPTION: Final = """\
Show commit and RAM of nodes whose memory the operator watches, the worst first.

The operator watches nodes of pools with spec.memoryPressure. COMMIT and RAM
are what is used of all there is, with ~ for an estimate. TREND is the growth
of commit, and LEFT the time until it is exhausted at that rate. SOURCE and AGE
are of the sample.

Of a single node it shows its pods too, what they use, and whether they may be
evicted. It reads them by kubectl with your rights: get nodes/proxy, list pods,
poddisruptionbudgets and windowsnodepools. It takes 12 seconds for the growth.

The plugin runs kubectl port-forward to the Pod of the operator that leads, or
asks at --url. The Role winpool-memory-user in winpool-system has the rights
that you need. If the operator requires a token, the plugin gets one for the
ServiceAccount winpool-memory-reader; it never sends your own credentials to
the operator."""

EXITS: Final = {
    Exit.YES: "the memory is shown, however little is left",
    Exit.UNKNOWN: "the operator watches no node of that name, and of no such pool, or cannot be asked",
    Exit.USAGE: "the command line is wrong, or a file of --ca-file or --token-file cannot be used",
}

EXAMPLES: Final = (
    ("kubectl winpool memory", "all nodes that are watched, one line each"),
    ("kubectl winpool memory wnp/win-2022 -w", "the nodes of a pool, again and again until Ctrl-C"),
    ("kubectl winpool memory node/akswin000003", "all about one node"),
    ("kubectl winpool memory -o wide", "all columns, also why nothing is evicted"),
    ("kubectl winpool memory --url https://winpool.example --token-file t", "without kubectl port-forward"),
)

NO_NODES: Final = (
    "the operator watches the memory of no node: add spec.memoryPressure to a pool whose nodes it is to watch"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "name",
        type=choice,
        nargs="?",
        metavar="POOL|NODE",
        help="Show the nodes of this pool, or this node: NAME, wnp/NAME or node/NAME.",
    )
    add_watch(parser, help_text="Read again every 5 seconds, until Ctrl-C.")
    add_output(parser, TABLE)
    parser.add_argument(
        "--url",
        type=server_url,
        metavar="URL",
        help="Ask the operator at this address. Default: that on this machine in the annotation "
        f"{ADDRESS_ANNOTATION} of the Lease, otherwise kubectl port-forward to the Pod that leads.",
    )
    parser.add_argument(
        "--ca-file",
        metavar="FILE",
        help="Verify the operator's certificate by this CA (PEM). Default: the system's for --url, and none "
        "for kubectl port-forward.",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="Send the bearer token in this file. Default: none for --url, otherwise see above.",
    )


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    with MemoryReader(
        given.flags, url=given.url, ca_file=given.ca_file, token_file=given.token_file
    ) as reader:
        if given.watch:
            watch(reader, draw=_Drawing(given).draw)
        return _show(reader.read(), given, reader)


@dataclass(frozen=True, slots=True)
class Seen:
    """The last report, and why there is no newer one; empty where it is new."""

    report: MemoryReport
    trouble: str = ""


def watch(
    reader: MemoryReader, *, draw: Callable[[Seen], None], sleep: Callable[[float], None] = time.sleep
) -> None:
    """Call ``draw`` with a new report every few seconds, until Ctrl-C.

    Raises NotAskedError for the first one only: what fails later is told in the picture.
    """
    seen = Seen(reader.read())
    while True:
        draw(seen)
        sleep(REFRESH_SECONDS)
        try:
            seen = Seen(reader.read())
        except NotAskedError as error:
            seen = Seen(seen.report, str(error))


def _show(report: MemoryReport, given: argparse.Namespace, reader: MemoryReader) -> int:
    found = chosen(report, given.name)
    has_pods = _is_one_node(found, given.name) and given.output not in ("name", "wide")
    if is_text(given.output) and not found.nodes:
        note(NO_NODES)
    elif is_text(given.output) or not has_pods:
        write(
            given.output,
            lambda: msgspec.to_builtins(found),
            lambda look: _text(found, given.name, look=look),
            lambda: names_of(found),
        )
    if has_pods:
        sys.stdout.flush()  # the pods take a while, and a kubelet may not answer
        protected = found.protected_namespaces
        seen = (
            read_pods(reader.kubectl, found.nodes[0], protected=protected)
            if given.url is None
            else SeenPods(pods_problem=WITH_URL)
        )
        write(
            given.output,
            lambda: {**msgspec.to_builtins(found), **msgspec.to_builtins(seen)},
            lambda look: render_pods(seen, look=look),
        )
    return Exit.YES


def _is_one_node(found: MemoryReport, wanted: Choice | None) -> bool:
    """Whether a node was named, and is the one that was found."""
    return wanted is not None and [each.node for each in found.nodes] == [wanted.name]


def names_of(report: MemoryReport) -> Iterator[str]:
    """Name the nodes as kubectl does."""
    return (f"node/{each.node}" for each in report.nodes)


def _text(report: MemoryReport, wanted: Choice | None, *, look: Look) -> str:
    if _is_one_node(report, wanted) and not look.wide:
        return render_node(report.nodes[0], report, look=look)
    return render_nodes(report, look=look)


class _Drawing:
    """Shows what is seen of the nodes that were named."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._screen = Screen(given.output)
        self._trouble = ""

    def draw(self, seen: Seen) -> None:
        """Show ``seen``. Where nobody sees ages go on, only new reports, and once why there is none."""
        if not seen.trouble or self._screen.is_live:
            found = self._chosen(seen.report)
            self._screen.show(
                lambda: msgspec.to_builtins(found),
                lambda look: self._picture(found, seen.trouble, look),
                lambda: names_of(found),
            )
        elif seen.trouble != self._trouble:
            note(f"out of date: {seen.trouble}")
        self._trouble = seen.trouble

    def _chosen(self, report: MemoryReport) -> MemoryReport:
        """Return the nodes to show: at first there must be some, later they may be gone."""
        try:
            return chosen(report, self._given.name)
        except NothingChosenError:
            if not self._screen.has_shown:
                raise
            return msgspec.structs.replace(report, nodes=())

    def _picture(self, found: MemoryReport, trouble: str, look: Look) -> str:
        paper = dated(look, "read every few seconds", at=found.at, trouble=trouble)
        if not found.nodes:
            paper.line(NO_NODES if self._given.name is None else "the operator no longer watches such a node")
            return paper.text
        if len(found.nodes) > 1:
            paper.line(counted(found))
            paper.line()
        return paper.text + _text(found, self._given.name, look=look)


@dataclass(frozen=True, slots=True)
class Choice:
    """A name, and of what it is; ``kind`` is empty where the person has not said."""

    name: str
    kind: Literal["pool", "node", ""] = ""


class NothingChosenError(RefusedError):
    """The report has no node of that name and of no pool of that name; the text says so."""


def choice(text: str) -> Choice:
    """Read NAME, wnp/NAME or node/NAME, as an argument of the command line."""
    if text and "/" not in text:
        return Choice(text)
    with suppress(argparse.ArgumentTypeError):
        return Choice(node_name(text), "node")
    with suppress(argparse.ArgumentTypeError):
        return Choice(pool_name(text), "pool")
    raise argparse.ArgumentTypeError(
        f"{text!r} is not the name of a pool or a node: write NAME, {SHORT_NAME}/NAME or node/NAME"
    )


def chosen(report: MemoryReport, wanted: Choice | None) -> MemoryReport:
    """Return ``report`` with the nodes that were named only, all where none was.

    Raises NothingChosenError and UsageError.
    """
    if wanted is None:
        return report
    of_pool = () if wanted.kind == "node" else tuple(n for n in report.nodes if n.pool == wanted.name)
    named = () if wanted.kind == "pool" else tuple(n for n in report.nodes if n.node == wanted.name)
    if of_pool and named:
        raise UsageError(
            f'"{wanted.name}" is the name of a pool and of a node: write {SHORT_NAME}/{wanted.name} or '
            f"node/{wanted.name}"
        )
    if not of_pool and not named:
        what = {"pool": "watched pool", "node": "watched node", "": "watched node or pool"}[wanted.kind]
        raise NothingChosenError(
            f'no {what} is named "{wanted.name}": list them with kubectl winpool memory'
            if report.nodes
            else NO_NODES
        )
    return msgspec.structs.replace(report, nodes=of_pool or named, left_out=0 if named else report.left_out)


def server_url(text: str) -> str:
    """Return the address without ``/memory`` and without a slash at its end, as an argument.

    It is HTTPS, since a token may go there, but for this host itself.
    """
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL") from None
    if "@" in url.netloc:
        raise argparse.ArgumentTypeError("the URL has a user or a password: give a token with --token-file")
    if not host or url.scheme not in ("http", "https") or url.query or url.fragment or port == 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the address of an operator, as https://HOST:PORT is"
        )
    if url.scheme == "http" and not is_this_host(host):
        raise argparse.ArgumentTypeError(f"{text!r} has to begin with https://: a token may be sent there")
    return f"{url.scheme}://{url.netloc}{url.path.rstrip('/').removesuffix('/memory').rstrip('/')}"
