"""What is read of the volumes that are attached to nodes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from harness.builders import NOON
from harness.every import every
from winpool.kube import listers
from winpool.kube.errors import StreamGarbled, TooLarge
from winpool.kube.listers import AttachmentLister
from winpool.kube.request import Request
from winpool.model.rollout import Attachments

Object = dict[str, Any]


def an_attachment(name: str, *, node: str = "w1", volume: str | None = None) -> Object:
    source: Object = {"inlineVolumeSpec": {}} if volume is None else {"persistentVolumeName": volume}
    return {
        "metadata": {"name": name},
        "spec": {"attacher": "disk.csi.azure.com", "nodeName": node, "source": source},
        "status": {"attached": False},
    }


def listed(*items: Object) -> Attachments:
    async def answer(_: Request) -> bytes:
        head = {"kind": "VolumeAttachmentList", "apiVersion": "storage.k8s.io/v1"}
        return json.dumps(head | {"metadata": {"resourceVersion": "9"}, "items": items}).encode()

    return asyncio.run(AttachmentLister(answer).list(started=NOON, began=7.0))


def test_volumes_are_known_by_their_nodes_as_long_as_there_is_an_attachment() -> None:
    found = listed(
        an_attachment("csi-2", volume="pv-2"),
        an_attachment("csi-1", volume="pv-1"),
        an_attachment("csi-3", node="w2", volume="pv-3"),
    )
    assert found == Attachments(NOON, 7.0, {"w1": ("pv-1", "pv-2"), "w2": ("pv-3",)})


def test_one_without_a_persistent_volume_has_its_own_name() -> None:
    assert listed(an_attachment("csi-1")).volumes == {"w1": ("csi-1",)}


@every(
    "item", [{}, an_attachment(""), an_attachment("csi-1", node=""), an_attachment("csi-1", node="x" * 999)]
)
def test_with_one_that_cannot_be_read_nothing_is_known(item: Object) -> None:
    with pytest.raises(StreamGarbled, match="volumeattachments: one that cannot be read"):
        listed(an_attachment("csi-2"), item)


def test_of_too_many_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listers, "MOST_ATTACHMENTS", 2)
    with pytest.raises(TooLarge):
        listed(*(an_attachment(f"csi-{number}") for number in range(3)))
