"""Which Pod the operator that leads runs in, by the Lease that it holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from winpool.api.keys import NAMESPACE
from winpool.api.rbac import LEASE
from winpool.api.text import printable
from winpool.cli.reasons import GARBLED, NotAskedError, reason_of
from winpool.kube.errors import ApiError, NotFound
from winpool.kube.request import Request
from winpool.kube.wire import BROKEN

if TYPE_CHECKING:
    from winpool.kube.client import Transport

_REQUEST: Final = Request(
    verb="get",
    resource="leases",
    name=LEASE,
    path=f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}",
)

_POD: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
"""A name that a Pod can have (RFC 1123). It becomes part of a command line, and comes from the Lease."""

NO_LEADER: Final = (
    f"no operator holds the Lease {NAMESPACE}/{LEASE}: check that the operator runs with "
    f"kubectl -n {NAMESPACE} get pods, or name its address with --url"
)


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


async def leading_pod(transport: Transport) -> str:
    """Return the name of the Pod. Raises NotAskedError."""
    try:
        lease = msgspec.json.decode(await transport.request(_REQUEST), type=_Lease)
    except NotFound:
        raise NotAskedError(NO_LEADER) from None
    except ApiError as error:
        raise NotAskedError(reason_of(error)) from error
    except BROKEN as error:
        raise NotAskedError(f"{GARBLED} ({error})") from error
    return pod_of(lease.spec.holder_identity or "")


def pod_of(holder: str) -> str:
    """Return the Pod of a holder of the Lease: its host, before the part that tells its processes apart.

    Raises NotAskedError for what is not the identity of an operator in a Pod.
    """
    if not holder:
        raise NotAskedError(NO_LEADER)
    pod = holder.rpartition("_")[0]
    if not _POD.fullmatch(pod):
        raise NotAskedError(
            f"the Lease {NAMESPACE}/{LEASE} is held by {printable(holder[:100])!r}, which is not a Pod: name "
            "the address of the operator with --url"
        )
    return pod
