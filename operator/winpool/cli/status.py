"""Shows the state of pools, once or with every change: ``kubectl winpool status``.

A pool is read from the object as the API server sends it: plugin and operator may be of different versions,
so what is missing or of another type counts as absent.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from winpool.api import keys
from winpool.api.conditions import ConditionType, Polarity, Reason, referred_by
from winpool.api.issues import NORMAL
from winpool.api.keys import GROUP, KIND, POOL_LABEL, SINGULAR
from winpool.api.model import InvalidSpecError
from winpool.api.selector import selects
from winpool.api.spec import Mode, WindowsNodePool, WindowsNodePoolSpec
from winpool.api.status import ENDED_STATES, NOT_OBSERVED, PlanAction
from winpool.api.text import grouped
from winpool.cli.console import Ink, Look, Paper, Screen, dated, is_text, write
from winpool.cli.counts import age, counted, listed
from winpool.cli.kubectl import Kubectl, NoSuchPoolError, Sleep, known
from winpool.cli.lenient import Fields
from winpool.cli.parsing import TABLE, Exit, UsageError, add_output, add_watch, note, pool_name
from winpool.cli.reader import PoolFeed, leader_problem, list_nodes
from winpool.model.node import Node, is_held
from winpool.support.matrix import built_in

REFRESH_SECONDS: Final = 10.0
"""After which a picture is drawn again although nothing has changed: ages go on."""

SETTLE_SECONDS: Final = 0.5
"""From one picture to the next. A burst of changes is one picture."""

LISTED_SECONDS: Final = 3.0
"""The same where the nodes are listed for it: a pool may have thousands, and its status changes every second
while they join."""

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
        said, _ = known(leading.result)  # who may not read the Lease may read pools
        if said:
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


def watch(
    feed: PoolFeed, look: Callable[[], Seen], *, draw: Callable[[Seen], None], sleep: Sleep = time.sleep
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
    found, problem = known(lambda: list_nodes(kubectl, selector).nodes)
    for node in found or ():
        nodes.get(node.labels[POOL_LABEL], []).append(node)
    return Seen(pools=pools, nodes=nodes, nodes_problem=problem, trouble=feed.trouble)


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
    now, problem, pools = datetime.now(UTC), seen.nodes_problem, list(map(PoolView, seen.pools))
    if seen.nodes is None:
        return {"pools": list(map(content_of, pools))}
    groups = [() if problem else node_groups(each, seen.nodes[each.name], now=now) for each in pools]
    return {"pools": [content_of(*each, nodes_problem=problem) for each in zip(pools, groups, strict=True)]}


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
        "ready": ready.text("status") if ready.content else "Unknown",
        "message": ready.text("message"),
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


COUNTS: Final[Mapping[str, tuple[str, bool]]] = {
    "readyNodes": ("Ready", True),
    "availableNodes": ("available", True),
    "upToDateNodes": ("up to date", True),
    "pressuredNodes": ("under memory pressure", False),
    "heldNodes": ("held", False),
}
"""Counts of the status, how they are told, and whether 0 is told too."""


class PoolView:
    """A pool, as the API server sends it: what is asked of it, and what the operator says of it.

    ``ready`` is the condition Ready, empty before the operator has processed the pool, and ``state`` its
    reason, the column STATE of ``kubectl get``. ``notable`` are the other conditions that are not as they
    should be, or say that the pool is being worked on, paused or deleted. Those of unknown types are left
    out. ``supported`` is the status of OSSupported, empty before.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        fields = Fields(content)
        self.content = content
        self.metadata, self.status = fields.one("metadata"), fields.one("status")
        spec = fields.one("spec")
        self.os, self.mode = spec.one("os"), spec.text("mode") or Mode.ACTIVE
        self.name, self.created = self.metadata.text("name"), self.metadata.moment("creationTimestamp")
        observed = self.status.number("observedGeneration")
        self.observed_generation = NOT_OBSERVED if observed is None else observed
        self.issues = self.status.all("issues")
        self.issue_count = max(self.status.count("issueCount"), len(self.issues))
        conditions = {each.text("type"): each for each in reversed(self.status.all("conditions"))}
        self.ready = conditions.pop(ConditionType.READY, Fields({}))
        self.state = self.ready.text("reason")
        self.supported = conditions.get(ConditionType.OS_SUPPORTED, Fields({})).text("status")
        self.notable = tuple(
            each for kind in ConditionType if (each := conditions.get(kind)) is not None and _is_notable(each)
        )

    @property
    def is_observed(self) -> bool:
        """Whether the operator has processed the pool at all."""
        return self.observed_generation > NOT_OBSERVED


