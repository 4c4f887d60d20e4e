"""The Python of the rules and the patterns inside their CEL agree on every key."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.documents import ROOT
from harness.every import every
from winpool.api.fields import (
    ALLOWED_LABEL_KEYS,
    KEY_PATTERN,
    KUBELET_LABEL_KEYS,
    KUBERNETES_MINOR_PATTERN,
    MAX_PREFIX_LENGTH,
    NODE_RESTRICTION_DOMAIN,
    NODE_ROLE_DOMAIN,
    POOL_NAME_PATTERN,
    RESERVED_LABEL_DOMAINS,
    RESERVED_TAINT_DOMAINS,
    RESERVED_TAINT_KEYS,
    VALUE_PATTERN,
    has_form,
    is_date,
    is_key,
    is_label_key_allowed,
    is_label_value,
    is_os_version,
    is_pool_name,
    is_restricted_label,
    is_taint_key_allowed,
    minor_number,
    under,
)

WORDS = st.sampled_from(
    [
        "kubernetes.io",
        "k8s.io",
        "winpool.dev",
        "karpenter.sh",
        "node",
        "x",
        "-",
        ".",
        "/",
        "A",
        "os",
        "",
        "é",
        "\n",
        "_",
    ]
)
KEYS = st.lists(WORDS, max_size=6).map("".join) | st.text(max_size=80)


def as_cel_reads_it(pattern: str, text: str) -> bool:
    """RE2's matches(): a search, where ``$`` is the end of the text, also where a newline ends it."""
    return re.search(pattern.replace("$", r"\Z"), text) is not None


@given(KEYS)
@example("a/" + "b" * 63)
@example("a/" + "b" * 64)
@example("a" * 253 + "/b")
@example("a" * 254 + "/b")
@example("os\n")
def test_a_key_is_a_key_on_both_sides(text: str) -> None:
    cel = as_cel_reads_it(KEY_PATTERN, text) and text.find("/") <= MAX_PREFIX_LENGTH
    assert is_key(text) == cel


@given(KEYS)
@example("b" * 63)
@example("b" * 64)
@example("")
def test_a_value_is_a_value_on_both_sides(text: str) -> None:
    assert is_label_value(text) == as_cel_reads_it(VALUE_PATTERN, text)


@given(KEYS)
@example("a" * 63)
@example("a" * 64)
def test_a_name_is_a_name_on_both_sides(text: str) -> None:
    assert is_pool_name(text) == as_cel_reads_it(POOL_NAME_PATTERN, text)


@given(KEYS)
@example("kubernetes.io/os")
@example("notkubernetes.io/os")
@example("node-role.kubernetes.io/windows")
@example("a.node-role.kubernetes.io/windows")
@example("a.node-restriction.kubernetes.io/x")
@example("node.kubernetes.io/exclude-from-external-load-balancers")
def test_a_label_key_is_reserved_on_both_sides(key: str) -> None:
    cel = (
        key in ALLOWED_LABEL_KEYS
        or key.startswith(f"{NODE_ROLE_DOMAIN}/")
        or as_cel_reads_it(under((NODE_RESTRICTION_DOMAIN,)), key)
        or not as_cel_reads_it(under(RESERVED_LABEL_DOMAINS), key)
    )
    assert is_label_key_allowed(key) == (is_key(key) and cel)


@given(KEYS)
@example("karpenter.sh/disrupted")
@example("x.winpool.dev/a")
@example("node.kubernetes.io/os")
def test_a_taint_key_is_reserved_on_both_sides(key: str) -> None:
    cel = key not in RESERVED_TAINT_KEYS and not as_cel_reads_it(under(RESERVED_TAINT_DOMAINS), key)
    assert is_taint_key_allowed(key) == (is_key(key) and cel)


@pytest.mark.parametrize(
    "key",
    [
        *("node-restriction.kubernetes.io/a", "x.node-restriction.kubernetes.io/a"),
        *("node-role.kubernetes.io/windows", "kubernetes.io/role", "cloud.kubernetes.io/a", "k8s.io/a"),
        *("a.k8s.io/b", "topology.kubernetes.io/rack", "kubernetes.io/os2"),
    ],
)
def test_a_label_that_no_kubelet_may_write(key: str) -> None:
    assert is_restricted_label(key)


