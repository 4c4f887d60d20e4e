"""Says why a node does not work, or is not upgraded, and what to do: ``kubectl winpool why``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

from msgspec.structs import asdict

from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.text import written_moment
from winpool.api.upgrade import Trigger
from winpool.cli import gates
from winpool.cli.console import Ink, Look, Paper, rows_of, write
from winpool.cli.counts import age
from winpool.cli.kubectl import Kubectl
from winpool.cli.node_problems import NodeProblem, Problem, Severity, contract_of, problems_of
from winpool.cli.node_upgrade import (
    ABOUT,
    STATES,
    Standing,
    Why,
    changes_at,
    levels,
    next_of,
    place_of,
    to_do,
)
from winpool.cli.parsing import EndError, Exit, add_output, add_settings, node_name
from winpool.cli.rollouts import Progress, blocker_content, progress_content, rollout_claim, with_evidence
from winpool.cli.upgrades import Cluster, judged, read_cluster, rows_of_settings, snapshot_of, with_pods_of
from winpool.features.upgrade.records import Stand

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from winpool.features.upgrade.capacity import Fit
    from winpool.model.pods import Workload
    from winpool.model.pool import Pool
    from winpool.support.rows import Row

P = ParamSpec("P")

DESCRIPTION: Final = """\
Show all that is wrong with a node, the worst first: that it is not Ready and
why, validation, taints, memory pressure, its upgrade, a hold, a build that is
not supported. Then what happens next, and what you can do. The text fits a
terminal of 24 lines; -o json has all.

Of an upgrade it shows why it is due, which gates are closed and what opens
each; of a node that the operator upgrades itself, the state, since when, until
when, what it waits for, and what blocks its pods. The exit code is about the
upgrade alone.

