"""What happens next to a node, and what a person can do: sentences for ``kubectl winpool why``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.text import written_moment
from winpool.api.upgrade import UpgradeState
from winpool.cli.gate_text import overridable
from winpool.cli.node_why import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from winpool.cli.node_why import Why


def next_of(why: Why) -> Iterator[str]:
    """Yield what happens without anything that a person does."""
    judged, standing = why.judged, why.standing
    if standing is Standing.NO_POOL:
        yield "Nothing: the operator only removes what a pool has left on the node."
    elif standing is Standing.NOTHING_DUE:
        if judged is not None and judged.pool.deleting:
            yield "The operator releases the node."
        else:
            yield "Nothing happens until the node, or the spec of its pool, changes."
    elif standing is Standing.NOT_GATED:
        yield "Nothing: the operator reports what is due, and a person has to patch or replace the machine."
    elif standing is Standing.OPEN:
        yield (
            "The operator upgrades no node itself (strategy Manual). Any actor that waits for "
            f"{UPGRADE_STATE_LABEL}={UpgradeState.REQUIRED} may upgrade it."
        )
        if why.node.labels.get(UPGRADE_STATE_LABEL) != UpgradeState.REQUIRED:
            yield "The operator sets that label within a minute, if it runs."
    elif standing is Standing.IN_WORK:
        yield "The node itself uses up the budget, which closes the gate for all other nodes."
    else:
        yield (
            f"The label {UPGRADE_STATE_LABEL} is not {UpgradeState.REQUIRED} until every gate is open. The "
            "operator checks the gates again whenever something changes."
        )
        if at := changes_at(why):
            yield f"Time alone may change a gate at {written_moment(at)}."


def changes_at(why: Why) -> datetime | None:
    """Return when time alone may change a closed gate next; None where it changes none."""
    if why.judged is None or why.judged.overview is None or why.due is None:
        return None
    closed = (*why.judged.overview.closed, *why.due.closed)
    return min((each.changes_at for each in closed if each.changes_at is not None), default=None)


def to_do(why: Why) -> Iterator[str]:
    """Yield what a person can do."""
    judged, due, standing = why.judged, why.due, why.standing
    name = judged.pool.name if judged is not None else ""
    if standing is Standing.NO_POOL:
        yield why.place.fix or "Nothing has to be done."
    elif standing is Standing.NOTHING_DUE:
        yield "Nothing has to be done."
    elif standing is Standing.NOT_GATED:
        yield "Replace or patch the machine. To have gates judged before, add spec.upgrade to the pool."
    elif standing is Standing.OPEN:
        yield (
            f"Check the condition UpgradeAllowed again just before: kubectl get wnp {name} -o yaml. Then "
            "drain the node, and patch or replace the machine."
        )
    elif standing is Standing.IN_WORK:
        yield "Finish the upgrade, and uncordon the node."
    elif standing is Standing.UNKNOWN:
        yield f"See the issues of the pool: kubectl winpool status {name}"
    elif judged is not None and judged.overview is not None and due is not None:
        yield "Do what opens each closed gate, as written above."
        if gates := overridable((*judged.overview.closed, *due.closed)):
            yield f"In an emergency, open {' and '.join(gates)} until a date by spec.upgrade.overrides."
        yield f"See what the whole pool waits for: kubectl winpool plan {name}"
