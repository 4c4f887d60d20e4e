"""Shows the state of pools, once or with every change: ``kubectl winpool status``."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from winpool.api.keys import KIND, POOL_LABEL
from winpool.cli.console import Look, Screen, dated, write
from winpool.cli.kubectl import Kubectl, KubectlError, NoSuchPoolError, NotAskedError, decoded
from winpool.cli.lenient import Fields
from winpool.cli.parsing import Exit, add_output, add_watch, note, pool_name
from winpool.cli.pool_text import COUNTS, NodeGroup, PoolView, node_groups, render_pool, render_pools
from winpool.cli.reader import leader_problem, list_nodes, list_pools
from winpool.kube.pools import POOLS_PATH

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from winpool.model.node import Node

REFRESH_SECONDS: Final = 10.0
"""After which a picture is drawn again although nothing has changed: ages go on."""

SETTLE_SECONDS: Final = 0.5
"""From one picture to the next. A burst of changes is one picture."""

LISTED_SECONDS: Final = 3.0
"""The same where the nodes are listed for it: a pool may have thousands, and its status changes every second
while they join."""

WATCH_SECONDS: Final = 300
"""How long one watch of pools lasts."""

LASTING_SECONDS: Final = 5.0
"""A watch that lives as long works. One that fails later is begun again at once, and without a word."""

PAUSES: Final = (1.0, 30.0)
"""Seconds until pools are read again after a failure: the first time, and at most."""

SUMMARY: Final = "Show the state of pools, their issues and the fixes."

DESCRIPTION: Final = f"""\
Show the state of a pool, its issues and their fixes.

It also shows the node counts, the conditions that need attention, the Windows
builds, and the nodes by state. Without POOL it prints one line for each
{KIND}; if there is only one, it shows that pool in detail. It needs
the rights to list windowsnodepools and nodes, and for -w to watch
windowsnodepools."""

EXITS: Final = {
    Exit.YES: "the pools are shown, in whatever state they are",
    Exit.UNKNOWN: "there is no such pool, or the API server cannot be asked",
}

EXAMPLES: Final = (
    ("kubectl winpool status", "all pools, one line each"),
    ("kubectl winpool status win-2022", "one pool in detail"),
    ("kubectl winpool status wnp/win-2022 -w", "update with every change, until Ctrl-C"),
    ("kubectl winpool status win-2022 -o json", "for programs; with -w one line for each change"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "pool", type=pool_name, nargs="?", metavar="POOL", help="Show this pool: NAME or wnp/NAME."
    )
    add_watch(parser, help_text="Update the output with every change, until Ctrl-C.")
    add_output(parser)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    with Kubectl(given.flags) as kubectl:
        feed = PoolFeed(kubectl, given.pool)
        feed.list()
        if given.pool is not None and not feed.pools:
            raise NoSuchPoolError(given.pool)
        if given.watch:
            watch(feed, lambda: seen_of(feed, kubectl), draw=_Screen(given).draw)
        leading = kubectl.begin(lambda: leader_problem(kubectl))
        seen = seen_of(feed, kubectl)
        with suppress(NotAskedError):  # who may not read the Lease may read pools
            if said := leading.result():
                note(said)
    if given.output != "json" and not seen.pools:
        note(f"there is no {KIND} in this cluster")
    else:
        write(
            given.output, lambda: _content(seen), lambda look: _text(seen, now=datetime.now(UTC), look=look)
        )
    return Exit.YES


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read. ``nodes`` are those of the only pool, none where there are several.

    ``nodes_problem`` is why they could not be listed, ``trouble`` why what is here may be out of date.
    ``is_news`` says that it differs from what was seen before, but for the time.
    """

    pools: tuple[Mapping[str, Any], ...]
    nodes: tuple[Node, ...] = ()
    nodes_problem: str = ""
    trouble: str = ""
    is_news: bool = True


class PoolFeed:
    """The pools, or the one called ``name``, kept up to date while ``run`` runs in a thread of its own.

    ``changed`` is set when the pools or ``trouble`` have changed; whoever reads them clears it before.
    ``fault`` is what has ended ``run``, which ends by a fault of ours only.
    """

    def __init__(self, kubectl: Kubectl, name: str | None) -> None:
        self.changed = threading.Event()
        self.fault: BaseException | None = None
        self._kubectl = kubectl
        self._name = name
        self._pools: dict[str, Mapping[str, Any]] = {}
        # The resourceVersion to go on from; "" asks for a list.
        self._position = ""
        self._trouble = ""
        self._watched_since: float | None = None

    @property
    def pools(self) -> tuple[Mapping[str, Any], ...]:
        """The pools as last seen, by name."""
        return tuple(pool for _, pool in sorted(self._pools.items()))

    @property
    def trouble(self) -> str:
        """Why the pools may be out of date; empty where they are not."""
        since = self._watched_since
        return "" if since is not None and time.monotonic() - since >= LASTING_SECONDS else self._trouble

    def list(self) -> None:
        """Read all of them anew. Raises NotAskedError."""
        found = list_pools(self._kubectl, self._name)
        self._position = found.resource_version
        self._pools = {pool["metadata"]["name"]: pool for pool in found.items}
        self.changed.set()

    def run(self) -> None:
        """Watch for ever; survives everything that the API server may answer."""
        try:
            self._run()
        except BaseException as fault:
            self.fault = fault
            self.changed.set()
            raise

    def _run(self) -> None:
        pause, most = PAUSES
        while True:
            began = time.monotonic()
            try:
                if not self._position:
                    self.list()
                self._watched_since = time.monotonic()
                self._watch()
                trouble = ""
            except NotAskedError as error:
                self._position, trouble = "", str(error)
            finally:
                self._watched_since = None
            if time.monotonic() - began >= LASTING_SECONDS:
                pause = PAUSES[0]
                self._tell("")
                continue
            self._tell(trouble)
            time.sleep(pause)
            pause = min(2 * pause, most)

    def _watch(self) -> None:
        query = {} if self._name is None else {"fieldSelector": f"metadata.name={self._name}"}
        query |= {"resourceVersion": self._position, "timeoutSeconds": str(WATCH_SECONDS)}
        for line in self._kubectl.watch(POOLS_PATH, allowWatchBookmarks="true", **query):
            self._take(line)

    def _take(self, line: bytes) -> None:
        """Take in one line of the watch."""
        event = Fields.of(decoded(msgspec.json.decode, line))
        pool = event.one("object")
        metadata = pool.one("metadata")
        name = metadata.text("name")
        match event.text("type"):
            case "ERROR":
                raise KubectlError(f"Error from server ({pool.text('reason')}): {pool.text('message')}")
            case "DELETED":
                self._pools.pop(name, None)
                self.changed.set()
            case "ADDED" | "MODIFIED":
                self._pools[name] = pool.content
                self.changed.set()
        self._position = metadata.text("resourceVersion") or self._position

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self.changed.set()


