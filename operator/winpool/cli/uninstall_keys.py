"""What a release leaves on nodes, what it removes that pods may need, and how far records are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.keys import APPLIED_ANNOTATION, HOLD_ANNOTATION, UPGRADE_REQUESTED_ANNOTATION
from winpool.cli.uninstall_facts import About, Caution, Unread
from winpool.cli.uninstall_nodes import names_of, requests_on
from winpool.status.assessment import NAMES_SHOWN, counted_nodes
from winpool.status.events import named
from winpool.status.node_findings import ANY_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from winpool.cli.uninstall_commands import Commands
    from winpool.cli.uninstall_facts import Facts
    from winpool.cli.uninstall_nodes import NodeFinding
    from winpool.model.node import Keys

BY_HAND: Final = 'docs/uninstall.md, "The operator is gone already"'

SHOWN: Final = 10
"""Things that a caution names. More do not help a person, and -o json has the nodes."""


def about_keys(facts: Facts, found: Sequence[NodeFinding], commands: Commands) -> Iterator[Caution]:
    """Yield what applies to records and keys."""
    yield from _records(facts, found, commands)
    yield from _staying(
        found,
        lambda each: each.lost,
        about=About.KEYS_STAY,
        why="No readable record says who set this, so it stays",
        commands=commands,
    )
    yield from _staying(
        found,
        lambda each: each.changed,
        about=About.KEYS_CHANGED,
        why="Someone else has changed this since the pool set it, so it stays as it is",
        commands=commands,
    )
    if taints := sorted({each for node in found for each in node.taints}):
        yield Caution(
            About.TAINTS_GO,
            f"The release removes taints: {some([':'.join(each) for each in taints])}. Pods that do not "
            "tolerate them can be scheduled to these nodes afterwards.",
            names_of(found, lambda each: bool(each.taints)),
        )
    if requests := requests_on(facts.nodes):
        yield Caution(
            About.REQUESTS_STAY,
            f"{counted_nodes(requests)}: {HOLD_ANNOTATION} and {UPGRADE_REQUESTED_ANNOTATION} stay. Other "
            "programs and people write these annotations.",
            requests,
        )


def some(names: Sequence[str]) -> str:
    """Name the first of them, and say how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _records(facts: Facts, found: Sequence[NodeFinding], commands: Commands) -> Iterator[Caution]:
    if unread := [each for each in found if each.why]:
        names = tuple(each.node.name for each in unread)
        yield Caution(
            About.RECORD_UNREADABLE,
            f"{counted_nodes(names)}: the ownership record in annotation {APPLIED_ANNOTATION} cannot be read "
            f"({some(sorted({each.why for each in unread}))}). Only keys under winpool.dev/ are "
            "removed from these nodes.",
            names,
        )
    recorded = [each for each in found if each.guard is not None]
    if isinstance(facts.guard, Unread) or not recorded:
        return
    if not facts.guard.identity:
        yield Caution(
            About.GUARD_NOT_IN_FORCE,
            f"The guard is not in force: {facts.guard.problem}. Without it the operator trusts the records "
            "on nodes less, and may leave keys that a pool has set. Apply it first: "
            + commands.kubectl("apply", "-k", "deploy/operator"),
        )
        return
    identity = facts.guard.identity
    if other := names_of(recorded, lambda each: each.guard != identity):
        yield Caution(
            About.RECORD_UNGUARDED,
            f"{counted_nodes(other)}: the ownership record was not written under the guard in force. If its "
            "pool exists, a running operator writes it again. If not, the operator may remove nothing: then "
            f"release the node by hand ({BY_HAND}).",
            other,
        )


def _staying(
    found: Sequence[NodeFinding],
    keys_of: Callable[[NodeFinding], Keys],
    *,
    about: About,
    why: str,
    commands: Commands,
) -> Iterator[Caution]:
    """Yield a caution for all nodes on which the same keys stay."""
    alike: dict[Keys, list[str]] = {}
    for each in found:
        if keys := keys_of(each):
            alike.setdefault(keys, []).append(each.node.name)
    for keys, nodes in list(alike.items())[:SHOWN]:
        shown = nodes if len(nodes) <= NAMES_SHOWN else [ANY_NODE]
        yield Caution(
            about,
            f"{counted_nodes(nodes)}: {named(keys)}. {why}. If no one needs it: "
            + "; ".join(commands.removal(shown, keys)),
            tuple(nodes),
        )
    if rest := tuple(name for nodes in list(alike.values())[SHOWN:] for name in nodes):
        yield Caution(about, f"{counted_nodes(rest)}: other labels or taints. {why}.", rest)
