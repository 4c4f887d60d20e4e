"""Shows how far the upgrades of a pool are, node by node: ``kubectl winpool rollout status``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from winpool.api.conditions import ConditionType
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.text import written_moment
from winpool.api.upgrade import UpgradeState
from winpool.cli import gates
from winpool.cli.console import GAP, Ink, Look, Paper, Screen, aligned, dated, width_of, write
from winpool.cli.counts import NONE, age, counted, listed
from winpool.cli.kubectl import Kubectl, NoSuchPoolError, polled
from winpool.cli.parsing import TABLE, EndError, Exit, add_output, add_settings, add_watch, note, pool_name
from winpool.cli.rollouts import Progress, blocker_content, progress_of, rollout_claim, with_evidence
from winpool.cli.upgrades import Cluster, Judged, judged, read_cluster, rows_of_settings
from winpool.features.upgrade.claims import ENDED_BADLY

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from winpool.features.upgrade.records import NodeUpgrade, UpgradeOverview
    from winpool.model.node import Node
    from winpool.support.rows import Row

FOLLOW_SECONDS: Final = 5.0
"""From one picture of ``-w`` to the next: a drain lists the pods of a node as often."""

NODES_READ: Final = 8
"""Nodes in work whose pods are read for one picture. Each is a call of kubectl, of which four run at once."""

NODES_SHOWN: Final = 20
"""Nodes that only wait for their turn and are shown: as many as of a plan."""

DESCRIPTION: Final = f"""\
Show the nodes of a pool that are due for an upgrade, in work or failed: state,
since when, until when, and what each waits for. Of nodes that only wait for
their turn the first {NODES_SHOWN} are shown; -o json has all.

