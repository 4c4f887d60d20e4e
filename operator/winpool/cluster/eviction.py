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
- Any status from 400 on, with any reason: an admission webhook denies it. Some choose 429 (KubeVirt), which
  is not flow control, and 401 would say nothing of our credentials. 403, 413 or 422: a policy denies it.

A 404 about something else says nothing of the pod: its budget was deleted while the server tried, or a proxy
does not know the path. Nor does an answer below 300 that is not the Success of the API server.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from winpool.cluster.errors import ApiError, Conflict, Forbidden, NotFound, StreamGarbled, Unavailable
from winpool.cluster.request import Request
from winpool.cluster.status_object import is_success

if TYPE_CHECKING:
    from winpool.objects.acts import Eviction

_ANOTHER_UID: Final = re.compile(r"\bUID in (?:the )?precondition\b")
"""In k8s.io/apiserver: "Precondition failed: UID in precondition: …" of the storage, and "the UID in the
precondition (…) does not match the UID in record (…)" of registry/rest/delete.go."""

_DENIED: Final = re.compile(
    r"""\badmission webhook "|\bfailed calling webhook "|\b(?:Validating|Mutating)AdmissionPolicy '"""
)
"""In k8s.io/apiserver: pkg/admission/plugin. The first two are of webhooks that deny, and that fail."""

_BUDGET_GONE: Final = "poddisruptionbudgets"


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


def told_plainly(error: ApiError, eviction: Eviction) -> ApiError:
    """Return the error whose type says what ``error`` means for the pod.

    NotFound only where the pod, or its namespace, is gone; Forbidden for each denial by admission.
    """
    said, status, reason = error.message, error.status, error.reason
    if status is None:
        return error
    if _DENIED.search(said):
        return Forbidden(said, status=status, reason=reason, retry_after=error.retry_after)
    if isinstance(error, Conflict) and _ANOTHER_UID.search(said):
        return NotFound(said, status=status, reason=reason)
    if not isinstance(error, NotFound):
        return error
    if f'pods "{eviction.name}" not found' in said or f'namespaces "{eviction.namespace}" not found' in said:
        return error
    kind = Conflict if _BUDGET_GONE in said else Unavailable
    return kind(said, status=status, reason=reason, retry_after=error.retry_after)


def check_evicted(answer: bytes | bytearray, eviction: Eviction) -> None:
    """Raise StreamGarbled where ``answer`` is not what the API server says of a pod that it deletes."""
    if not is_success(answer):
        raise StreamGarbled(
            f"create pods/eviction {eviction.full_name}: the answer does not say that the pod is evicted"
        )
