"""What the simulated machines are, and how they are named and addressed."""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.winsim.addresses import assign_addresses, machine_network
from testbed.winsim.machines import WINDOWS_RELEASES, Machine, build_fleet, node_names


def fleet(*, windows: int = 12, linux: int = 2) -> tuple[Machine, ...]:
    names = node_names("win", windows=windows, linux=linux)
    return build_fleet("win", windows=windows, linux=linux, addresses=assign_addresses(names, seed="s"))


def test_every_kubelet_says_the_version_it_was_given() -> None:
    addresses = assign_addresses(["win-w01"], seed="s")
    (machine,) = build_fleet("win", windows=1, linux=0, addresses=addresses, kubelet_version="v1.35.4")
    assert machine.kubelet_version == "v1.35.4"


def test_names_count_from_one_and_keep_their_order_when_sorted() -> None:
    names = node_names("win", windows=120, linux=2)
    assert names[:2] == ("win-w001", "win-w002")
    assert names[-2:] == ("win-l01", "win-l02")
    assert sorted(names[:120]) == list(names[:120])
    assert len(set(names)) == len(names)


def test_half_of_the_windows_nodes_run_each_revision_of_build_20348() -> None:
    kernels = Counter(machine.os.kernel for machine in fleet() if machine.os.family == "windows")
    assert kernels == {"10.0.20348.4052": 6, "10.0.20348.1607": 6}
    assert {release.build for release in WINDOWS_RELEASES} == {"10.0.20348"}


def test_windows_machines_identify_themselves_as_windows_does() -> None:
    machine = fleet()[0]
    assert machine.machine_id == machine.name
    assert machine.boot_id.isdecimal()
    assert machine.system_uuid == machine.system_uuid.upper()


def test_no_two_machines_share_an_identity_and_a_second_start_finds_the_same() -> None:
    machines = fleet()
    assert len({machine.system_uuid for machine in machines}) == len(machines)
    assert fleet() == machines


def test_windows_nodes_of_either_revision_lie_in_every_zone() -> None:
    seen = {(machine.zone, machine.os.kernel) for machine in fleet() if machine.os.family == "windows"}
    assert len(seen) == 6


@given(count=st.integers(1, 6000), seed=st.text(max_size=20))
def test_addresses_are_unique_and_in_the_part_of_loopback_that_nobody_else_uses(
    count: int, seed: str
) -> None:
    names = [str(number) for number in range(count)]
    addresses = assign_addresses(names, seed=seed)
    assert list(addresses) == names
    assert len(set(addresses.values())) == count
    low, high = IPv4Address("127.1.0.0"), IPv4Address("127.254.255.255")
    assert all(low <= IPv4Address(address) <= high for address in addresses.values())


@given(count=st.integers(1, 6000), seed=st.text(max_size=20))
def test_in_a_namespace_of_its_own_a_fleet_has_addresses_of_the_network_there(count: int, seed: str) -> None:
    names = [str(number) for number in range(count)]
    taken = ["127.1.0.0", "10.200.1.0", "fd00::1"]  # what lies in another network is in nobody's way
    addresses = assign_addresses(names, seed=seed, taken=taken, network=IPv4Network("10.200.0.0/16"))
    assert len(set(addresses.values())) == count
    low, high = IPv4Address("10.200.1.0"), IPv4Address("10.200.254.255")
    assert all(low < IPv4Address(address) <= high for address in addresses.values())


@pytest.mark.parametrize(
    ("environment", "network"),
    [
        ({}, "127.0.0.0/8"),
        ({"WINPOOL_TESTBED_NETWORK": ""}, "127.0.0.0/8"),
        ({"WINPOOL_TESTBED_NETWORK": "10.200.0.0/16"}, "10.200.0.0/16"),
    ],
)
def test_the_environment_says_which_network_the_machines_are_in(
    environment: dict[str, str], network: str
) -> None:
    assert str(machine_network(environment)) == network


@given(count=st.integers(1, 40), fleets=st.integers(2, 6))
def test_a_fleet_evades_the_addresses_of_all_that_came_before(count: int, fleets: int) -> None:
    names = [str(number) for number in range(count)]
    taken: set[str] = set()
    for _ in range(fleets):
        addresses = set(assign_addresses(names, seed="the same for all", taken=taken).values())
        assert not addresses & taken
        taken |= addresses


def test_the_same_fleet_finds_its_addresses_again() -> None:
    names = node_names("win", windows=12, linux=2)
    first = assign_addresses(names, seed="https://127.0.0.1:6443|win")
    assert assign_addresses(names, seed="https://127.0.0.1:6443|win") == first
    assert assign_addresses(names, seed="https://127.0.0.1:6444|win") != first


def test_where_no_block_is_free_the_error_says_so() -> None:
    # More than half of a power of two that fits only once: one address taken takes the only block.
    names = ["same"] * ((1 << 22) + 1)
    with pytest.raises(ValueError, match="no 4194305 neighbouring addresses are free"):
        assign_addresses(names, seed="s", taken={"127.1.0.0"})