It needs the rights to list windowsnodepools and nodes, to get the Lease
winpool-system/winpool, and, while nodes are in work, to list pods and
poddisruptionbudgets, volumeattachments, and the controllers of pods."""

EXITS: Final = {
    Exit.YES: "nothing is due, nothing is in work, and nothing has failed",
    Exit.UNKNOWN: "there is no such pool, its spec cannot be read or has no upgrade, it is not known what is "
    "due, or the API server cannot be asked",
    Exit.USAGE: "the command line is wrong, or the file of --support-matrix-file cannot be used",
    Exit.NO: "nodes are due, in work or failed",
}

EXAMPLES: Final = (
    ("kubectl winpool rollout status win-2022", "how far it is"),
    ("kubectl winpool rollout status wnp/win-2022 -w", "until nothing is due or failed, or Ctrl-C"),
    ("timeout 4h kubectl winpool rollout status win-2022 -w", "in a script, for four hours at most"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument("pool", type=pool_name, metavar="POOL", help="Show this pool: NAME or wnp/NAME.")
    add_watch(parser, help_text="Update the output until nothing is due and nothing has failed, or Ctrl-C.")
    add_output(parser, TABLE)
    add_settings(parser)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    rows = rows_of_settings(given)
    with Kubectl(given.flags) as kubectl:
        if given.watch:
            return _follow(given.output, lambda: read_rollout(kubectl, given.pool, rows=rows))
        found = read_rollout(kubectl, given.pool, rows=rows)
    if found.cluster.leader_problem:
        note(found.cluster.leader_problem)
    write(
        given.output,
        lambda: as_content(found),
        lambda look: as_text(found, look=look),
        lambda: names_of(found),
    )
    return found.exit


def _follow(output: str, read: Callable[[], Rollout]) -> int:
    """Show the rollout with every change, until nothing is left to be done; return the exit code."""
    screen, last = Screen(output), ""
    for found, trouble in polled(read, seconds=FOLLOW_SECONDS):
        content = as_content(found)
        if screen.is_live or trouble or str(content) != last:
            last, said = str(content), trouble or found.cluster.leader_problem
            screen.show(
                lambda: content,  # noqa: B023 - at once, as the others
                lambda look: _dated(found, look, trouble=said),  # noqa: B023
                lambda: names_of(found),  # noqa: B023
            )
        if found.exit is Exit.YES and not trouble:
            break
    return Exit.YES


def _dated(found: Rollout, look: Look, *, trouble: str) -> str:
    paper = dated(look, "updated until nothing is due", at=datetime.now(UTC), trouble=trouble)
    return paper.text + as_text(found, look=look)


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One node. ``state`` is that of its claim, or its label; ``progress`` is None without a claim."""

    node: str
    state: str
    waits_for: str
    since: datetime | None = None
    deadline: datetime | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What is known of the upgrades of a pool.

    ``lines`` are the nodes that are due, in work or failed: those that the operator has begun first, by how
    far they are, then the others in the order of the plan.
    """

    cluster: Cluster
    judged: Judged
    overview: UpgradeOverview
    lines: tuple[NodeLine, ...]

    @property
    def exit(self) -> Exit:
        """The exit code."""
        if self.lines:
            return Exit.NO
        return Exit.UNKNOWN if self.overview.unknown else Exit.YES


def read_rollout(kubectl: Kubectl, name: str, *, rows: tuple[Row, ...] = ()) -> Rollout:
    """Return how far the upgrades of a pool are. Raises EndError."""
    cluster = read_cluster(kubectl, lambda _: ())
    pool = cluster.pool(name)
    if pool is None:
        raise NoSuchPoolError(name)
    nodes = judged(cluster, pool, rows=rows).nodes
    claims = [(node, claim) for node in nodes if (claim := rollout_claim(node)) is not None]
    working = [node for node, claim in claims if claim.state not in ENDED_BADLY]
    if working:
        cluster = with_evidence(kubectl, cluster, working[:NODES_READ])
    return rollout_of(cluster, judged(cluster, pool, rows=rows))


def rollout_of(cluster: Cluster, found: Judged) -> Rollout:
    """Return how far the upgrades of a pool are. Raises EndError where its spec has none."""
    if found.overview is None or found.plan is None:
        name = found.pool.name
        if found.pool.deleting:
            why = "is being deleted"
        elif found.pool.spec is not None and not found.is_gated:
            why = "has no spec.upgrade"
        else:
            why = "has a spec that cannot be read"
        raise EndError(f"the pool {name} {why}: see kubectl winpool status {name}")
    claimed = [each for node in found.nodes if (each := _of_claim(cluster, found, node)) is not None]
    claimed.sort(key=lambda each: (_PLACES[each.state], each.node))
    missing = tuple(_of_missing(found.overview))
    names = {each.node for each in (*claimed, *missing)}
    due = (
        _of_due(found, found.overview, each.upgrade) for each in found.plan.nodes if each.node not in names
    )
    lines = (*claimed, *missing, *due)
    return Rollout(cluster=cluster, judged=found, overview=found.overview, lines=lines)


_PLACES: Final = {str(state): place for place, state in enumerate(reversed(UpgradeState))}
"""What is worst first, and then what is done soonest."""


def _of_claim(cluster: Cluster, found: Judged, node: Node) -> NodeLine | None:
    """Return the line of a node whose upgrade the operator has begun."""
    progress = progress_of(cluster, found, node)
    if progress is None:
        return None
    claim = progress.claim
    if progress.blockers:
        waits_for = "blocked: " + listed([f"{each.pod} ({each.why})" for each in progress.blockers])
    elif claim.state in ENDED_BADLY:
        waits_for = f"a person: {claim.reason}"
    elif claim.state is UpgradeState.UPGRADING and not progress.stands:
        waits_for = "its machine to be patched or replaced"
    else:
        waits_for = progress.waits_for
    waits_for = waits_for or f"kubectl winpool why {node.name}"
    deadline = claim.deadline or claim.retry_at
    return NodeLine(node.name, claim.state, waits_for, claim.since, deadline, progress)


def _of_missing(overview: UpgradeOverview) -> Iterator[NodeLine]:
    """Yield the lines of nodes that were handed over, and whose Node is gone."""
    waits_for = "a machine in its place: its Node is gone from the pool"
    for name, claim in overview.rollout.missing.items() if overview.rollout else ():
        yield NodeLine(name, claim.state, waits_for, claim.since, claim.deadline)


def _of_due(found: Judged, overview: UpgradeOverview, upgrade: NodeUpgrade) -> NodeLine:
    """Return the line of a node that is due and waits.

    What its pods mean for its gates is not read for all nodes that wait: ``plan`` and ``why`` do that.
    """
    node = upgrade.node
    slot = next((each for each in found.pool.status.slots if each.node == node.name), None)
    label = node.labels.get(UPGRADE_STATE_LABEL, "")
    causes = [each.name for each in (*upgrade.stops, *overview.stops)]
    causes += [each.gate for each in overview.closed]
    if label == UpgradeState.REQUIRED:
        waits_for = "its machine to be patched or replaced: it may be upgraded now"
    else:
        waits_for = ", ".join(causes) or "its turn, or gates of its own"
    since, deadline = (slot.since, slot.deadline) if slot is not None else (None, None)
    return NodeLine(node.name, label or NONE, waits_for, since, deadline)


def as_content(found: Rollout) -> Mapping[str, Any]:
    """Return all of it for programs."""
    overview = found.overview
    return {
        "pool": found.judged.pool.name,
        "target": overview.target,
        "upToDateNodes": overview.up_to_date,
        "unknownNodes": sorted(overview.unknown),
        "done": found.exit is Exit.YES,
        "conditions": [
            {"type": kind, "status": status, "reason": reason, "message": message}
            for kind, status, reason, message in _conditions(found.judged)
        ],
        "nodes": list(map(_line_content, found.lines)),
        **({"operatorProblem": found.cluster.leader_problem} if found.cluster.leader_problem else {}),
        **({"unknown": list(found.cluster.evidence.problems)} if found.cluster.evidence.problems else {}),
    }


def names_of(found: Rollout) -> Iterator[str]:
    """Name the nodes that are due, in work or failed, as kubectl does; none whose Node is gone."""
    there = {each.name for each in found.judged.nodes}
    return (f"node/{each.node}" for each in found.lines if each.node in there)


def _line_content(line: NodeLine) -> Mapping[str, Any]:
    return {
        "node": line.node,
        "state": line.state,
        "since": None if line.since is None else written_moment(line.since),
        "deadline": None if line.deadline is None else written_moment(line.deadline),
        "waitsFor": line.waits_for,
        "blockers": list(map(blocker_content, line.progress.blockers)) if line.progress else [],
    }


def _conditions(found: Judged) -> Iterator[tuple[str, str, str, str]]:
    """Yield what the operator says of the pool that is about its upgrades."""
    for kind in (ConditionType.READY, ConditionType.UPGRADE_ALLOWED, ConditionType.STALLED):
        each = found.pool.status.condition(kind)
        if each is not None and (kind is not ConditionType.STALLED or each.status == "True"):
            yield kind, each.status, each.reason, each.message


def as_text(found: Rollout, *, look: Look) -> str:
    """Return all of it for a terminal of that look."""
    paper = Paper(look)
    _write_head(paper, found)
    claimed = [each for each in found.lines if each.progress is not None]
    waiting = [each for each in found.lines if each.progress is None]
    if found.lines:
        paper.line()
        shown = waiting if look.wide else waiting[:NODES_SHOWN]
        _write_table(paper, [*claimed, *shown], now=found.cluster.now)
    if (rest := 0 if look.wide else len(waiting) - NODES_SHOWN) > 0:
        paper.line(f"and {counted(rest, 'node')} more that wait: -o json has all")
    paper.bullets(f"Not known: {gates.clipped(each)}" for each in found.cluster.evidence.problems)
    return paper.text


def _write_head(paper: Paper, found: Rollout) -> None:
    pool, overview = found.judged.pool, found.overview
    strategy = pool.spec.upgrade.strategy if pool.spec is not None and pool.spec.upgrade is not None else ""
    paper.titled("Pool", f"{pool.name}, strategy {strategy}, target {overview.target}")
    paper.titled("Nodes", f"{len(found.judged.nodes)}: {', '.join(_counts(found))}")
    if found.judged.refusal:
        said = f"The operator does not act on it: {gates.clipped(found.judged.refusal)}"
        paper.titled("Spec", said, ink=Ink.BAD)
    ink, said = _STATES[found.exit]
    paper.titled("State", said, ink=ink)
    for kind, status, reason, message in _conditions(found.judged):
        paper.wrapped(gates.clipped(f"{kind}={status} {reason}: {message}"), first=" " * paper.title_width)


_STATES: Final = {
    Exit.YES: (Ink.GOOD, "All nodes are up to date."),
    Exit.UNKNOWN: (Ink.BAD, "It is not known of all nodes whether they are due."),
    Exit.NO: (Ink.BUSY, "Nodes are due, in work or failed."),
}


def _counts(found: Rollout) -> Iterator[str]:
    """Yield how many nodes there are of each kind, each node once."""
    overview = found.overview
    claims = {each.node: each.progress.claim for each in found.lines if each.progress is not None}
    failed = sum(claim.state in ENDED_BADLY for claim in claims.values())
    not_done = {each.node.name for each in overview.due} | set(overview.unknown)
    yield f"{overview.up_to_date - len(claims.keys() - not_done)} up to date"
    missing = len(overview.rollout.missing) if overview.rollout else 0
    yield f"{len(claims) - failed + missing} in work"
    yield f"{failed} failed"
    yield f"{len(found.lines) - len(claims) - missing} due"
    if unknown := sorted(set(overview.unknown) - claims.keys()):
        yield f"{len(unknown)} unknown ({listed(unknown)})"


_NARROWEST: Final = 24
"""Columns that what a node waits for has at least."""


def _write_table(paper: Paper, lines: Sequence[NodeLine], *, now: datetime) -> None:
    """Write a line for each node; what it waits for is cut to the width, but for ``-o wide``."""
    rows = [
        {
            "NODE": each.node,
            "STATE": each.state,
            "SINCE": age(each.since, now=now) if each.since is not None else NONE,
            "DEADLINE": _until(each.deadline, now=now),
        }
        for each in lines
    ]
    taken = max(width_of(line) for line in aligned(rows).splitlines()) + len(GAP)
    most = gates.LONGEST if paper.look.wide else max(paper.look.width - taken, _NARROWEST)
    waits = [gates.clipped(each.waits_for, most) for each in lines]
    whole = [{**row, "WAITS FOR": said} for row, said in zip(rows, waits, strict=True)]
    paper.table(whole, dropped=("SINCE",), indent="")


def _until(moment: datetime | None, *, now: datetime) -> str:
    if moment is None:
        return NONE
    return f"in {age(now, now=moment)}" if moment > now else f"{age(moment, now=now)} ago"