It judges that itself, from what the API server has now, by the rules of the
operator, and says yes only if the operator leads and says so too. What only
the operator knows, such as samples of memory, it takes from the conditions of
the node and the issues of the pool. It needs the rights to list
windowsnodepools and nodes, to get the Lease winpool-system/winpool, and, if the
pool has spec.upgrade, to list pods and poddisruptionbudgets. Of a node that is
validated it lists pods, of one that was drained volumeattachments, and of one
that is back the controllers of pods."""

EXITS: Final = {
    Exit.YES: "nothing is due, or an upgrade is due and the operator permits it or has handed the node over",
    Exit.UNKNOWN: "there is no certain answer: no such node, no pool or no spec.upgrade that judges it, no "
    "operator that says so, it is not known what is due, or the API server cannot be asked",
    Exit.USAGE: "the command line is wrong, or the file of --support-matrix-file cannot be used",
    Exit.NO: "an upgrade is due or not done, and the node must not be upgraded now",
}

EXAMPLES: Final = (
    ("kubectl winpool why akswin000003", "what is wrong with one node"),
    (
        "kubectl winpool why node/akswin000003 || exit",
        "in a script: stop unless nothing is due or it is permitted",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument("node", type=node_name, metavar="NODE", help="Show this node: NAME or node/NAME.")
    add_output(parser)
    add_settings(parser)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    rows, name = rows_of_settings(given), given.node
    with Kubectl(given.flags) as kubectl:
        cluster = read_cluster(kubectl, lambda seen: pools_of(seen, name), node=name)
        for pool in pools_of(cluster, name):
            cluster = _with_more(kubectl, cluster, pool, name)
    why = why_of(cluster, name, rows=rows)
    write(given.output, lambda: as_content(why), lambda look: as_text(why, look=look))
    return why.standing.exit


def pools_of(cluster: Cluster, name: str) -> Sequence[Pool]:
    """Return the pool of the node, whose pods have to be read too."""
    node = cluster.node(name)
    pool = place_of(cluster, node).pool if node is not None else None
    return () if pool is None else (pool,)


def _with_more(kubectl: Kubectl, cluster: Cluster, pool: Pool, name: str) -> Cluster:
    """Return ``cluster`` with what an upgrade by the operator and the contract of the node depend on."""
    node = cluster.node(name)
    assert node is not None
    block = pool.spec.upgrade if pool.spec is not None else None
    if block is not None and (block.is_ours or rollout_claim(node) is not None):
        cluster = with_evidence(kubectl, cluster, [node])
    if pool.uid in cluster.surveys or cluster.pods_problem:
        return cluster
    found = contract_of(snapshot_of(replace(cluster, nodes=(node,)), pool), node)
    needs_pods = found is not None and found.needs_pods
    return with_pods_of(kubectl, cluster, node, pool=pool) if needs_pods else cluster


def why_of(cluster: Cluster, name: str, *, rows: tuple[Row, ...] = ()) -> Why:
    """Return all that is known of the node. Raises EndError where nothing is."""
    node = cluster.node(name) or cluster.stranger
    if node is None:
        unread = next((each for each in cluster.unread if each.startswith(f"node {name}: ")), None)
        said = f'there is no node "{name}" in this cluster: list the nodes with kubectl get nodes'
        raise EndError(said if unread is None else f"the API server has a node that cannot be read: {unread}")
    place = place_of(cluster, node)
    return Why(
        node=node,
        place=place,
        cluster=cluster,
        judged=None if place.pool is None else judged(cluster, place.pool, rows=rows),
        rows=rows,
    )


def as_content(why: Why) -> Mapping[str, Any]:
    """Return all about the node, for programs."""
    judged, due = why.judged, why.due
    overview = judged.overview if judged is not None else None
    return {
        "node": why.node.name,
        "pool": judged.pool.name if judged is not None else None,
        **({} if judged is not None else {"noPool": why.place.reason}),
        **({"refusal": judged.refusal} if judged is not None and judged.refusal else {}),
        "kernelVersion": why.node.versions.kernel,
        "target": overview.target if overview is not None else "",
        "upgradeState": why.node.labels.get(UPGRADE_STATE_LABEL),
        "problems": [each.content for each in problems_of(why)],
        "standing": why.standing.value,
        "blocked": why.standing.exit is not Exit.YES,
        "due": list(map(gates.due_content, due.due)) if due is not None else [],
        "stops": [{**asdict(stop), "of": of} for of, stops, _ in levels(why) for stop in stops],
        "gates": [{**gates.gate_content(gate), "of": of} for of, _, found in levels(why) for gate in found],
        **({"rollout": progress_content(progress)} if (progress := why.progress) is not None else {}),
        **({"blockers": [blocker_content(each) for each in why.foreseen]} if why.foreseen else {}),
        **({"unknown": list(why.cluster.evidence.problems)} if why.cluster.evidence.problems else {}),
        **({"changesAt": written_moment(at)} if (at := changes_at(why)) is not None else {}),
        "next": list(next_of(why)),
        "toDo": list(to_do(why)),
        **({"operatorProblem": why.cluster.leader_problem} if why.cluster.leader_problem else {}),
        **({"podsProblem": why.cluster.pods_problem} if why.cluster.pods_problem else {}),
    }


# The text for people: one screen

LINES: Final = 23
"""Of a terminal of 24, the last is for the prompt."""

NEXT: Final = "Next:"
TO_DO: Final = "What you can do:"

_ON_THE_MACHINE: Final = (NodeProblem.NOT_READY, NodeProblem.VALIDATING, IssueReason.VALIDATION_TIMED_OUT)
"""Problems whose cause is often on the machine, or in a pod there."""

_INK: Final = {Severity.WARNING: Ink.BAD, Severity.NORMAL: Ink.BUSY}

_SENTENCE: Final = 400
"""Characters of what happens next and what to do that are never cut: a command at the end must stay whole."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A heading, a list of items as they are drawn, and how many more there are."""

    heading: str
    items: tuple[str, ...]
    left_out: int = 0

    def shorter(self) -> _Part:
        """Return it without its last item."""
        return _Part(self.heading, self.items[:-1], self.left_out + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A page of a certain length.

    ``most`` are the characters of a text. With ``blanks`` parts have empty lines between them; with
    ``details`` it has what keeps nothing: gates that are open, and pods that move.
    """

    why: Why
    problems: tuple[Problem, ...]
    look: Look
    most: int
    blanks: bool = False
    details: bool = False

    def cut(self, text: str) -> str:
        """Return a text of others as it is shown: no longer than there is room, and without endless words."""
        return _ENDLESS.sub(r"\g<0> ", self.look.plain(gates.clipped(text, self.most)))

    def drawn(self, write: Callable[Concatenate[Paper, P], None], *given: P.args, **named: P.kwargs) -> str:
        """Return what ``write`` writes on a paper of its own."""
        paper = Paper(self.look)
        write(paper, *given, **named)
        return paper.text


_ENDLESS: Final = re.compile(r"\S{60}(?=\S)")


def as_text(why: Why, *, look: Look) -> str:
    """Return all about the node that fits ``LINES`` lines of a terminal of that look.

    It leaves out details first, then empty lines, then the ends of texts, and at last items, which it counts.
    """
    problems = problems_of(why)
    full = _Draft(why=why, problems=problems, look=look, most=gates.LONGEST, blanks=True, details=True)
    tight = replace(full, blanks=False, details=False)
    short = [replace(tight, most=most) for most in (300, 150)]
    for draft in (full, replace(full, details=False), tight, *short):
        parts = [part for part in _parts(draft) if part.items]
        text = _page(draft, parts)
        if _fits(text, look):
            return text
    while not _fits(text, look) and (place := _longest(parts)) is not None:
        parts[place] = parts[place].shorter()
        text = _page(draft, parts)
    return text


def _longest(parts: Sequence[_Part]) -> int | None:
    """Return the place of the part to shorten next; None where each has one item.

    What is so counts for more than what follows from it: each problem has its own next and to do in the JSON.
    """
    sizes = [(len(part.items) + (part.heading in (NEXT, TO_DO)), place) for place, part in enumerate(parts)]
    return max((each for each in sizes if len(parts[each[1]].items) > 1), default=(0, None))[1]


def _fits(text: str, look: Look) -> bool:
    """Whether a terminal shows it at once, which breaks lines that are too long for it."""
    return sum(len(list(rows_of(line, columns=look.width))) for line in text.splitlines()) <= LINES


def _page(draft: _Draft, parts: Iterable[_Part]) -> str:
    drawn, blank = [_head(draft)], "\n" if draft.blanks else ""
    for part in parts:
        drawn += [blank, draft.drawn(Paper.line, part.heading, ink=Ink.HEAD), *part.items]
        drawn += _bullets(draft, [f"and {part.left_out} more: -o json has all"] if part.left_out else [])
    if any(each.kind in _ON_THE_MACHINE for each in draft.problems):
        said = f"More evidence: kubectl winpool diagnose {draft.why.node.name}"
        drawn += [blank, draft.drawn(Paper.line, said)]
    return "".join(drawn)


def _head(draft: _Draft) -> str:
    why, judged, paper = draft.why, draft.why.judged, Paper(draft.look)
    paper.titled("Node", why.node.name)
    paper.titled("Pool", "none." if judged is None else judged.pool.name)
    if judged is not None:
        target = f"; the pool asks for {judged.overview.target}" if judged.overview is not None else ""
        paper.titled("Runs", f"Windows {gates.clipped(why.node.versions.kernel, 40) or 'unknown'}{target}")
    if why.cluster.leader_problem:
        paper.titled(
            "Leader", replace(draft, most=draft.most // 2).cut(why.cluster.leader_problem), ink=Ink.BAD
        )
    _state(paper, draft)
    if judged is not None and judged.refusal:
        said = f"The operator does not act on the spec of the pool: {judged.refusal}"
        paper.wrapped(draft.cut(said), first=" " * paper.title_width)
    return paper.text


def _state(paper: Paper, draft: _Draft) -> None:
    """Write what is worst; of an upgrade also why it is due."""
    if draft.problems:
        worst = draft.problems[0]
        paper.titled("State", _said(draft, worst), ink=_ink(draft, worst))
    else:
        ink, said = STATES[Standing.NOTHING_DUE]
        paper.titled("State", said, ink=ink)
    due = draft.why.due
    if due is None or draft.problems[0].kind != NodeProblem.UPGRADE:
        return
    if draft.details or draft.why.progress is None:  # what has begun matters more than why
        # What a person asks for is nowhere else on the screen.
        texts = [
            f"{each.trigger}: {draft.cut(each.said)}"
            if draft.details or each.trigger is Trigger.REQUEST
            else str(each.trigger)
            for each in due.due
        ]
        paper.titled("Due", (" " if draft.details else ", ").join(texts))


def _parts(draft: _Draft) -> Iterator[_Part]:
    """Yield the parts below the head: the upgrade in full only where nothing is worse."""
    why, problems = draft.why, draft.problems
    if not problems or problems[0].kind == NodeProblem.UPGRADE:
        yield from _upgrade(draft)
    others = [draft.drawn(Paper.marked, _said(draft, each), ink=_ink(draft, each)) for each in problems[1:]]
    yield _Part(f"Also: {len(others)}", tuple(others))
    yield _Part(NEXT, _bullets(draft, [each for one in problems for each in one.next] or next_of(why)))
    to_dos = [each for one in problems for each in one.to_do]
    yield _Part(TO_DO, _bullets(draft, to_dos or to_do(why)))


def _ink(draft: _Draft, problem: Problem) -> Ink:
    return STATES[draft.why.standing][0] if problem.kind == NodeProblem.UPGRADE else _INK[problem.severity]


def _said(draft: _Draft, problem: Problem) -> str:
    """Return a problem in one paragraph. An upgrade is named by its state, and has what keeps it if short."""
    is_worst = problem is draft.problems[0]
    why, said = draft.why, replace(draft, most=draft.most * (1 + is_worst)).cut(problem.said)
    if problem.kind != NodeProblem.UPGRADE:
        since = f", for {age(problem.since, now=why.cluster.now)}" if problem.since is not None else ""
        return f"{problem.kind}{since}: {said}"
    if is_worst:
        return said
    if why.progress is not None:
        return f"{said} {draft.cut(why.progress.waits_for)}".rstrip()
    closed = [each.name for _, stops, _ in levels(why) for each in stops]
    closed += [str(each.gate) for _, _, found in levels(why) for each in found if not each.permits]
    return f"{said} Closed: {', '.join(closed)}." if closed else said


def _bullets(draft: _Draft, lines: Iterable[str]) -> tuple[str, ...]:
    most = max(draft.most, _SENTENCE)
    return tuple(draft.drawn(Paper.bullets, [gates.clipped(each, most)]) for each in dict.fromkeys(lines))


def _cause(draft: _Draft, name: str, message: str, opens: str = "") -> str:
    text = draft.drawn(Paper.marked, f"{name}: {draft.cut(message)}", ink=Ink.BAD)
    if opens:
        text += draft.drawn(Paper.wrapped, draft.cut(opens), first="    To open: ", rest="    ")
    return text


# The upgrade in full


def _upgrade(draft: _Draft) -> Iterator[_Part]:
    why, progress = draft.why, draft.why.progress
    yield from _gates(draft) if progress is None else _progress(draft, progress)
    causes = [
        _cause(draft, f"{each.pod}: {each.why}{_LASTING if each.is_permanent else ''}", each.message)
        for each in (why.foreseen if progress is None else progress.blockers)
    ]
    yield _Part(f"What {'would block' if progress is None else 'blocks'} its pods:", tuple(causes))
    whole = replace(draft, most=max(draft.most, _SENTENCE))
    yield _Part("Its pods:", _bullets(draft, map(whole.cut, _notes(draft))))


_LASTING: Final = ", until someone changes it"


def _progress(draft: _Draft, progress: Progress) -> Iterator[_Part]:
    """Yield how far the operator is with the node."""
    claim, now = progress.claim, draft.why.cluster.now
    until = f", until {written_moment(claim.deadline)}" if claim.deadline is not None else ""
    lines = [f"since {written_moment(claim.since)} ({age(claim.since, now=now)}){until}"]
    if progress.waits_for:
        lines.append(f"Waits for: {draft.cut(progress.waits_for)}")
    yield _Part(f"Upgrade: {claim.state}", ("".join(_bullets(draft, lines)),))  # one item, always shown


def _gates(draft: _Draft) -> Iterator[_Part]:
    """Yield what is closed and what opens it; what is open, by its name where there is no more to say."""
    closed: list[str] = []
    shown: list[str] = []
    plain: list[str] = []
    for of, stops, found in levels(draft.why):
        closed += [_cause(draft, f"{each.name} ({ABOUT[of]})", each.message, each.opens) for each in stops]
        for each in found:
            unknown = ", unknown" if each.stand is Stand.UNKNOWN else ""
            if not each.permits:
                name = f"{each.gate} ({ABOUT[of]}){unknown}"
                closed.append(_cause(draft, name, each.message, each.opens))
            elif each.stand is Stand.OPEN and each.override is None:
                plain.append(str(each.gate))
            else:
                shown.append(draft.drawn(gates.write_open, [each], of=ABOUT[of]))
    if closed:
        yield _Part(f"Closed: {len(closed)}", tuple(closed))
    if plain and draft.details:
        shown.append(draft.drawn(Paper.marked, ", ".join(plain), ink=Ink.GOOD))
    yield _Part("Open:" if closed else "Closed gates: none. Open:", tuple(shown))


def _notes(draft: _Draft) -> Iterator[str]:
    """Yield what is not known of pods and gates, and what a drain does to the pods."""
    why, due = draft.why, draft.why.due
    for each in why.cluster.evidence.problems:
        yield f"Not known: {each}"
    if why.cluster.pods_problem and why.progress is None and any(levels(why)):
        yield f"Pods, PodDisruptionBudgets or RuntimeClasses are not known: {why.cluster.pods_problem}"
    if due is not None and due.workload is not None:
        said = list(_pods(due.workload, due.fit))
        if draft.details or (len(said) > 1 and why.progress is None):
            yield f"{'; '.join(said)}."
    if draft.details and why.judged is not None and why.judged.assumes_control_plane:
        yield gates.CONTROL_PLANE_ASSUMED


def _pods(workload: Workload, fit: Fit | None) -> Iterator[str]:
    """Yield how many pods move, which of them are lost or fit nowhere, and what blocks them."""
    if not workload.is_complete:
        yield "not all could be read"
    yield f"{workload.moving_pods or 'none'} to move"
    yield from gates.lost(workload)
    if workload.blocked:
        yield f"{workload.blocked} cannot be evicted now: {gates.blocked(workload)}"
    if workload.longest_grace:
        yield f"longest grace {workload.longest_grace} s"
    if fit is not None:
        yield from gates.misfits(fit)
