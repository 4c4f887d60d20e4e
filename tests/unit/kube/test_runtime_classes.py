"""What is read of RuntimeClasses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from winpool.kube.errors import StreamGarbled
from winpool.kube.listers import RUNTIME_CLASSES, RuntimeClassLister
from winpool.kube.pods import TEXT_KEPT
from winpool.kube.request import Request
from winpool.model.pods import RuntimeClass, Toleration

Object = dict[str, Any]


def a_page(*items: Any) -> bytes:
    return json.dumps(
        {
            "kind": "RuntimeClassList",
            "apiVersion": "node.k8s.io/v1",
            "metadata": {"resourceVersion": "9"},
            "items": items,
        }
    ).encode()


def a_class(name: str = "windows-2022", **scheduling: Any) -> Object:
    return {
        "metadata": {"name": name},
        "handler": "runhcs-wcow-process",
        "overhead": {"podFixed": {"memory": "1Gi"}},
        **({"scheduling": scheduling} if scheduling else {}),
    }


async def test_selector_and_tolerations_are_read() -> None:
    page = a_page(
        a_class(
            nodeSelector={"kubernetes.io/os": "windows", "a": "b"},
            tolerations=[{"key": "os", "operator": "Exists"}],
        ),
        a_class("plain"),
    )

    async def answer(_: Request) -> bytes:
        return page

    assert await RuntimeClassLister(answer).list() == {
        "windows-2022": RuntimeClass(
            (("a", "b"), ("kubernetes.io/os", "windows")), (Toleration("os", "Exists"),)
        ),
        "plain": RuntimeClass(),
    }


def test_of_one_that_is_too_long_only_its_name_is_kept() -> None:
    page = a_page(a_class(nodeSelector={"a": "x" * TEXT_KEPT}))
    assert RUNTIME_CLASSES.decode(page).items == (("windows-2022", None),)


@pytest.mark.parametrize(
    "body",
    [
        a_page().replace(b"RuntimeClassList", b"PodList"),
        a_page({"metadata": {}}),
        a_page(7),
        a_page(a_class(nodeSelector=7)),
        a_page(a_class(tolerations=[7])),
    ],
)
def test_what_is_no_list_of_runtime_classes_is_refused(body: bytes) -> None:
    """One that is left out would count as one that does not exist."""
    with pytest.raises(StreamGarbled, match="list runtimeclasses"):
        RUNTIME_CLASSES.decode(body)
