"""Which right each path of a kubelet needs, and what /configz says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from testbed.winsim.endpoint.access import api_verb, subresources
from testbed.winsim.endpoint.configz import configz
from unit.winsim.endpoint.scenes import a_machine


@pytest.mark.parametrize(
    ("path", "old", "fine"),
    [
        ("/stats", ("stats",), ("stats",)),
        ("/stats/summary", ("stats",), ("stats",)),
        ("/stats/", ("stats",), ("stats",)),
        ("/statsx", ("proxy",), ("proxy",)),
        ("/metrics", ("metrics",), ("metrics",)),
        ("/metrics/resource", ("metrics",), ("metrics",)),
        ("/logs/kubelet.log", ("log",), ("log",)),
        ("/configz", ("proxy",), ("configz", "proxy")),
        ("/healthz", ("proxy",), ("healthz", "proxy")),
        ("/pods", ("proxy",), ("pods", "proxy")),
        ("/exec/web/shop/app", ("proxy",), ("proxy",)),
        ("/", ("proxy",), ("proxy",)),
    ],
)
def test_a_path_needs_one_of_these_subresources(
    path: str, old: tuple[str, ...], fine: tuple[str, ...]
) -> None:
    assert subresources(path, minor=32) == old
    assert subresources(path, minor=33) == fine


def test_a_method_is_a_verb_of_the_api() -> None:
    assert [api_verb(method) for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")] == [
        "get",
        "create",
        "update",
        "patch",
        "delete",
        "",
    ]


def config(memory: str, *, kubelet: str = "v1.37.1") -> dict[str, Any]:
    body = configz(a_machine(memory=memory, kubelet=kubelet), port=20005)
    return dict(json.loads(body)["kubeletconfig"])


def test_configz_tells_what_is_held_back_and_what_for() -> None:
    found = config("32Gi/4Gi/1Gi/512Mi")
    assert found["evictionHard"]["memory.available"] == "1Gi"
    assert (found["kubeReserved"], found["systemReserved"]) == ({"memory": "512Mi"}, {"memory": "2560Mi"})
    assert found["port"] == 20005


def test_a_kubelet_that_does_not_evict_for_memory_lists_thresholds_of_disks_only() -> None:
    found = config("16Gi/2Gi/none")
    assert found["evictionHard"] == {"nodefs.available": "10%", "imagefs.available": "15%"}
    assert found["systemReserved"] == {"memory": "2Gi"}


def test_what_is_not_reserved_is_not_in_configz() -> None:
    found = config("16Gi/500Mi")
    assert found["evictionHard"]["memory.available"] == "500Mi"
    assert not {"systemReserved", "kubeReserved"} & found.keys()
