"""Whether the API server knows the kind WindowsNodePool: by a watch of the CRD's metadata.

The watch of pools belongs to Kopf, and ends without a notice to us where the CRD is deleted; the next list of
pools may come five minutes later. The CRD is listed at the start only: what its watch misses, the list of
pools shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.keys import CRD_NAME
from winpool.cluster.named import Target
from winpool.cluster.named_watch import NamedWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.named import NamedObject
    from winpool.cluster.transport import Transport

NOT_INSTALLED: Final = f"the CRD {CRD_NAME} is not installed: kubectl apply -k crds"

_CRD: Final = Target(
    group="apiextensions.k8s.io",
    version="v1",
    resource="customresourcedefinitions",
    kind="CustomResourceDefinition",
    name=CRD_NAME,
    metadata_only=True,
)


class PoolKind:
    """What is known of the CRD while ``run`` runs.

    ``on_change`` is called, synchronously, when the CRD was changed, created or deleted; not for its state at
    the start. It must not block and must not raise. Without the right to watch the CRD, nothing is known of
    it.
    """

    def __init__(
        self, transport: Transport, *, on_change: Callable[[], None], monotonic: Callable[[], float]
    ) -> None:
        self._on_change = on_change
        self._watch = NamedWatch(
            transport, target=_CRD, on_change=self._look, monotonic=monotonic, relist_seconds=float("inf")
        )
        self._is_seen = False
        self._found: NamedObject | None = None

    @property
    def is_missing(self) -> bool:
        """Whether there is no such CRD, as last seen; False where it cannot be read."""
        return self._is_seen and self._found is None and self._watch.refusal is None

    async def run(self) -> None:
        """Watch until cancelled. Survives everything that the API server may answer."""
        await self._watch.run()

    def _look(self) -> None:
        if not self._watch.watched:
            return
        is_news = self._is_seen and self._watch.found != self._found
        self._is_seen, self._found = True, self._watch.found
        if is_news:
            self._on_change()
