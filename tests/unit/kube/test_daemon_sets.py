"""Which DaemonSets are read as made for Windows nodes, and how many are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.every import every
from winpool.kube.errors import StreamGarbled
from winpool.kube.listers import DAEMON_SETS, MOST_DAEMON_SETS, DaemonSetLister
from winpool.kube.request import Request
from winpool.model.pods import Toleration

Object = dict[str, Any]
WINDOWS: Object = {"nodeSelector": {"kubernetes.io/os": "windows"}}


def a_page(*items: Object) -> bytes:
    return json.dumps(
        {
            "kind": "DaemonSetList",
            "apiVersion": "apps/v1",
            "metadata": {"resourceVersion": "9"},
            "items": items,
        }
    ).encode()


def a_daemon_set(spec: Object, *, name: str = "agent", namespace: str = "shop", **metadata: Any) -> Object:
    return {
        "metadata": {"namespace": namespace, "name": name, **metadata},
        "spec": {"template": {"spec": spec}},
    }


def affine(operator: str, *values: str) -> Object:
    term = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": operator, "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


@every(
    "spec, is_read",
    [
        pytest.param(WINDOWS, True, id="by the selector"),
        pytest.param({"os": {"name": "windows"}}, True, id="by the field"),
        pytest.param(affine("In", "windows"), True, id="by required affinity"),
        pytest.param({"nodeSelector": {"kubernetes.io/os": "linux"}}, False, id="of linux"),
        pytest.param({}, False, id="without a word"),
        pytest.param(WINDOWS | affine("NotIn", "linux"), False, id="with affinity that says more"),
        pytest.param(WINDOWS | {"tolerations": [{"key": "x" * 5000}]}, False, id="with a long text"),
        pytest.param(WINDOWS | {"tolerations": [{"operator": "Exists"}]}, False, id="that tolerates all"),
        pytest.param({"nodeSelector": 7}, False, id="unreadable"),
    ],
)
def test_those_that_name_windows_are_made_for_windows_nodes(spec: Object, is_read: bool) -> None:
    found = DAEMON_SETS.decode(a_page(a_daemon_set(spec), a_daemon_set(WINDOWS, name="other"))).items
    assert [each.name for each in found] == ["shop/agent"] * is_read + ["shop/other"]


def test_what_is_read_of_one_and_none_that_is_being_deleted() -> None:
    spec = {"nodeSelector": {"kubernetes.io/os": "windows", "a": "b"}, "tolerations": [{"key": "os"}]}
    deleted = a_daemon_set(spec, deletionTimestamp="2026-11-28T00:00:00Z")
    [found] = DAEMON_SETS.decode(a_page(a_daemon_set(spec), deleted)).items
    assert found.name == "shop/agent"
    assert found.selector == (("a", "b"), ("kubernetes.io/os", "windows"))
    assert found.tolerations == (Toleration(key="os"),)


def test_what_is_no_list_of_daemon_sets_is_refused() -> None:
    with pytest.raises(StreamGarbled, match="is not a DaemonSetList"):
        DAEMON_SETS.decode(a_page().replace(b"DaemonSetList", b"PodList"))


async def test_of_very_many_those_of_kube_system_are_kept() -> None:
    many = [a_daemon_set(WINDOWS, name=f"a{number}") for number in range(MOST_DAEMON_SETS + 50)]
    page = a_page(*many, a_daemon_set(WINDOWS, namespace="kube-system", name="z"))

    async def answer(_: Request) -> bytes:
        return page

    found = await DaemonSetLister(answer).list()
    assert len(found) == MOST_DAEMON_SETS
    assert "kube-system/z" in {each.name for each in found}
