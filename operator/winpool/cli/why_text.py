"""Writes what is wrong with a node, its upgrade, what happens next and what to do, on one screen."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.text import written_moment
from winpool.api.upgrade import Trigger
from winpool.cli import gates
from winpool.cli.console import Ink, Look, Paper, rows_of
from winpool.cli.counts import age
from winpool.cli.node_problems import NodeProblem, Problem, Severity, problems_of
from winpool.cli.node_upgrade import ABOUT, STATES, Standing, Why, levels, next_of, to_do
from winpool.features.upgrade.records import Stand

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from winpool.features.upgrade.capacity import Fit
    from winpool.model.pods import Workload

LINES: Final = 23
"""Of a terminal of 24, the last is for the prompt."""

NEXT: Final = "Next:"
TO_DO: Final = "What you can do:"

_ON_THE_MACHINE: Final = (
    NodeProblem.NOT_READY,
    NodeProblem.VALIDATING,
    IssueReason.VALIDATION_TIMED_OUT,
)
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
    drawn = [_head(draft)]
    for part in parts:
        paper = Paper(draft.look)
        if draft.blanks:
            paper.line()
        paper.line(part.heading, ink=Ink.HEAD)
        drawn += [paper.text, *part.items]
        drawn += _bullets(draft, [f"and {part.left_out} more: -o json has all"] if part.left_out else [])
    if any(each.kind in _ON_THE_MACHINE for each in draft.problems):
        paper = Paper(draft.look)
        if draft.blanks:
            paper.line()
        paper.line(f"More evidence: kubectl winpool diagnose {draft.why.node.name}")
        drawn.append(paper.text)
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
    others = [_marked(draft, _said(draft, each), _ink(draft, each)) for each in problems[1:]]
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
    drawn = []
    for each in dict.fromkeys(lines):
        paper = Paper(draft.look)
        paper.bullets([gates.clipped(each, max(draft.most, _SENTENCE))])
        drawn.append(paper.text)
    return tuple(drawn)


def _marked(draft: _Draft, text: str, ink: Ink) -> str:
    paper = Paper(draft.look)
    paper.marked(text, ink=ink)
    return paper.text


def _cause(draft: _Draft, name: str, message: str, opens: str = "") -> str:
    paper = Paper(draft.look)
    paper.marked(f"{name}: {draft.cut(message)}", ink=Ink.BAD)
    if opens:
        paper.wrapped(draft.cut(opens), first="    To open: ", rest="    ")
    return paper.text


# The upgrade in full


def _upgrade(draft: _Draft) -> Iterator[_Part]:
    why = draft.why
    yield from _progress(draft) if why.progress is not None else _gates(draft)
    blockers = why.foreseen if why.progress is None else why.progress.blockers
    causes = [(f"{each.pod}: {each.why}{_LASTING if each.is_permanent else ''}", each) for each in blockers]
    yield _Part(
        "What would block its pods:" if why.progress is None else "What blocks its pods:",
        tuple(_cause(draft, name, each.message) for name, each in causes),
    )
    whole = replace(draft, most=max(draft.most, _SENTENCE))
    yield _Part("Its pods:", _bullets(draft, map(whole.cut, _notes(draft))))


_LASTING: Final = ", until someone changes it"


def _progress(draft: _Draft) -> Iterator[_Part]:
    """Yield how far the operator is with the node."""
    progress, now = draft.why.progress, draft.why.cluster.now
    if progress is None:
        return
    claim = progress.claim
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
                paper = Paper(draft.look)
                gates.write_open(paper, [each], of=ABOUT[of])
                shown.append(paper.text)
    if closed:
        yield _Part(f"Closed: {len(closed)}", tuple(closed))
    if plain and draft.details:
        shown.append(_marked(draft, ", ".join(plain), Ink.GOOD))
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
