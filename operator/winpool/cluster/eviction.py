"""The request to evict a pod, and the answers of the API server.

A precondition names the pod by its UID, and no grace period is set, so that the pod's own holds (P5). The
answers, as pkg/registry/core/pod/storage/eviction.go of Kubernetes gives them:

- 201: the pod is being deleted.
- 404: the pod is gone. 409 with a message about the UID: another pod has its name. Asking again would do
  harm: the server checks the UID after it has counted the eviction against the disruption budget, and only
  after two minutes does it undo that. Where the budget refuses, the server never checks the UID.
- 409 without it: the pod or its budget changed again and again while the server tried, up to 10 s.
- 429 with the cause DisruptionBudget: not now. Without it the server is overloaded.
- 403 without a message of RBAC: the budget's own status is invalid.
- 500: the pod has more than one budget.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from winpool.cluster.errors import ApiError, Conflict, NotFound
from winpool.cluster.request import Request

if TYPE_CHECKING:
    from winpool.objects.acts import Eviction

_ANOTHER_UID: Final = re.compile(r"\bUID in (?:the )?precondition\b")
"""In k8s.io/apiserver: "Precondition failed: UID in precondition: …" of the storage, and "the UID in the
precondition (…) does not match the UID in record (…)" of registry/rest/delete.go."""


def request_of(eviction: Eviction) -> Request:
    """Return the request of an eviction. The transport sends it once: the caller decides about more."""
    namespace, name = quote(eviction.namespace, safe=""), quote(eviction.name, safe="")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": eviction.namespace, "name": eviction.name},
        "deleteOptions": {"preconditions": {"uid": eviction.uid}},
    }
    return Request(
        verb="create",
        resource="pods/eviction",
        name=eviction.full_name,
        path=f"/api/v1/namespaces/{namespace}/pods/{name}/eviction",
        body=msgspec.json.encode(body),
    )


def told_plainly(error: ApiError) -> ApiError:
    """Return NotFound for a conflict because another pod has that name, and any other error as it is."""
    if isinstance(error, Conflict) and _ANOTHER_UID.search(error.message):
        return NotFound(error.message, status=error.status, reason=error.reason)
    return error