def _is_notable(condition: Fields) -> bool:
    is_good = ConditionType(condition.text("type")).polarity is Polarity.GOOD
    return condition.text("status") != ("True" if is_good else "False")


class NodeState(StrEnum):
    """How a node is doing, in one word for programs: after UP_TO_DATE, from the worst to the best.

    ``said`` is the same for people.
    """

    said: str

    def __new__(cls, word: str, said: str) -> NodeState:
        """Return the state of that word."""
        state = str.__new__(cls, word)
        state._value_, state.said = word, said
        return state

    UP_TO_DATE = "UpToDate", "up to date"
    TO_BE_RELEASED = "ToBeReleased", "to be released"
    NOT_READY = "NotReady", "not Ready"
    CORDONED = "Cordoned", "cordoned"
    MEMORY_PRESSURE = "MemoryPressure", "tainted because of memory pressure"
    HELD = "Held", f"held, by the annotation {keys.HOLD_ANNOTATION}"
    KEYS_MISSING = "KeysMissing", "labels or taints missing"
    VALIDATING = "Validating", "with startup taints until they pass validation"
    UPGRADE_DUE = "UpgradeDue", "upgrade due"
    BUILD_UNKNOWN = "BuildUnknown", "with an unknown Windows build"
    MEMORY_MISMATCH = "MemoryMismatch", "tainted because of reserved memory"
    NOT_WRITTEN = "NotWritten", "not written to yet"
    NOT_AS_ASKED = "NotAsAsked", "not as the spec asks"


_MOST_DIGITS: Final = 10
"""Of a revision, as of any integer of 32 bits."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes in the same state. ``nodes`` are their names in order, none where only their number is known."""

    state: NodeState
    count: int
    nodes: tuple[str, ...] = ()


def node_groups(pool: PoolView, nodes: Sequence[Node], *, now: datetime) -> tuple[NodeGroup, ...]:
    """Fold the nodes that carry the label of ``pool``: those that are up to date first, then the worst.

    Nodes that the pool has by its status and that do not carry the label are not written to yet. No more are
    called up to date than by its status, since not all that is wrong with a node is seen on it. A hold may
    have ended by ``now``.
    """
    counted, up_to_date = pool.status.count("nodes"), pool.status.count("upToDateNodes")
    is_deleted, spec = bool(pool.metadata.content.get("deletionTimestamp")), _spec_of(pool.content)

    def state_of(node: Node) -> NodeState:
        if is_deleted:
            return NodeState.TO_BE_RELEASED
        return next(_shows(node, spec, now=now), NodeState.UP_TO_DATE)

    found = grouped((state_of(node), node.name) for node in nodes)
    groups = {state: NodeGroup(state, len(names), tuple(sorted(names))) for state, names in found.items()}
    good = groups.get(NodeState.UP_TO_DATE)
    if good is not None and good.count > up_to_date:
        # Which of them, the status does not say, unless it is all.
        names = () if up_to_date else good.nodes
        groups[NodeState.NOT_AS_ASKED] = NodeGroup(NodeState.NOT_AS_ASKED, good.count - up_to_date, names)
        groups[NodeState.UP_TO_DATE] = NodeGroup(NodeState.UP_TO_DATE, up_to_date)
    if counted > len(nodes):
        groups[NodeState.NOT_WRITTEN] = NodeGroup(NodeState.NOT_WRITTEN, counted - len(nodes))
    return tuple(groups[state] for state in NodeState if state in groups and groups[state].count)


def _spec_of(pool: Mapping[str, Any]) -> WindowsNodePoolSpec | None:
    """Return the spec, None where it cannot be read."""
    try:
        return WindowsNodePool.from_object(pool).spec
    except InvalidSpecError:
        return None


