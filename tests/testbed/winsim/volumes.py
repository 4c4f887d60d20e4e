"""Attaches volumes to simulated nodes and detaches them, as the external-attacher of a CSI driver does.

What VolumeAttachments there are is said by the controller manager. Such an object is gone once its volume is
detached: until then the attacher's finalizer holds it. The controller manager takes the volume off the node's
``status.volumesAttached`` before that.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from testbed.winsim.clock import Backoff
from testbed.winsim.identities import SIMULATOR
from testbed.winsim.pods.agenda import Agenda
from testbed.winsim.reflector import Reflector
from testbed.winsim.wire import METADATA_ONLY, ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from testbed.winsim.clock import Clock
    from testbed.winsim.troubles import Troubles
    from testbed.winsim.wire import Wire

ATTACHMENTS: Final = "/apis/storage.k8s.io/v1/volumeattachments"
DETACH_ANNOTATION: Final = "winsim/detach-seconds"
"""On a VolumeAttachment: how long its volume takes to be detached, instead of what the process was told."""
_MERGE_PATCH: Final = "application/merge-patch+json"


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What all parts have in common: camelCase in JSON, empty fields left out."""


class AttachmentMetadata(_Part, frozen=True):
    """ObjectMeta as far as it decides what an attacher does."""

    name: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()


class AttachmentSpec(_Part, frozen=True):
    """Where the volume is to be."""

    node_name: str = ""


class AttachmentStatus(_Part, frozen=True):
    """Whether it is there."""

    attached: bool = False


class VolumeAttachment(_Part, frozen=True):
    """A VolumeAttachment as read."""

    metadata: AttachmentMetadata = AttachmentMetadata()
    spec: AttachmentSpec = AttachmentSpec()
    status: AttachmentStatus = AttachmentStatus()


class Do(StrEnum):
    """What can be done about a VolumeAttachment."""

    HOLD = "holding a VolumeAttachment"
    ATTACH = "attaching a volume"
    DETACH = "detaching a volume"


def next_step(
    attachment: VolumeAttachment, *, ours: bool, finalizer: str, detach_seconds: float, now: datetime
) -> tuple[Do, float] | None:
    """Return what an attacher does next, and in how many seconds; None: nothing.

    Args:
        attachment: as it stands.
        ours: whether its node is one of ours.
        finalizer: what we hold it by: with it, it is ours even where the node has left.
        detach_seconds: how long a volume takes to be detached, if the object does not say.
        now: the time.

    """
    metadata = attachment.metadata
    held = finalizer in metadata.finalizers
    if metadata.deletion_timestamp is not None:
        since = (now - datetime.fromisoformat(metadata.deletion_timestamp)).total_seconds()
        takes = _seconds(metadata.annotations.get(DETACH_ANNOTATION), default=detach_seconds)
        return (Do.DETACH, max(0.0, takes - since)) if held else None
    if not ours or attachment.status.attached:
        return None
    return (Do.ATTACH, 0.0) if held else (Do.HOLD, 0.0)


def _seconds(text: str | None, *, default: float) -> float:
    try:
        given = default if text is None else float(text)
    except ValueError:
        return default
    return max(0.0, given) if isfinite(given) else default


def patch(do: Do, attachment: VolumeAttachment, *, finalizer: str) -> dict[str, Any]:
    """Return the merge patch that does it, to this very version."""
    metadata: dict[str, Any] = {"resourceVersion": attachment.metadata.resource_version}
    finalizers = attachment.metadata.finalizers
    match do:
        case Do.HOLD:
            return {"metadata": {**metadata, "finalizers": [*finalizers, finalizer]}}
        case Do.ATTACH:
            return {"metadata": metadata, "status": {"attached": True}}
        case Do.DETACH:
            return {
                "metadata": {**metadata, "finalizers": [each for each in finalizers if each != finalizer]}
            }


class Attacher:
    """Attaches the volumes of nodes that are ours at once, and detaches them late.

    Args of the constructor besides the shared ones: ``is_ours`` tells whether a node is; ``prefix`` is that
    of the fleet; ``detach_seconds`` is how long a volume takes to be detached.

    """

    def __init__(
        self,
        wire: Wire,
        *,
        clock: Clock,
        random: Random,
        troubles: Troubles,
        is_ours: Callable[[str], bool],
        prefix: str,
        detach_seconds: float,
    ) -> None:
        self._wire = wire
        self._clock = clock
        self._random = random
        self._troubles = troubles
        self._is_ours = is_ours
        self._finalizer = f"winsim.example.com/{prefix}"
        self._detach_seconds = detach_seconds
        self._agenda: Agenda[Do] = Agenda(clock=clock)
        self._attachments: dict[str, VolumeAttachment] = {}
        self._reflector = Reflector(
            wire,
            path=ATTACHMENTS,
            kind=VolumeAttachment,
            clock=clock,
            random=random,
            troubles=troubles,
            replace=self._replace,
            change=self._change,
        )

    async def run(self) -> None:
        """Do it until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run())
            backoff = Backoff(random=self._random)
            while True:
                name, do = await self._agenda.next()
                if await self._done(do, self._attachments[name]):
                    backoff = Backoff(random=self._random)
                else:
                    self._look(name, after=backoff.next())

    def _replace(self, found: list[VolumeAttachment]) -> None:
        for name in self._attachments.keys() - {each.metadata.name for each in found}:
            self._change(self._attachments[name], True)
        for each in found:
            self._change(each, False)

    def _change(self, attachment: VolumeAttachment, gone: bool) -> None:
        name = attachment.metadata.name
        self._agenda.drop(name)
        if gone:
            self._attachments.pop(name, None)
        else:
            self._attachments[name] = attachment
            self._look(name)

    def _look(self, name: str, *, after: float = 0.0) -> None:
        attachment = self._attachments.get(name)
        if attachment is None:
            return
        step = next_step(
            attachment,
            ours=self._is_ours(attachment.spec.node_name),
            finalizer=self._finalizer,
            detach_seconds=self._detach_seconds,
            now=self._clock.now(),
        )
        if step is not None:
            self._agenda.put(name, step[0], delay=max(after, step[1]))

    async def _done(self, do: Do, attachment: VolumeAttachment) -> bool:
        """Try once; whether it is done, or somebody else has been faster, of which the watch tells."""
        path = f"{ATTACHMENTS}/{attachment.metadata.name}"
        try:
            await self._wire.request(
                "PATCH",
                f"{path}/status" if do is Do.ATTACH else path,
                identity=SIMULATOR,
                body=patch(do, attachment, finalizer=self._finalizer),
                content_type=_MERGE_PATCH,
                accept=METADATA_ONLY,
            )
        except UnreachableError:
            return False
        except ApiError as error:
            if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                return True
            self._troubles.report(attachment.spec.node_name, do, error)
            return False
        return True