def watch(
    feed: PoolFeed,
    look: Callable[[], Seen],
    *,
    draw: Callable[[Seen], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call ``draw`` with what ``look`` returns and with every change of it, until Ctrl-C."""
    threading.Thread(target=feed.run, daemon=True).start()
    feed.changed.set()
    while feed.fault is None:
        if feed.changed.is_set():
            feed.changed.clear()
            seen = look()
            draw(seen)
        else:
            draw(replace(seen, is_news=False))
        sleep(LISTED_SECONDS if len(seen.pools) == 1 else SETTLE_SECONDS)
        feed.changed.wait(REFRESH_SECONDS)
    raise feed.fault


def seen_of(feed: PoolFeed, kubectl: Kubectl) -> Seen:
    """Return the pools, and the nodes of the only one."""
    pools = feed.pools
    if len(pools) != 1:
        return Seen(pools=pools, trouble=feed.trouble)
    try:
        found = list_nodes(kubectl, f"{POOL_LABEL}={pools[0]['metadata']['name']}")
    except NotAskedError as error:
        return Seen(pools=pools, nodes_problem=str(error), trouble=feed.trouble)
    return Seen(pools=pools, nodes=found.nodes, trouble=feed.trouble)


def _text(seen: Seen, *, now: datetime, look: Look) -> str:
    if len(seen.pools) == 1:
        view = PoolView(seen.pools[0])
        return render_pool(view, seen.nodes, nodes_problem=seen.nodes_problem, now=now, look=look)
    return render_pools(map(PoolView, seen.pools), now=now, look=look)


def _content(seen: Seen) -> Mapping[str, Any]:
    views = [PoolView(pool) for pool in seen.pools]
    if len(views) != 1:
        return {"pools": [content_of(view) for view in views]}
    groups = () if seen.nodes_problem else node_groups(views[0], seen.nodes, now=datetime.now(UTC))
    return {"pools": [content_of(views[0], groups, nodes_problem=seen.nodes_problem)]}


def content_of(
    pool: PoolView, groups: Sequence[NodeGroup] | None = None, *, nodes_problem: str = ""
) -> Mapping[str, Any]:
    """Return what programs get, by the names of the API; without ``groups`` no nodes."""
    status, ready = pool.status, pool.ready
    notable = [each.content for each in pool.notable]
    return {
        "name": pool.name,
        "osVersion": pool.os.text("version"),
        "mode": pool.mode,
        "creationTimestamp": pool.metadata.content.get("creationTimestamp"),
        "generation": pool.metadata.count("generation"),
        "observedGeneration": pool.observed_generation,
        "state": pool.state,
        "ready": ready.text("status") if ready is not None else "Unknown",
        "message": ready.text("message") if ready is not None else "",
        **{name: status.count(name) for name in ("nodes", *COUNTS, "misplacedPods")},
        "conditions": [each for each in status.items("conditions") if each in notable],
        "issueCount": pool.issue_count,
        **{name: status.items(name) for name in ("issues", "builds")},
        **({"plan": status.content["plan"]} if "plan" in status.content else {}),
        **({} if groups is None else {"nodeGroups": [_group(each) for each in groups]}),
        **({"nodesProblem": nodes_problem} if nodes_problem else {}),
    }


def _group(group: NodeGroup) -> Mapping[str, Any]:
    return {"state": str(group.state), "count": group.count, "nodes": list(group.nodes)}


class _Screen:
    """Shows what is seen of the pools."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._screen = Screen(given.output)

    def draw(self, seen: Seen) -> None:
        """Show ``seen``; where nobody sees ages go on, only what is news."""
        if self._screen.is_live or seen.is_news:
            self._screen.show(lambda: _content(seen), lambda look: self._picture(seen, look))

    def _picture(self, seen: Seen, look: Look) -> str:
        now = datetime.now(UTC)
        paper = dated(look, "updated with every change", at=now, trouble=seen.trouble)
        if not seen.pools:
            name = self._given.pool
            paper.line(f'the {KIND} "{name}" no longer exists' if name else f"there is no {KIND}")
            return paper.text
        return paper.text + _text(seen, now=now, look=look)
