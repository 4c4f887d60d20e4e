"""Writing our conditions of a node by server-side apply, so that those of the kubelet and of others stay.

Each apply names all conditions of ours that are to stand: the API server takes off what the same manager had
applied before and leaves out now. No other apply of ours is about nodes, or one would take off what the other
has put on. It forces, since what others wrote of a condition that we are to write is theirs no more.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from winpool.api.keys import FIELD_MANAGER
from winpool.cluster.node_requests import NODES_PATH
from winpool.cluster.request import APPLY_PATCH, Request
from winpool.objects.node import MESSAGE_LENGTH, REASON_LENGTH

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.objects.acts import ConditionsPatch
    from winpool.objects.node import NodeCondition

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
"""As the API server writes a metav1.Time, to the second."""


def request_of(patch: ConditionsPatch, *, now: datetime) -> Request:
    """Return the request that leaves exactly ``patch.conditions`` of ours on its node.

    Raises ValueError for a text that would be read back as another one, see ``NodeCondition``.
    """
    name = patch.node.name
    return Request(
        verb="patch",
        resource="nodes/status",
        name=name,
        path=f"{NODES_PATH}/{quote(name)}/status?fieldManager={FIELD_MANAGER}&force=true",
        body=encode(patch, now=now),
        content_type=APPLY_PATCH,
        guarded=True,
    )


def encode(patch: ConditionsPatch, *, now: datetime) -> bytes:
    """Write what is applied. A condition keeps its time where its status is the one that stands there.

    The time has to be sent each time, or the API server would take it off.
    """
    standing = {each.type: each for each in patch.node.conditions}
    conditions = [_condition(each, standing.get(each.type), now=now) for each in patch.conditions]
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": patch.node.name, "resourceVersion": patch.node.resource_version},
            "status": {"conditions": conditions},
        }
    )


def _condition(wanted: NodeCondition, standing: NodeCondition | None, *, now: datetime) -> dict[str, str]:
    if len(wanted.reason) > REASON_LENGTH or len(wanted.message) > MESSAGE_LENGTH:
        raise ValueError(f"condition {wanted.type}: the reason or the message is too long")
    is_same = standing is not None and standing.status == wanted.status
    since = (standing.since if standing and is_same else None) or now
    written = {
        "type": wanted.type,
        "status": wanted.status,
        "lastTransitionTime": since.astimezone(UTC).strftime(_TIME),
        "reason": wanted.reason,
        "message": wanted.message,
    }
    return {key: text for key, text in written.items() if text}
