"""What ``kubectl winpool why -o json`` prints: for programs, with the names and values of the API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.text import written_moment
from winpool.cli.gate_json import due_content, gate_content, stop_content
from winpool.cli.why_advice import changes_at, next_of, to_do
from winpool.features.upgrade.plan import planned_gate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.cli.node_why import Why
    from winpool.features.upgrade.records import GateFinding, Stop


def as_json(why: Why) -> str:
    """Return all about the node."""
    judged, due = why.judged, why.due
    overview = judged.overview if judged is not None else None
    content = {
        "node": why.node.name,
        "pool": judged.pool.name if judged is not None else None,
        **({} if judged is not None else {"noPool": why.place.reason}),
        **({"refusal": judged.refusal} if judged is not None and judged.refusal else {}),
        "kernelVersion": why.node.versions.kernel,
        "target": overview.target if overview is not None else "",
        "upgradeState": why.node.labels.get(UPGRADE_STATE_LABEL),
        "standing": why.standing.value,
        "blocked": why.standing.is_blocked,
        "due": list(map(due_content, due.due)) if due is not None else [],
        "stops": [{**stop_content(stop), "of": of} for of, stops, _ in _levels(why) for stop in stops],
        "gates": [
            {**gate_content(planned_gate(gate)), "of": of} for of, _, gates in _levels(why) for gate in gates
        ],
        **({"changesAt": written_moment(at)} if (at := changes_at(why)) is not None else {}),
        "next": list(next_of(why)),
        "toDo": list(to_do(why)),
        **({"podsProblem": why.pods_problem} if why.pods_problem else {}),
    }
    return json.dumps(content, indent=2) + "\n"


def _levels(why: Why) -> Iterator[tuple[str, tuple[Stop, ...], tuple[GateFinding, ...]]]:
    """Yield stops and gates of the pool, and those of the node; none where no gate is judged for it."""
    judged, due = why.judged, why.due
    if judged is None or judged.overview is None or not judged.is_gated or due is None:
        return
    yield "Pool", judged.overview.stops, judged.overview.gates
    yield "Node", due.stops, due.gates