@every(
    "key",
    [
        *KUBELET_LABEL_KEYS,
        *("agentpool", "example.com/a", "notkubernetes.io/a", "notk8s.io/a", "winpool.dev/pool"),
        *("node.kubernetes.io/windows-build", "x.node.kubernetes.io/a", "kubelet.kubernetes.io/a"),
        *("a.kubelet.kubernetes.io/b", "node.kubernetes.io/exclude-from-external-load-balancers"),
    ],
)
def test_a_label_that_a_kubelet_may_write(key: str) -> None:
    assert not is_restricted_label(key)


@every("key", RESERVED_TAINT_KEYS)
def test_no_pool_may_set_a_taint_of_others(key: str) -> None:
    assert is_key(key)
    assert not is_taint_key_allowed(key)


OPEN_LABELS = (
    *("eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "cloud.google.com/gke-nodepool"),
    "cluster.x-k8s.io/cluster-name",
)
"""Labels of cloud providers and Cluster API that no rule reserves."""
OPEN_TAINTS = ("node-role.kubernetes.io/control-plane",)


def test_what_the_page_on_security_says_that_a_pool_may_set_it_may() -> None:
    page = (ROOT / "docs" / "security" / "people.md").read_text()
    for key in (*OPEN_LABELS, *OPEN_TAINTS):
        assert f"`{key}`" in page
    assert [key for key in OPEN_LABELS if not is_label_key_allowed(key)] == []
    assert [key for key in OPEN_TAINTS if not is_taint_key_allowed(key)] == []


def test_the_page_on_taints_lists_every_reserved_key() -> None:
    listed = (
        (ROOT / "docs" / "taints.md").read_text().partition("\n## Reserved keys\n")[2].partition("\n## ")[0]
    )
    keys = re.findall(r"^- `(\S+)`$", listed, re.MULTILINE)
    assert tuple(keys) == RESERVED_TAINT_KEYS
    for domain in RESERVED_TAINT_DOMAINS:
        assert f"`{domain}`" in listed


@pytest.mark.parametrize("version", ["2019", "2022", "2025", "1809", "20H2", "23H2"])
def test_releases_of_windows_server_are_releases(version: str) -> None:
    assert is_os_version(version)


@pytest.mark.parametrize(
    "version", ["", "22", "20225", "23H3", "23h2", "ltsc2022", "2022\n", "Windows 2022", "٢٠٢٢"]
)
def test_other_texts_are_not(version: str) -> None:
    assert not is_os_version(version)


MINORS = st.lists(st.sampled_from(["1", ".", "1.", "0", "3", "34", "v", "", "\n", "٣"]), max_size=5).map(
    "".join
)


@given(MINORS)
@example("1.10")
@example("1.9")
@example("1.100")
@example("1.1000")
@example("1.34\n")
def test_a_minor_version_is_one_on_both_sides(text: str) -> None:
    assert has_form(text, KUBERNETES_MINOR_PATTERN) == as_cel_reads_it(KUBERNETES_MINOR_PATTERN, text)


def test_minor_versions_are_numbers() -> None:
    assert sorted(["1.100", "1.34", "1.99"], key=minor_number) == ["1.34", "1.99", "1.100"]


@given(st.dates())
def test_every_day_from_the_year_1000_on_is_a_date(day: date) -> None:
    assert is_date(day.isoformat()) == (day.year >= 1000)


@pytest.mark.parametrize(
    "text",
    ["2027-02-29", "2027-02-30", "2100-02-29", "2027-13-01", "2027-04-31", "2027-00-01", "2027-01-00"],
)
def test_a_day_that_does_not_exist_is_none(text: str) -> None:
    assert not is_date(text)


@pytest.mark.parametrize(
    "text", ["", "2027-4-1", "20270401", "2027-W01-1", "01.04.2027", "2027-04-01T00:00:00Z", "2027-04-01\n"]
)
def test_other_forms_of_dates_are_not_taken(text: str) -> None:
    """Python reads some of them, and the API server none."""
    assert not is_date(text)
