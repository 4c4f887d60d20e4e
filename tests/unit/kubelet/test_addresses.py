"""Where kubelets are polled, and to which addresses no token goes."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.every import every
from winpool.kubelet.addresses import KUBELET_PORT, AddressRules, Target
from winpool.kubelet.samples import Outcome, PollError

API_SERVER = frozenset({(ip_address("10.96.0.1"), 443), (ip_address("fd00::1"), 6443)})
STRICT = AddressRules(api_server=API_SERVER)
TESTBED = AddressRules(api_server=API_SERVER, allowed=(ip_network("127.0.0.0/8"),))


def target(address: str, *, rules: AddressRules = STRICT, port: int | None = 10250) -> Target:
    return rules.target(node="w1", address=address, port=port)


def refusal(address: str, *, rules: AddressRules = STRICT, port: int | None = 10250) -> Outcome:
    with pytest.raises(PollError) as raised:
        target(address, rules=rules, port=port)
    return raised.value.outcome


def test_the_address_and_the_port_that_the_node_reports() -> None:
    assert target("10.0.0.5", port=10251) == Target(node="w1", host="10.0.0.5", port=10251)


@pytest.mark.parametrize("port", [None, 0])
def test_a_node_that_reports_no_port_has_the_default_one(port: int | None) -> None:
    assert target("10.0.0.5", port=port).port == KUBELET_PORT


def test_an_ipv6_address_is_written_in_the_usual_form() -> None:
    assert target("FD00:0:0::5").host == "fd00::5"
    assert target("::ffff:10.0.0.5").host == "10.0.0.5"


def test_without_an_internal_ip_there_is_no_address() -> None:
    assert refusal("") is Outcome.NO_ADDRESS


@every(
    "text",
    [
        *(
            "",
            "w1",
            "10.0.0",
            "010.0.0.5",
            "10.0.0.5:10250",
            "10.0.0.5/24",
            "2130706433",
            "0x7f000001",
            "127.1",
        ),
        *(
            "localhost",
            "kubernetes.default.svc",
            "[::1]",
            "::ffff:10.96.0.1:443",
            "10.0.0.5@10.96.0.1",
            "10.0.0.\u0665",
        ),
        *(" 10.0.0.5", "10.0.0.5\n", "1" * 100_000),
    ],
)
def test_what_is_no_ip_address_is_no_address(text: str) -> None:
    assert refusal(text) is Outcome.NO_ADDRESS


@pytest.mark.parametrize("port", [-1, 65536, 2**40])
def test_what_is_no_port_is_no_address(port: int) -> None:
    assert refusal("10.0.0.5", port=port) is Outcome.NO_ADDRESS


@pytest.mark.parametrize(
    ("address", "port"), [("10.96.0.1", 443), ("::ffff:10.96.0.1", 443), ("fd00:0::1", 6443)]
)
def test_the_api_server_never_gets_the_token(address: str, port: int) -> None:
    assert refusal(address, port=port) is Outcome.REFUSED_ADDRESS
    assert refusal(address, port=port, rules=TESTBED) is Outcome.REFUSED_ADDRESS


@pytest.mark.parametrize(
    "address", ["10.96.0.1", "::ffff:a60:1", "::FFFF:10.96.0.1", "0:0:0:0:0:ffff:0a60:0001"]
)
def test_the_api_server_is_the_same_however_its_address_is_written(address: str) -> None:
    assert refusal(address, port=443) is Outcome.REFUSED_ADDRESS


def test_the_port_of_the_api_server_on_another_machine_is_only_a_port() -> None:
    assert target("10.0.0.5", port=443).port == 443
    assert target("10.0.0.5", port=6443).port == 6443


def test_a_kubelet_beside_the_api_server_is_polled() -> None:
    assert target("10.96.0.1", port=10250).host == "10.96.0.1"


def test_an_api_server_that_is_known_by_a_mapped_address_is_the_same_one() -> None:
    rules = AddressRules(api_server=frozenset({(ip_address("::ffff:10.96.0.1"), 443)}))
    assert refusal("10.96.0.1", port=443, rules=rules) is Outcome.REFUSED_ADDRESS


NEAR = [
    "127.0.0.1",
    "127.9.9.9",
    "::1",
    "::ffff:127.0.0.1",
    "169.254.169.254",
    "fe80::1",
    "::ffff:169.254.1.1",
]
NO_MACHINE = ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1", "::127.0.0.1"]
NO_MACHINE += [
    "64:ff9b::7f00:1",
    "fe80::1%eth0",
    "fd00::1%1",
    "0.0.0.1",
    "::ffff:0.0.0.0",
    "::ffff:0:127.0.0.1",
]
METADATA = ["168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"]
METADATA += ["::ffff:168.63.129.16"]
TUNNELS = ["2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::"]
"""6to4 and Teredo, to 127.0.0.1 and to 169.254.169.254."""


@every("address", [*NEAR, *NO_MACHINE, *METADATA, *TUNNELS])
def test_an_address_that_no_other_machine_has_is_refused(address: str) -> None:
    assert refusal(address) is Outcome.REFUSED_ADDRESS


@pytest.mark.parametrize("address", NEAR)
def test_a_setting_allows_ranges_of_loopback_and_link_local_addresses(address: str) -> None:
    ranges = [ip_network(each) for each in ("127.0.0.0/8", "::1/128", "169.254.0.0/16", "fe80::/10")]
    assert target(address, rules=AddressRules(allowed=tuple(ranges))).node == "w1"
    other = AddressRules(allowed=(ip_network("127.200.0.0/16"),))
    assert refusal(address, rules=other) is Outcome.REFUSED_ADDRESS


@every("address", [*NO_MACHINE, *METADATA, *TUNNELS])
def test_no_setting_allows_an_address_of_no_machine(address: str) -> None:
    everything = AddressRules(allowed=(ip_network("0.0.0.0/0"), ip_network("::/0")))
    assert refusal(address, rules=everything) is Outcome.REFUSED_ADDRESS


@given(
    text=st.text(max_size=20) | st.ip_addresses().map(str),
    port=st.none() | st.integers(),
)
def test_any_node_has_a_target_that_is_permitted_or_an_outcome(text: str, port: int | None) -> None:
    def found() -> Target | Outcome:
        try:
            return target(text, port=port)
        except PollError as error:
            return error.outcome

    got = found()
    if isinstance(got, Target):
        address = ip_address(got.host)
        near = address.is_loopback or address.is_link_local or address.is_multicast
        assert not near
        assert (address, got.port) not in API_SERVER
        assert 0 < got.port < 65536
    else:
        assert got in {Outcome.NO_ADDRESS, Outcome.REFUSED_ADDRESS}
