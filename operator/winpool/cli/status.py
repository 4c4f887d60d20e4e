"""Shows the state of pools, once or with every change: ``kubectl winpool status``."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from winpool.api.keys import GROUP, KIND, POOL_LABEL, SINGULAR
from winpool.cli.console import Look, Screen, dated, is_text, write
from winpool.cli.kubectl import Kubectl, KubectlError, NoSuchPoolError, NotAskedError, decoded
from winpool.cli.lenient import Fields
from winpool.cli.parsing import TABLE, Exit, UsageError, add_output, add_watch, note, pool_name
from winpool.cli.pool_text import COUNTS, NodeGroup, PoolView, node_groups, render_pool, render_pools
from winpool.cli.reader import leader_problem, list_nodes, list_pools
from winpool.kube.pools import POOLS_PATH

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

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

DESCRIPTION: Final = f"""\
Show the state of pools, their issues and their fixes.

Of the pools that are named, and of all with --all, it also shows the node
counts, the conditions that need attention, the Windows builds, and the nodes by
state. Otherwise it prints one line for each {KIND}; if there is only
one, it shows that pool in detail. It needs the rights to list windowsnodepools
and nodes, and for -w to watch windowsnodepools."""

EXITS: Final = {
    Exit.YES: "the pools are shown, in whatever state they are",
    Exit.UNKNOWN: "there is no such pool, or the API server cannot be asked",
}

EXAMPLES: Final = (
    ("kubectl winpool status", "all pools, one line each"),
    ("kubectl winpool status win-2022", "one pool in detail; also several"),
    ("kubectl winpool status --all", "all pools in detail"),
    ("kubectl winpool status -l env=prod -o wide", "pools with this label, with more columns"),
    ("kubectl winpool status wnp/win-2022 -w", "update with every change, until Ctrl-C"),
    ("kubectl winpool status win-2022 -o json", "for programs; with -w one line for each change"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "pools", type=pool_name, nargs="*", metavar="POOL", help="Show these pools: NAME or wnp/NAME."
    )
    parser.add_argument("--all", action="store_true", help="Show all pools in detail.")
    parser.add_argument(
        "-l", "--selector", metavar="LABELS", default="", help="Show the pools with these labels: a=b,c!=d."
    )
    add_watch(parser, help_text="Update the output with every change, until Ctrl-C.")
    add_output(parser, TABLE)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    if given.pools and (given.all or given.selector):
        raise UsageError("a POOL is named, so --all and -l have nothing to choose from: leave them out")
    names = tuple(sorted(set(given.pools)))
    with Kubectl(given.flags) as kubectl:
        feed = PoolFeed(kubectl, names, given.selector)
        feed.list()
        if names and not feed.pools:
            raise NoSuchPoolError(*names)
        is_wanted = _wants_nodes(given)
        if given.watch:
            watch(feed, lambda: seen_of(feed, kubectl, is_wanted=is_wanted), draw=_Screen(given).draw)
        leading = kubectl.begin(lambda: leader_problem(kubectl))
        seen = seen_of(feed, kubectl, is_wanted=is_wanted)
        with suppress(NotAskedError):  # who may not read the Lease may read pools
            if said := leading.result():
                note(said)
    if is_text(given.output) and not seen.pools:
        note(nothing(given))
    else:
        write(
            given.output,
            lambda: _content(seen),
            lambda look: _text(seen, now=datetime.now(UTC), look=look),
            lambda: names_of(seen),
        )
    if missing := sorted(set(names) - {PoolView(pool).name for pool in seen.pools}):
        raise NoSuchPoolError(*missing)
    return Exit.YES


def _wants_nodes(given: argparse.Namespace) -> bool | None:
    """Whether the pools are shown with their nodes; None where only one that is alone is."""
    if given.output in ("name", "wide"):
        return False
    return True if given.pools or given.all else None


def nothing(given: argparse.Namespace) -> str:
    """Say that there is no pool."""
    labelled = f" with the labels {given.selector}" if given.selector else ""
    return f"there is no {KIND}{labelled} in this cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read. ``nodes`` are those of each pool by its name, None where they are not shown.

    ``nodes_problem`` is why they could not be listed, ``trouble`` why what is here may be out of date.
    ``is_news`` says that it differs from what was seen before, but for the time.
    """

    pools: tuple[Mapping[str, Any], ...]
    nodes: Mapping[str, Sequence[Node]] | None = None
    nodes_problem: str = ""
    trouble: str = ""
    is_news: bool = True


