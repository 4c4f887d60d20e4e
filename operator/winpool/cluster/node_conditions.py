"""Writing our conditions of a node by server-side apply, so that those of the kubelet and of others stay.

Each apply has all conditions of ours that the node is to have: the API server removes what the same manager
applied before and leaves out now. The operator sends no other apply for nodes. Otherwise one apply would
remove what the other has set. It uses ``force``, so that it also takes over conditions of ours that others
wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from winpool.api.keys import FIELD_MANAGER
from winpool.api.moments import written_moment
from winpool.cluster.node_requests import NODES_PATH
from winpool.cluster.request import APPLY_PATCH, Request
from winpool.objects.node import MESSAGE_LENGTH, REASON_LENGTH

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.objects.acts import ConditionsPatch
    from winpool.objects.node import NodeCondition


def request_of(patch: ConditionsPatch, *, now: datetime) -> Request:
    """Return the request after which its node has exactly ``patch.conditions`` of ours.

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
    """Write what is applied. A condition keeps its time where the node has it with the same status.

    The time has to be sent each time. Otherwise the API server would remove it.
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
        "lastTransitionTime": written_moment(since),
        "reason": wanted.reason,
        "message": wanted.message,
    }
    return {key: text for key, text in written.items() if text}
