"""``diagnose``: what is asked, what is said of it, and what of a person with few rights can know.

Answers are written down: nothing here is about what the API server does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.diagnosed import NETWORK, a_node
from unit.cli.test_audit_cluster import Server, forbidden
from winpool.cli import diagnose_reader

if TYPE_CHECKING:
    from unit.cli.conftest import Ended, Plugin

Object = dict[str, Any]

NODES: Final = "/api/v1/nodes"


@pytest.fixture
def diagnose(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Return what diagnoses a cluster with these answers, by path."""
    monkeypatch.setattr(diagnose_reader, "Kubectl", Server)

    def run(*arguments: str, answers: Mapping[str, Any]) -> Ended:
        Server.asked, Server.queries, Server.answers = [], [], answers
        return plugin("diagnose", *arguments)

    return run


def test_a_node_whose_cni_is_not_ready(diagnose: Callable[..., Ended]) -> None:
    ended = diagnose("-A", answers={NODES: [a_node(ready=NETWORK), a_node("w2")]})
    assert ended.code == 3
    assert ended.out[0][4:] == "N1 Error: The node is not Ready, because its CNI is not."
    assert ended.out[1] == "    Nodes:  w1"
    assert "NetworkPluginNotReady" in ended.out[2]
    assert max(map(len, ended.out)) <= 80
