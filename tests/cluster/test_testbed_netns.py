"""The API server asks simulated nodes inside a private network namespace, and refuses outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.netns import NETWORK, VARIABLE
from testbed.winsim.addresses import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = Path(__file__).with_name("ask_nodes.py")
IN_NAMESPACE = [sys.executable, "-m", "testbed", "exec", "--netns", "--"]


def ask_nodes(directory: Path, *, prefix: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [*prefix, sys.executable, str(PROGRAM), str(directory)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    assert sorted(found) == ["win-w01", "win-w02"]
    assert len({node["address"] for node in found.values()}) == len(found)
    return found


@pytest.mark.nightly
@pytest.mark.usefixtures("private_network")
def test_inside_one_listener_answers_for_every_node_and_knows_which_was_asked(tmp_path: Path) -> None:
    for node in ask_nodes(tmp_path, prefix=IN_NAMESPACE).values():
        assert IPv4Address(node["address"]) in NETWORK
        assert node["answer"] == f"{node['address']} /stats/summary"


def test_outside_the_api_server_refuses_to_ask(tmp_path: Path) -> None:
    for node in ask_nodes(tmp_path).values():
        assert IPv4Address(node["address"]) in LOOPBACK
        assert "address not allowed" in node["answer"]
