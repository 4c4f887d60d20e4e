"""Whether the API server knows the kind WindowsNodePool, and which fields of it: by a watch of the CRD.

The watch of pools belongs to Kopf, and ends without a notice to us where the CRD is deleted; the next list of
pools may come five minutes later. The CRD is listed at the start only: what its watch misses, the list of
pools shows.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from winpool.api.crd import schema
from winpool.api.crd_fields import lacking_fields, name_of
from winpool.api.keys import CRD_NAME
from winpool.cluster.named import Target
from winpool.cluster.named_watch import NamedWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.api.crd_fields import FieldPath
    from winpool.cluster.named import NamedObject
    from winpool.cluster.transport import Transport

log = logging.getLogger(__name__)

NOT_INSTALLED: Final = f"the CRD {CRD_NAME} is not installed: kubectl apply -k crds"

OLDER: Final = f"the CRD {CRD_NAME} is older than this operator: it lacks"

_CRD: Final = Target(
    group="apiextensions.k8s.io",
    version="v1",
    resource="customresourcedefinitions",
    kind="CustomResourceDefinition",
    name=CRD_NAME,
)


class PoolKind:
    """What is known of the CRD while ``run`` runs.

    ``lacking_fields`` are the fields of spec and status that this operator knows and the CRD lacks, since it
    is older. It is None until the CRD was read, or the first try to read it has failed.

    ``on_change`` is called, synchronously, when the CRD was changed, created or deleted; not for its state at
    the start. ``on_fields`` is called, synchronously, when ``lacking_fields`` has changed. Both must not
    block and must not raise. Without the right to watch the CRD, nothing is known of it.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        on_change: Callable[[], None],
        on_fields: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self.lacking_fields: tuple[FieldPath, ...] | None = None
        self._on_change = on_change
        self._on_fields = on_fields
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
        found = self._watch.found
        if found is not None and (found != self._found or self.lacking_fields is None):
            self._compare(found)
        elif found is None and (self._watch.watched or self._watch.failing is not None):
            self._set_lacking(())
        if not self._watch.watched:
            return
        is_news = self._is_seen and found != self._found
        self._is_seen, self._found = True, found
        if is_news:
            self._on_change()

    def _compare(self, found: NamedObject) -> None:
        before, lacking = self.lacking_fields, lacking_fields(found.spec, schema())
        if lacking == (before or ()):
            self._set_lacking(lacking)
            return
        if lacking:
            log.warning(
                f"{OLDER} %s; no spec can set these fields, and the status of pools is written without "
                "them: kubectl apply -k crds",
                ", ".join(map(name_of, lacking)),
            )
        else:
            log.info("the CRD %s has all fields of this operator", CRD_NAME)
        self._set_lacking(lacking)

    def _set_lacking(self, lacking: tuple[FieldPath, ...]) -> None:
        is_news = lacking != self.lacking_fields
        self.lacking_fields = lacking
        if is_news:
            self._on_fields()
