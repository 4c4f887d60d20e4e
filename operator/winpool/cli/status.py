"""``kubectl winpool status``: how pools are doing, what is wrong, and what to do about it."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from winpool.api.keys import KIND
from winpool.api.text import printable
from winpool.cli.console import Ink, Paper, Screen, look_of
from winpool.cli.node_states import node_groups
from winpool.cli.parsing import Exit, add_output, add_verb, add_watch, pool_name
from winpool.cli.pool_view import view_of
from winpool.cli.render import render_pool, render_pools
from winpool.cli.status_json import content_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from winpool.cli.console import Look
    from winpool.cli.live import Seen
    from winpool.cli.node_states import NodeGroup
    from winpool.cli.parsing import Subparsers
    from winpool.cli.pool_view import PoolView
    from winpool.model.node import Node

_DESCRIPTION: Final = f"""\
Show the state of a pool, its issues and their fixes.

It also shows the node counts, the conditions that need attention, the Windows
builds, and the nodes by state. Without POOL it prints one line for each
{KIND}; if there is only one, it shows that pool in detail. It needs
the rights to list windowsnodepools and nodes, and for -w to watch
windowsnodepools."""

_EXITS: Final = {
    Exit.DONE: "the pools are shown, in whatever state they are",
    Exit.REFUSED: "there is no such pool",
    Exit.USAGE: "the command line is wrong, or the API server cannot be read",
}

_EXAMPLES: Final = (
    ("kubectl winpool status", "all pools, one line each"),
    ("kubectl winpool status win-2022", "one pool in detail"),
    ("kubectl winpool status wnp/win-2022 -w", "update with every change, until Ctrl-C"),
    ("kubectl winpool status win-2022 -o json", "for programs; with -w one line for each change"),
)


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        "status",
        summary="Show the state of pools, their issues and the fixes.",
        description=_DESCRIPTION,
        exits=_EXITS,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "pool", type=pool_name, nargs="?", metavar="POOL", help="Show this pool: NAME or wnp/NAME."
    )
    add_watch(parser, help_text="Update the output with every change, until Ctrl-C.")
    add_output(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    # Imported here: what asks a server takes half a second to load, and --help does not need it.
    from winpool.cli.live import look, watch
    from winpool.cli.reasons import NoSuchPoolError, NotAskedError

    where = {"kubeconfig": given.kubeconfig, "context": given.context}
    try:
        if given.watch:
            watch(given.pool, draw=_Screen(given).draw, **where)
            return Exit.DONE
        seen = look(given.pool, **where)
    except NoSuchPoolError as error:
        _note(str(error))
        return Exit.REFUSED
    except NotAskedError as error:
        _note(f"kubectl winpool status: {error}")
        return Exit.USAGE
    if given.output == "json":
        sys.stdout.write(json.dumps(_content(seen), indent=2) + "\n")
    elif seen.pools:
        sys.stdout.write(_text(seen, now=datetime.now(UTC), look=look_of(sys.stdout)))
    else:
        _note(f"there is no {KIND} in this cluster")
    return Exit.DONE


def render(
    pool: Mapping[str, Any],
    nodes: Sequence[Node],
    *,
    nodes_problem: str = "",
    now: datetime,
    look: Look,
) -> str:
    """Return all about one pool, given the object and the nodes that carry its label."""
    view = view_of(pool)
    groups = _groups(view, nodes, problem=nodes_problem, now=now)
    return render_pool(view, groups, nodes_problem=nodes_problem, now=now, look=look)


def _groups(view: PoolView, nodes: Sequence[Node], *, problem: str, now: datetime) -> tuple[NodeGroup, ...]:
    if problem:
        return ()
    return node_groups(view.content, nodes, counted=view.nodes, up_to_date=view.up_to_date_nodes, now=now)


def _text(seen: Seen, *, now: datetime, look: Look) -> str:
    if len(seen.pools) == 1:
        return render(seen.pools[0], seen.nodes, nodes_problem=seen.nodes_problem, now=now, look=look)
    return render_pools(map(view_of, seen.pools), now=now, look=look)


def _content(seen: Seen) -> Mapping[str, Any]:
    views = [view_of(pool) for pool in seen.pools]
    if len(views) != 1:
        return {"pools": [content_of(view) for view in views]}
    groups = _groups(views[0], seen.nodes, problem=seen.nodes_problem, now=datetime.now(UTC))
    return {"pools": [content_of(views[0], groups, nodes_problem=seen.nodes_problem)]}


class _Screen:
    """Draws what is seen: over what it drew before on a terminal, below it elsewhere."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._screen = Screen()

    def draw(self, seen: Seen) -> None:
        """Draw ``seen``; where nobody sees ages go on, only what is news."""
        if self._given.output == "json":
            if seen.is_news:
                sys.stdout.write(json.dumps(_content(seen)) + "\n")
                sys.stdout.flush()
        elif self._screen.is_terminal or seen.is_news:
            self._screen.show(self._picture(seen))

    def _picture(self, seen: Seen) -> str:
        now, look = datetime.now(UTC), look_of(sys.stdout)
        paper = Paper(look)
        paper.line(f"{now:%H:%M:%S} UTC, updated with every change; stop with Ctrl-C", ink=Ink.HEAD)
        if seen.trouble:
            paper.marked(f"out of date: {seen.trouble}", ink=Ink.BAD)
        paper.line()
        if not seen.pools:
            name = self._given.pool
            paper.line(f'the {KIND} "{name}" no longer exists' if name else f"there is no {KIND}")
            return paper.text
        return paper.text + _text(seen, now=now, look=look)


def _note(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")