def _shows(node: Node, spec: WindowsNodePoolSpec | None, *, now: datetime) -> Iterator[NodeState]:
    """Yield what shows on the node, the worst first; without ``spec`` what shows without it.

    What is missing on a node that is held, is missing for the hold.
    """
    if spec is not None and not selects(spec.node_selector, node.labels):
        yield NodeState.TO_BE_RELEASED
    if node.ready != "True":
        yield NodeState.NOT_READY
    if node.unschedulable:
        yield NodeState.CORDONED
    if _has_taint(node, keys.MEMORY_PRESSURE_TAINT):
        yield NodeState.MEMORY_PRESSURE
    if is_held(node, now=now):
        yield NodeState.HELD
    if spec is not None:
        yield from _shows_by(spec, node)


def _shows_by(spec: WindowsNodePoolSpec, node: Node) -> Iterator[NodeState]:
    """Yield where the node is not as the spec asks."""
    taints = {each.identity: each.value for each in node.taints}
    lacks_taint = any(taints.get(each.identity) != each.value for each in spec.taints)
    if lacks_taint or any(node.labels.get(key) != value for key, value in spec.labels.items()):
        yield NodeState.KEYS_MISSING
    if any(each.identity in taints for each in spec.startup_taints):
        yield NodeState.VALIDATING
    release, target = built_in().judged_as(spec.os.version), spec.os.target_revision
    runs, revision = node.labels.get(keys.OS_VERSION_LABEL), _revision(node)
    if runs not in (None, release) or (target is not None and revision is not None and revision < target):
        yield NodeState.UPGRADE_DUE
    if runs is None or (target is not None and revision is None):
        yield NodeState.BUILD_UNKNOWN
    if _has_taint(node, keys.RESERVED_MEMORY_TAINT):
        yield NodeState.MEMORY_MISMATCH


def _has_taint(node: Node, key: str) -> bool:
    return any(each.key == key for each in node.taints)


def _revision(node: Node) -> int | None:
    """Return the revision that the node is labelled with, None where that is no number."""
    revision = node.labels.get(keys.OS_REVISION_LABEL, "")
    return int(revision) if revision.isdecimal() and len(revision) <= _MOST_DIGITS else None


_DROPPED: Final = ("MODE", "OS", "READY", "AGE")
_DROPPED_OF_BUILDS: Final = ("REVISIONS", "OS")
"""Columns that go where the terminal is too narrow, in this order."""


def render_pools(pools: Iterable[PoolView], *, now: datetime, look: Look) -> str:
    """Return one line for each pool, with fewer columns where they do not fit, or with more."""
    rows = [
        {
            "NAME": pool.name,
            "OS": pool.os.text("version"),
            "MODE": pool.mode,
            "NODES": str(pool.status.count("nodes")),
            "READY": str(pool.status.count("readyNodes")),
            "UP-TO-DATE": str(pool.status.count("upToDateNodes")),
            "ISSUES": str(pool.issue_count),
            "STATE": pool.state or "-",
            "AGE": age(pool.created, now=now),
            **(_more(pool) if look.wide else {}),
        }
        for pool in pools
    ]
    paper = Paper(look)
    paper.table(rows, dropped=_DROPPED, indent="")
    return paper.text


def _more(pool: PoolView) -> Mapping[str, str]:
    """Return what ``-o wide`` adds, as in ``kubectl get wnp -o wide``."""
    return {
        "AVAILABLE": str(pool.status.count("availableNodes")),
        "SUPPORTED": pool.supported or "-",
        "BLOCKED": str(pool.status.count("blockedNodes")),
        "PRESSURED": str(pool.status.count("pressuredNodes")),
        "HELD": str(pool.status.count("heldNodes")),
    }


def render_pool(
    pool: PoolView, nodes: Sequence[Node], *, nodes_problem: str = "", now: datetime, look: Look
) -> str:
    """Return all about one pool and the nodes that carry its label.

    ``nodes_problem`` is why they could not be listed.
    """
    paper = Paper(look)
    _header(paper, pool, now=now)
    _conditions(paper, pool, now=now)
    _issues(paper, pool, now=now)
    _plan(paper, pool)
    _builds(paper, pool)
    _nodes(paper, pool, node_groups(pool, nodes, now=now), problem=nodes_problem)
    return paper.text


