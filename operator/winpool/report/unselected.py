"""A selector that matches no Windows node: which labels the nodes have that come nearest to it.

That is right where a pool starts from zero nodes, and what a mistake in a label looks like. Which of the two
it is only a person can say, so the pool stays Ready and names what comes nearest. Nothing here is computed
for a pool that selects a node.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.keys import OS_LABEL, OS_WINDOWS
from winpool.api.selector import SelectorOperator, SelectorRequirement
from winpool.api.syntax import is_own
from winpool.ownership.membership import Claim, meets
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from winpool.api.v1alpha1 import NodeSelector
    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot

NEAREST: Final = 4
"""As many labels as a sentence bears."""

UNMET_TOLD: Final = 3
"""So many requirements are explained. Once these are met, the next pass explains the others."""

COMPARED: Final = 500
"""So many keys or values are compared with one that no node has. A cluster has some dozens; whoever invents
more on a node must not cost us more."""

CUTOFF: Final = 0.6
"""How alike two texts have to be, from 0 to 1. It is difflib's own default."""


def unselected_findings(snapshot: Snapshot, assessed: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding where the selector of the pool matches no Windows node."""
    pool = snapshot.pool
    if pool.deleting or pool.spec is None or any(each.claim is not Claim.LEFT for each in assessed):
        return
    nodes = [node.labels for node in snapshot.nodes if node.labels.get(OS_LABEL) == OS_WINDOWS]
    yield Finding(
        IssueReason.NO_NODES_SELECTED,
        (),
        f"nodeSelector selects no Windows node. {nearest(pool.spec.node_selector, nodes)}",
        "Correct nodeSelector, or label the nodes. If the pool starts from zero nodes, there is nothing "
        "to do.",
        cause=IssueReason.NO_NODES_SELECTED,
    )


def nearest(selector: NodeSelector, nodes: Sequence[Mapping[str, str]]) -> str:
    """Say what the nodes with these labels have in place of what the selector asks for.

    The nearest are those that meet the most of it. The text does not depend on the order of the nodes, nor on
    how many are alike.
    """
    if not nodes:
        return "The cluster has no Windows nodes."
    asked = _requirements(selector)
    distances = [_distance(asked, labels) for labels in nodes]
    shortest = min(distances)
    near = [labels for labels, distance in zip(nodes, distances, strict=True) if distance == shortest]
    return " ".join(_instead(asked[place], near) for place in shortest[2][:UNMET_TOLD])


def _distance(
    asked: Sequence[SelectorRequirement], labels: Mapping[str, str]
) -> tuple[int, int, tuple[int, ...]]:
    """Return how far a node is: how much it does not meet, how many keys it lacks, and what that is."""
    unmet = tuple([place for place, each in enumerate(asked) if not meets(each, labels)])
    return len(unmet), sum(asked[place].key not in labels for place in unmet), unmet


def _requirements(selector: NodeSelector) -> tuple[SelectorRequirement, ...]:
    """Return all that the selector asks for, in one form and in a stable order."""
    labels = (
        SelectorRequirement(key=key, operator=SelectorOperator.IN, values=(value,))
        for key, value in sorted(selector.match_labels.items())
    )
    return (*labels, *selector.match_expressions)


def _instead(asked: SelectorRequirement, near: Sequence[Mapping[str, str]]) -> str:
    """Say what the nearest nodes have in place of ``asked``, which none of them meets."""
    key = asked.key
    values = {labels[key] for labels in near if key in labels}
    if asked.operator in (SelectorOperator.NOT_IN, SelectorOperator.DOES_NOT_EXIST):
        return f"It excludes {_listed(key, sorted(values))}, which the nearest Windows nodes have."
    wanted = f"It asks for {_listed(key, asked.values)}" if asked.values else f"It asks for the label {key}"
    if values:
        return f"{wanted}; the nearest Windows nodes have {_listed(key, _closest(asked.values, values))}."
    keys = _alike(key, {each for labels in near for each in labels})
    instead = f", but {', '.join(keys)}" if keys else ""
    return f"{wanted}; the nearest Windows nodes have no label {key}{instead}."


def _listed(key: str, values: Sequence[str]) -> str:
    """Write the first of these labels as kubectl does."""
    more = ", …" if len(values) > NEAREST else ""
    return ", ".join(f"{key}={value}" for value in values[:NEAREST]) + more


def _closest(wanted: Sequence[str], values: Collection[str]) -> list[str]:
    """Return ``values``, those first that are most like one that is wanted."""
    known = sorted(values)[:COMPARED]
    alike = [near for each in wanted[:NEAREST] for near in get_close_matches(each, known, n=NEAREST)]
    return list(dict.fromkeys((*alike, *known)))


def _alike(key: str, keys: Collection[str]) -> list[str]:
    """Return those of ``keys`` whose name is like that of ``key``, whatever stands before the slash."""
    names: dict[str, list[str]] = {}
    for each in sorted(keys)[:COMPARED]:
        if not is_own(each):
            names.setdefault(_name_of(each), []).append(each)
    close = get_close_matches(_name_of(key), names, n=NEAREST, cutoff=CUTOFF)
    return [each for name in close for each in names[name]][:NEAREST]


def _name_of(key: str) -> str:
    return key.rpartition("/")[2]
