"""``kubectl winpool memory``: how much memory is left on nodes, and until when."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from winpool.api.text import printable
from winpool.cli.console import Ink, Paper, Screen, look_of
from winpool.cli.memory_choice import NothingChosenError, TwoMeaningsError, choice, chosen
from winpool.cli.memory_text import counted, render_node, render_nodes
from winpool.cli.parsing import Exit, add_output, add_verb, add_watch
from winpool.cli.urls import server_url

if TYPE_CHECKING:
    import argparse

    from winpool.cli.console import Look
    from winpool.cli.memory_choice import Choice
    from winpool.cli.memory_live import Seen
    from winpool.cli.parsing import Subparsers
    from winpool.model.memory_report import MemoryReport

_DESCRIPTION: Final = """\
Show commit and RAM of nodes whose memory the operator watches, the worst first.

The operator watches nodes of pools with spec.memoryPressure. COMMIT and RAM
are what is used of all there is, with ~ for an estimate. TREND is the growth
of commit, and LEFT the time until it is exhausted at that rate. SOURCE and AGE
are of the sample.

The plugin runs kubectl port-forward to the Pod of the operator that leads, or
asks at --url. The Role winpool-memory-user in winpool-system has the rights
that you need. If the operator requires a token, the plugin gets one for the
ServiceAccount winpool-memory-reader; it never sends your own credentials to
the operator."""

_EXITS: Final = {
    Exit.DONE: "the memory is shown, however little is left",
    Exit.REFUSED: "the operator watches no node of that name, and of no such pool",
    Exit.USAGE: "the command line is wrong, or the operator cannot be asked",
}

_EXAMPLES: Final = (
    ("kubectl winpool memory", "all nodes that are watched, one line each"),
    ("kubectl winpool memory wnp/win-2022 -w", "the nodes of a pool, again and again until Ctrl-C"),
    ("kubectl winpool memory node/akswin000003", "all about one node"),
    ("kubectl winpool memory --url https://winpool.example --token-file t", "without kubectl port-forward"),
)

NO_NODES: Final = "the operator watches the memory of no node: it does so for pools with spec.memoryPressure"


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        "memory",
        summary="Show how much memory is left on nodes, the worst first.",
        description=_DESCRIPTION,
        exits=_EXITS,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "name",
        type=choice,
        nargs="?",
        metavar="POOL|NODE",
        help="Show the nodes of this pool, or this node: NAME, wnp/NAME or node/NAME.",
    )
    add_watch(parser, help_text="Read again every 5 seconds, until Ctrl-C.")
    add_output(parser)
    parser.add_argument(
        "--url",
        type=server_url,
        metavar="URL",
        help="Ask the operator at this address. Default: kubectl port-forward to the Pod that leads.",
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
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    # Imported here: what asks a server takes half a second to load, and --help does not need it.
    from winpool.cli.memory_live import look, watch
    from winpool.cli.memory_reader import Way
    from winpool.cli.reasons import NotAskedError

    way = Way(
        kubeconfig=given.kubeconfig,
        context=given.context,
        url=given.url,
        ca_file=given.ca_file,
        token_file=given.token_file,
    )
    # So that kubectl ends with the plugin, however it is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if given.watch:
            watch(way, draw=_Drawing(given).draw)
            return Exit.DONE
        return _show(look(way), given)
    except NothingChosenError as error:
        _note(str(error))
        return Exit.REFUSED
    except (TwoMeaningsError, NotAskedError) as error:
        _note(f"kubectl winpool memory: {error}")
        return Exit.USAGE


def _show(report: MemoryReport, given: argparse.Namespace) -> int:
    found = chosen(report, given.name)
    if given.output == "json":
        sys.stdout.write(json.dumps(_content(found), indent=2) + "\n")
    elif found.nodes:
        sys.stdout.write(_text(found, given.name, look=look_of(sys.stdout)))
    else:
        _note(NO_NODES)
    return Exit.DONE


def _text(report: MemoryReport, wanted: Choice | None, *, look: Look) -> str:
    if wanted is not None and [each.node for each in report.nodes] == [wanted.name]:
        return render_node(report.nodes[0], report, look=look)
    return render_nodes(report, look=look)


def _content(report: MemoryReport) -> Any:
    return msgspec.to_builtins(report)


class _Drawing:
    """Draws what is seen: over what it drew before on a terminal, below it elsewhere."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._screen = Screen()
        self._drawn = False
        self._trouble = ""

    def draw(self, seen: Seen) -> None:
        """Draw ``seen``. Where nobody sees ages go on, only new reports, and once why there is none."""
        is_json = self._given.output == "json"
        if seen.trouble and (is_json or not self._screen.is_terminal):
            if seen.trouble != self._trouble:
                _note(f"out of date: {seen.trouble}")
        elif is_json:
            sys.stdout.write(json.dumps(_content(self._chosen(seen.report))) + "\n")
            sys.stdout.flush()
        else:
            self._screen.show(self._picture(seen))
        self._trouble = seen.trouble
        self._drawn = True

    def _chosen(self, report: MemoryReport) -> MemoryReport:
        """Return the nodes to show: at first there must be some, later they may be gone."""
        try:
            return chosen(report, self._given.name)
        except NothingChosenError:
            if not self._drawn:
                raise
            return msgspec.structs.replace(report, nodes=())

    def _picture(self, seen: Seen) -> str:
        found, look = self._chosen(seen.report), look_of(sys.stdout)
        paper = Paper(look)
        paper.line(f"{found.at:%H:%M:%S} UTC, read every few seconds; stop with Ctrl-C", ink=Ink.HEAD)
        if seen.trouble:
            paper.marked(f"out of date: {seen.trouble}", ink=Ink.BAD)
        paper.line()
        if not found.nodes:
            paper.line(NO_NODES if self._given.name is None else "the operator no longer watches such a node")
            return paper.text
        if len(found.nodes) > 1:
            paper.line(counted(found))
            paper.line()
        return paper.text + _text(found, self._given.name, look=look)


def _note(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")