def _header(paper: Paper, pool: PoolView, *, now: datetime) -> None:
    revision = pool.os.number("targetRevision")
    target = f", revision {revision} or later" if revision is not None else ""
    paper.titled("Pool", f"{pool.name}, {age(pool.created, now=now)} old")
    paper.titled("OS", f"Windows Server {pool.os.text('version')}{target}")
    paper.titled("Mode", pool.mode)
    counts = [
        f"{number} {what}"
        for field, (what, is_always) in COUNTS.items()
        if (number := pool.status.count(field)) or is_always
    ]
    wrong = pool.status.count("misplacedPods")
    misplaced = f"; {wrong} pods that cannot run there" if wrong else ""
    paper.titled("Nodes", f"{pool.status.count('nodes')}: {', '.join(counts)}{misplaced}")
    slots = [(each.text("node"), each.text("state")) for each in pool.status.all("slots")]
    if held := [f"{node} {state}" for node, state in slots if state not in ENDED_STATES]:
        paper.titled("Slots", listed(held))
    _state(paper, pool, now=now)


def _state(paper: Paper, pool: PoolView, *, now: datetime) -> None:
    ready = pool.ready
    if not ready.content or not pool.is_observed:
        said = (
            "unknown: the operator has not processed this pool yet. Check that it runs: kubectl -n "
            "winpool-system get pods"
        )
        paper.titled("State", said, ink=Ink.BUSY)
        return
    status, reason, message = ready.text("status"), ready.text("reason"), ready.text("message")
    ink = Ink.BAD if status != "True" else Ink.GOOD if reason in _FINE else Ink.BUSY
    since = f"(Ready={status} for {age(ready.moment('lastTransitionTime'), now=now)})"
    paper.titled("State", f"{pool.state} {since}", ink=ink)
    if message and reason != Reason.UP_TO_DATE and not _is_issue(pool, reason):
        paper.wrapped(message, first=" " * paper.title_width)
    if pool.observed_generation < pool.metadata.count("generation"):
        said = "The operator has not processed the newest spec yet. The following is about an earlier spec."
        paper.wrapped(said, first=" " * paper.title_width)


_FINE: Final = (Reason.UP_TO_DATE, Reason.NO_NODES_SELECTED)


def _conditions(paper: Paper, pool: PoolView, *, now: datetime) -> None:
    if not pool.notable:
        return
    paper.heading("Conditions:")
    told = {pool.ready.text("message")}
    for each in pool.notable:
        kind, reason, message = each.text("type"), each.text("reason"), each.text("message")
        since = age(each.moment("lastTransitionTime"), now=now)
        ink = Ink.BAD if ConditionType(kind).polarity in (Polarity.GOOD, Polarity.BAD) else Ink.BUSY
        paper.marked(f"{kind}={each.text('status')}, {reason}, for {since}", ink=ink)
        is_said = message in told or referred_by(message) is ConditionType.READY
        if message and not is_said and not _is_issue(pool, reason):
            paper.wrapped(message, first="    ")
        told.add(message)


def _is_issue(pool: PoolView, reason: str) -> bool:
    """Whether the issues, which follow, say why: the condition would say it in other words."""
    return any(each.text("reason") == reason for each in pool.issues)


def _issues(paper: Paper, pool: PoolView, *, now: datetime) -> None:
    if not pool.issues:
        if pool.is_observed:
            paper.heading("Issues: none")
        return
    shown, count = len(pool.issues), pool.issue_count
    paper.heading(f"Issues: {count}" + (f", the worst {shown}:" if count > shown else ""))
    for each in pool.issues:
        since = age(each.moment("since"), now=now)
        ink = Ink.BUSY if each.text("reason") in NORMAL else Ink.BAD
        paper.marked(f"{each.text('reason')}, {_about(each)}, for {since}", ink=ink)
        for field, first in (("message", "    "), ("fix", "    Fix: ")):
            if said := each.text(field):
                paper.wrapped(said, first=first)


