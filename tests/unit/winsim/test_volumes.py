"""What an attacher does about a VolumeAttachment."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.every import every
from testbed.winsim.volumes import (
    AttachmentMetadata,
    AttachmentSpec,
    AttachmentStatus,
    Do,
    VolumeAttachment,
    next_step,
    patch,
)

NOW = datetime(2026, 11, 21, 8, 0, 10, tzinfo=UTC)
DELETED = "2026-11-21T08:00:00Z"
OURS = "winsim.example.com/win"


def attachment(
    *, held: bool = True, attached: bool = True, deleted: bool = False, seconds: str | None = None
) -> VolumeAttachment:
    return VolumeAttachment(
        AttachmentMetadata(
            name="csi-1",
            resource_version="7",
            annotations={} if seconds is None else {"winsim/detach-seconds": seconds},
            deletion_timestamp=DELETED if deleted else None,
            finalizers=("example.com/other", OURS) if held else ("example.com/other",),
        ),
        AttachmentSpec("win-w01"),
        AttachmentStatus(attached),
    )


@every(
    ("found", "ours", "expected"),
    [
        (attachment(held=False, attached=False), True, (Do.HOLD, 0.0)),
        (attachment(attached=False), True, (Do.ATTACH, 0.0)),
        (attachment(), True, None),
        (attachment(held=False, attached=False), False, None),
        (attachment(deleted=True), True, (Do.DETACH, 50.0)),
        (attachment(deleted=True), False, (Do.DETACH, 50.0)),
        (attachment(deleted=True, held=False), True, None),
        (attachment(deleted=True, seconds="15"), True, (Do.DETACH, 5.0)),
        (attachment(deleted=True, seconds="0"), True, (Do.DETACH, 0.0)),
        (attachment(deleted=True, seconds="soon"), True, (Do.DETACH, 50.0)),
    ],
)
def test_a_volume_is_attached_at_once_and_detached_after_its_time(
    found: VolumeAttachment, ours: bool, expected: tuple[Do, float] | None
) -> None:
    assert next_step(found, ours=ours, finalizer=OURS, detach_seconds=60.0, now=NOW) == expected


def test_an_attacher_writes_to_the_version_it_has_seen_and_leaves_what_others_hold() -> None:
    assert patch(Do.HOLD, attachment(held=False), finalizer=OURS) == {
        "metadata": {"resourceVersion": "7", "finalizers": ["example.com/other", OURS]}
    }
    assert patch(Do.ATTACH, attachment(), finalizer=OURS) == {
        "metadata": {"resourceVersion": "7"},
        "status": {"attached": True},
    }
    assert patch(Do.DETACH, attachment(), finalizer=OURS) == {
        "metadata": {"resourceVersion": "7", "finalizers": ["example.com/other"]}
    }