class PoolFeed:
    """The pools, or those called ``names``, or with the labels ``selector``; kept up to date by ``run``.

    That runs in a thread of its own. ``changed`` is set when the pools or ``trouble`` have changed; whoever
    reads them clears it before. ``fault`` is what has ended ``run``, which ends by a fault of ours only.
    """

    def __init__(self, kubectl: Kubectl, names: Sequence[str] = (), selector: str = "") -> None:
        self.changed = threading.Event()
        self.fault: BaseException | None = None
        self._kubectl = kubectl
        self._names = names
        # The API server selects one name, or all. Of several the others are left out here.
        self._query = {"fieldSelector": f"metadata.name={names[0]}"} if len(names) == 1 else {}
        if selector:
            self._query["labelSelector"] = selector
        self._pools: dict[str, Mapping[str, Any]] = {}
        # The resourceVersion to go on from; "" asks for a list.
        self._position = ""
        self._trouble = ""
        self._watched_since: float | None = None

    @property
    def pools(self) -> tuple[Mapping[str, Any], ...]:
        """The pools as last seen, by name."""
        names = self._names or self._pools
        return tuple(pool for name, pool in sorted(self._pools.items()) if name in names)

    @property
    def trouble(self) -> str:
        """Why the pools may be out of date; empty where they are not."""
        since = self._watched_since
        return "" if since is not None and time.monotonic() - since >= LASTING_SECONDS else self._trouble

    def list(self) -> None:
        """Read all of them anew. Raises NotAskedError."""
        found = list_pools(self._kubectl, **self._query)
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
        query = {**self._query, "resourceVersion": self._position, "timeoutSeconds": str(WATCH_SECONDS)}
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
        sleep(LISTED_SECONDS if seen.nodes is not None else SETTLE_SECONDS)
        feed.changed.wait(REFRESH_SECONDS)
    raise feed.fault


def seen_of(feed: PoolFeed, kubectl: Kubectl, *, is_wanted: bool | None) -> Seen:
    """Return the pools, and in one list the nodes of all of them, or of the only one if that is not said."""
    pools = feed.pools
    if not pools or not (len(pools) == 1 if is_wanted is None else is_wanted):
        return Seen(pools=pools, trouble=feed.trouble)
    names = [PoolView(pool).name for pool in pools]
    nodes: dict[str, list[Node]] = {name: [] for name in names}
    # Without the names of many, since a URL has its limits.
    selector = f"{POOL_LABEL}={names[0]}" if len(names) == 1 else POOL_LABEL
    try:
        found = list_nodes(kubectl, selector).nodes
    except NotAskedError as error:
        return Seen(pools=pools, nodes=nodes, nodes_problem=str(error), trouble=feed.trouble)
    for node in found:
        nodes.get(node.labels[POOL_LABEL], []).append(node)
    return Seen(pools=pools, nodes=nodes, trouble=feed.trouble)


def names_of(seen: Seen) -> Iterator[str]:
    """Name the pools as kubectl does."""
    return (f"{SINGULAR}.{GROUP}/{PoolView(pool).name}" for pool in seen.pools)


def _text(seen: Seen, *, now: datetime, look: Look) -> str:
    if seen.nodes is None:
        return render_pools(map(PoolView, seen.pools), now=now, look=look)
    return "\n".join(
        render_pool(view, seen.nodes[view.name], nodes_problem=seen.nodes_problem, now=now, look=look)
        for view in map(PoolView, seen.pools)
    )


def _content(seen: Seen) -> Mapping[str, Any]:
    now = datetime.now(UTC)
    return {
        "pools": [
            content_of(view, _groups(seen, view, now=now), nodes_problem=seen.nodes_problem)
            for view in map(PoolView, seen.pools)
        ]
    }


def _groups(seen: Seen, view: PoolView, *, now: datetime) -> Sequence[NodeGroup] | None:
    if seen.nodes is None:
        return None
    return () if seen.nodes_problem else node_groups(view, seen.nodes[view.name], now=now)


def content_of(
    pool: PoolView, groups: Sequence[NodeGroup] | None = None, *, nodes_problem: str = ""
) -> Mapping[str, Any]:
    """Return what programs get, by the names of the API; without ``groups`` no nodes."""
    status, ready = pool.status, pool.ready
    notable = [each.content for each in pool.notable]
    nodes = [{"state": each.state, "count": each.count, "nodes": [*each.nodes]} for each in groups or ()]
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
        **({} if groups is None else {"nodeGroups": nodes}),
        **({"nodesProblem": nodes_problem} if nodes_problem else {}),
    }


class _Screen:
    """Shows what is seen of the pools."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._screen = Screen(given.output)

    def draw(self, seen: Seen) -> None:
        """Show ``seen``; where nobody sees ages go on, only what is news."""
        if self._screen.is_live or seen.is_news:
            self._screen.show(
                lambda: _content(seen), lambda look: self._picture(seen, look), lambda: names_of(seen)
            )

    def _picture(self, seen: Seen, look: Look) -> str:
        now = datetime.now(UTC)
        paper = dated(look, "updated with every change", at=now, trouble=seen.trouble)
        if not seen.pools:
            names = self._given.pools
            is_one = len(names) == 1
            paper.line(f'the {KIND} "{names[0]}" no longer exists' if is_one else nothing(self._given))
            return paper.text
        return paper.text + _text(seen, now=now, look=look)