def _about(issue: Fields) -> str:
    names = issue.texts("nodes")
    count = max(issue.count("nodeCount"), len(names))
    return f"{counted(count, 'node')} ({listed(names, count=count)})" if count else "the pool as a whole"


def _plan(paper: Paper, pool: PoolView) -> None:
    plan = pool.status.one("plan")
    if not plan.content:
        return
    total, steps = plan.count("totalNodes"), plan.all("steps")
    for_upgrades = "for {}, what the operator would write, and which upgrades are due"
    said = for_upgrades if plan.one("upgrade").content else "with mode Active the operator would write to {}"
    paper.heading(f"Plan: {said.format(counted(total, 'node'))}")
    for said, names in grouped((_planned(step), step.text("node")) for step in steps).items():
        on = f"on {counted(len(names), 'node')} ({listed(names)})"
        paper.wrapped(f"{said} {on}", first="  ", rest="    ")
    if len(steps) < total:
        paper.line(f"  and {counted(total - len(steps), 'node')} more")
    for each in plan.all("preflight"):
        count, sets = each.count("intolerantPods"), each.texts("daemonSets")
        pods = f"{counted(count, 'pod')} ({listed(each.texts('pods'), count=count)})"
        agents = f", including pods of the DaemonSets {', '.join(sets)}" if sets else ""
        on = f"on {counted(each.count('nodes'), 'node')}{agents}"
        paper.marked(f"{each.text('taint')}: not tolerated by {pods} {on}", ink=Ink.BUSY)


def _planned(step: Fields) -> str:
    """Write what is planned for a node: its changes, an upgrade, or the reason where it has no change."""
    if step.text("action") == PlanAction.UPGRADE:
        closed = step.texts("closedGates")
        return f"upgrade for {step.text('reason')}" + (f", closed: {' and '.join(closed)}" if closed else "")
    changes = [_change(each) for each in step.all("changes")]
    more = max(0, step.count("changeCount") - len(changes))
    return ", ".join(changes or [step.text("reason")]) + (f" and {more} more" if more else "")


def _change(found: Fields) -> str:
    """Write a change of one key: ``change label team: payments -> billing``."""
    kind, key = found.text("kind").lower(), found.text("key")
    before, after = found.text("from"), found.text("to")
    match isinstance(found.content.get("from"), str), isinstance(found.content.get("to"), str):
        case True, True:
            return f"change {kind} {key}: {before} -> {after}"
        case True, False:
            return f"remove {kind} {key} ({before})" if before else f"remove {kind} {key}"
        case _:
            return f"add {kind} {key}: {after}" if after else f"add {kind} {key}"


def _builds(paper: Paper, pool: PoolView) -> None:
    rows = [
        {
            "BUILD": each.text("build"),
            "OS": each.text("osVersion") or "-",
            "REVISIONS": _revisions(each) or "-",
            "NODES": str(each.count("nodes")),
            "VERDICT": each.text("verdict"),
            "END-OF-SUPPORT": each.text("endOfSupport") or "-",
        }
        for each in pool.status.all("builds")
    ]
    if rows:
        paper.heading("Builds:")
        paper.table(rows, dropped=_DROPPED_OF_BUILDS, indent="  ")


def _revisions(build: Fields) -> str:
    found = {each for name in ("minRevision", "maxRevision") if (each := build.number(name))}
    return "-".join(map(str, sorted(found)))


def _nodes(paper: Paper, pool: PoolView, groups: Sequence[NodeGroup], *, problem: str) -> None:
    if problem:
        paper.heading("Nodes by state: the nodes cannot be listed")
        paper.wrapped(problem, first="    ")
        return
    if not groups:
        return
    paper.heading("Nodes by state:")
    width = max(len(str(group.count)) for group in groups)
    for group in groups:
        # Which nodes are as they should be, nobody asks.
        shown = group.nodes if group.state is not NodeState.UP_TO_DATE else ()
        names = f": {listed(shown, count=group.count)}" if shown else ""
        # While the operator still writes, they have none.
        why = ", see issues" if group.state is NodeState.NOT_AS_ASKED and pool.issues else ""
        paper.wrapped(f"{group.state.said}{why}{names}", first=f"  {str(group.count).rjust(width)} ")
