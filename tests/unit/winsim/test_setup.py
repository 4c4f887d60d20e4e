"""How kubelets and runtimes are configured, and the ranges of pod addresses: what nodes show of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.documents import ROOT
from harness.every import every
from testbed.winsim import images
from testbed.winsim.endpoint.configz import configz
from testbed.winsim.lives import machine
from testbed.winsim.machines import Machine, Setup
from testbed.winsim.patches import range_patch
from testbed.winsim.roster import Roster
from testbed.winsim.scenario import Scenario
from testbed.winsim.verbs import VERBS
from testbed.winsim.verbs.kubelets import Restart

OLD = "registry.k8s.io/pause:3.5"


def filled(path: Path | None = None) -> Roster:
    roster = Roster("win", path=path)
    roster.add(["win-w01"], os="windows", addresses={"win-w01": "127.1.2.3"}, labels={}, taints=())
    return roster


def restarted(roster: Roster, **given: object) -> Machine:
    setup = Restart.model_validate({"nodes": "all", **given}).setup
    roster.set_setup(["win-w01"], setup)
    return machine(roster.entries["win-w01"])


def pauses(of: Machine) -> list[str]:
    return [each.names[-1] for each in of.os.images if "pause" in each.names[-1]]


@every(
    ("given", "listed"),
    [
        ({}, ["registry.example.com/pause:3.10.2"]),
        ({"pause_image": OLD}, []),
        ({"pause_image": OLD, "pause_pulled": True}, [OLD]),
        ({"pause_image": "usual"}, ["registry.example.com/pause:3.10.2"]),
    ],
)
def test_a_node_lists_the_pause_image_that_it_has(given: dict[str, object], listed: list[str]) -> None:
    found = restarted(filled(), **given)
    assert pauses(found) == listed
    assert len(found.os.images) == len(images.WINDOWS) - 1 + len(listed)


@every(
    ("given", "answered"),
    [
        ({}, ["10.96.0.10"]),
        ({"cluster_dns": "10.0.0.10"}, ["10.0.0.10"]),
        ({"cluster_dns": "none"}, None),
    ],
)
def test_configz_has_the_address_of_the_dns_service(given: dict[str, object], answered: object) -> None:
    config = json.loads(configz(restarted(filled(), **given), port=10250))["kubeletconfig"]
    assert config["clusterDomain"] == "cluster.local"
    assert config.get("clusterDNS") == answered


def test_what_is_configured_stays_until_it_is_said_otherwise_or_the_machine_is_new(tmp_path: Path) -> None:
    roster = filled(tmp_path / "roster.json")
    restarted(roster, pause_image=OLD, pause_pulled=True)
    restarted(roster, cluster_dns="none")
    restarted(roster)
    later = Roster("win", path=tmp_path / "roster.json")
    later.load()
    kept = Setup(cluster_dns="", pause_image=OLD, pause_pulled=True)
    assert machine(later.entries["win-w01"]).setup == kept
    later.renew(["win-w01"])
    assert machine(later.entries["win-w01"]).setup == Setup()


def test_a_range_comes_with_what_flannel_notes_of_the_node_or_without() -> None:
    found = machine(filled().entries["win-w01"])
    ranges = {"podCIDR": "10.244.1.0/26", "podCIDRs": ["10.244.1.0/26"]}
    assert range_patch(found, pod_cidr="10.244.1.0/26", flannel=False) == {"spec": ranges}
    patch = range_patch(found, pod_cidr="10.244.1.0/26", flannel=True)
    assert patch["spec"] == ranges
    assert patch["metadata"]["annotations"] == {
        "flannel.alpha.coreos.com/backend-data": '{"VNI":4096,"VtepMAC":"00:15:7f:01:02:03"}',
        "flannel.alpha.coreos.com/backend-type": "vxlan",
        "flannel.alpha.coreos.com/kube-subnet-manager": "true",
        "flannel.alpha.coreos.com/public-ip": "127.1.2.3",
    }


@every(
    ("verb", "given"),
    [
        ("restart", {"cluster_dns": "dns"}),
        ("restart", {"pause_image": "nanoserver:1809"}),
        ("restart", {"pause_pulled": True}),
        ("restart", {"pause_image": "usual", "pause_pulled": True}),
        ("assign_pod_cidr", {"pod_cidr": "10.244.1.1/24"}),
        ("assign_pod_cidr", {}),
    ],
)
def test_what_can_be_no_configuration_is_refused(verb: str, given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        VERBS[verb].model_validate({"nodes": "all", **given})


def test_the_scenarios_of_broken_nodes_can_be_played() -> None:
    files = sorted((ROOT / "demo" / "broken-nodes").glob("*.yaml"))
    scenarios = [Scenario.read(each) for each in files if each.name != "workload.yaml"]
    assert len(scenarios) == 6, "the network of all, and five faults"
