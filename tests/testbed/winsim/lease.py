"""The heartbeat of a node: its Lease in kube-node-lease, kept as kubelets keep it.

Follows component-helpers' lease controller (``apimachinery/lease/controller.go``): renew on the
last known version without reading it; only where that fails read it, or create it if it is gone,
which needs the Node, because the Node owns it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from testbed.winsim.clock import Backoff, jittered, micro_timestamp
from testbed.winsim.identities import node_identity
from testbed.winsim.objects import Lease, LeaseSpec, Metadata, OwnerReference
from testbed.winsim.wire import ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from testbed.winsim.clock import Clock
    from testbed.winsim.schedule import Timing
    from testbed.winsim.troubles import Troubles
    from testbed.winsim.wire import Wire

NAMESPACE: Final = "kube-node-lease"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
# maxUpdateRetries of the lease controller.
_CONFLICT_TRIES: Final = 5
_LEASE: Final = msgspec.json.Decoder(Lease)


class NodeLease:
    """Claims and renews the Lease of one node. ``owner`` looks up the UID of its Node, None if gone."""

    def __init__(
        self,
        node: str,
        *,
        wire: Wire,
        clock: Clock,
        timing: Timing,
        random: Random,
        troubles: Troubles,
        owner: Callable[[], Awaitable[str | None]],
    ) -> None:
        self._node = node
        self._identity = node_identity(node)
        self._path = f"{_LEASES}/{node}"
        self._wire = wire
        self._clock = clock
        self._timing = timing
        self._random = random
        self._troubles = troubles
        self._owner = owner
        self._latest: Lease | None = None

    async def keep(self) -> None:
        """Claim the Lease, then renew it for ever, at a quarter of its duration."""
        timing = self._timing
        while True:
            await self.sync()
            await self._clock.sleep(jittered(timing.lease_renewal, factor=timing.jitter, random=self._random))

    async def sync(self) -> None:
        """Renew once; claim the Lease first where that is needed."""
        if self._latest is not None and await self._renew(self._latest):
            return
        self._latest, created = await self._ensure()
        if self._latest is not None and not created:
            await self._renew(self._latest)

    async def _renew(self, base: Lease | None) -> bool:
        for _ in range(_CONFLICT_TRIES):
            if base is None:
                return False
            try:
                self._latest = await self._send("PUT", self._path, await self._owned(base))
            except UnreachableError:
                return False
            except ApiError as error:
                self._troubles.report(self._node, "renewing its Lease", error)
                if error.code != HTTPStatus.CONFLICT:
                    return False
                base, _ = await self._ensure()
            else:
                return True
        return False

    async def _ensure(self) -> tuple[Lease | None, bool]:
        """Read the Lease, or create it; try until there is an answer. None: the Node is gone."""
        backoff = Backoff(random=self._random)
        while True:
            try:
                return await self._read_or_create()
            except UnreachableError:
                pass
            except ApiError as error:
                self._troubles.report(self._node, "claiming its Lease", error)
            await self._clock.sleep(backoff.next())

    async def _read_or_create(self) -> tuple[Lease | None, bool]:
        try:
            return await self._send("GET", self._path), False
        except ApiError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
        lease = await self._owned(
            Lease(
                api_version="coordination.k8s.io/v1",
                kind="Lease",
                metadata=Metadata(name=self._node, namespace=NAMESPACE),
                spec=LeaseSpec(self._node, self._timing.lease_duration),
            )
        )
        if not lease.metadata.owner_references:
            return None, False
        return await self._send("POST", _LEASES, lease), True

    async def _owned(self, base: Lease) -> Lease:
        """Renew the time, and name the Node as owner where nobody is named yet."""
        metadata = base.metadata
        if not metadata.owner_references and (uid := await self._owner()):
            metadata = replace(metadata, owner_references=(OwnerReference("v1", "Node", self._node, uid),))
        return replace(
            base, metadata=metadata, spec=replace(base.spec, renew_time=micro_timestamp(self._clock.now()))
        )

    async def _send(self, method: str, path: str, lease: Lease | None = None) -> Lease:
        return _LEASE.decode(await self._wire.request(method, path, identity=self._identity, body=lease))
