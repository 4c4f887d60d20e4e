"""Whether a kubelet evicts by itself, as its /configz says it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.kubelet.samples import KubeletEviction, Outcome, PollError, parse_configz

ARMED, NOT_ARMED, UNKNOWN = KubeletEviction.ARMED, KubeletEviction.NOT_ARMED, KubeletEviction.UNKNOWN
DISKS = {"nodefs.available": "10%", "imagefs.available": "15%"}


def eviction(**configuration: Any) -> KubeletEviction:
    whole = {"podLogsDir": "/var/log/pods", "maxPods": 110} | configuration
    return parse_configz(json.dumps({"kubeletconfig": whole}).encode())


@pytest.mark.parametrize(
    ("threshold", "found"),
    [
        ("500Mi", ARMED),
        ("1", ARMED),
        ("5%", ARMED),
        ("0.5%", ARMED),
        ("0%", NOT_ARMED),
        ("100%", NOT_ARMED),
        ("0", NOT_ARMED),
        ("101%", UNKNOWN),
        ("-1", UNKNOWN),
        ("-5%", UNKNOWN),
        ("much", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_hard_threshold_for_memory(threshold: str, found: KubeletEviction) -> None:
    assert eviction(evictionHard=DISKS | {"memory.available": threshold}) is found


def test_to_list_other_thresholds_switches_that_of_memory_off() -> None:
    assert eviction(evictionHard=DISKS) is NOT_ARMED
    assert eviction(evictionHard=DISKS, mergeDefaultEvictionSettings=False) is NOT_ARMED


def test_where_defaults_are_merged_what_is_not_listed_is_unknown() -> None:
    assert eviction(evictionHard=DISKS, mergeDefaultEvictionSettings=True) is UNKNOWN


@pytest.mark.parametrize("hard", [{}, None])
def test_without_hard_thresholds_nothing_is_known(hard: dict[str, str] | None) -> None:
    assert eviction(evictionHard=hard) is UNKNOWN
    assert eviction() is UNKNOWN


@pytest.mark.parametrize(
    ("hard", "soft", "found"),
    [
        (DISKS, "1500Mi", ARMED),
        ({}, "1500Mi", ARMED),
        (DISKS, "0%", NOT_ARMED),
        ({}, "0%", UNKNOWN),
        (DISKS, "much", UNKNOWN),
        (DISKS | {"memory.available": "500Mi"}, "0%", ARMED),
    ],
)
def test_a_soft_threshold_is_one_too(hard: dict[str, str], soft: str, found: KubeletEviction) -> None:
    assert eviction(evictionHard=hard, evictionSoft={"memory.available": soft}) is found


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"kubeletconfig": []}', b'{"kubeletconfig": {"evictionHard": {"a": 1}}}']
)
def test_what_is_no_configuration_is_unreadable(body: bytes) -> None:
    with pytest.raises(PollError) as raised:
        parse_configz(body)
    assert raised.value.outcome is Outcome.UNREADABLE


@given(
    hard=st.none() | st.dictionaries(st.sampled_from(["memory.available", "nodefs.available"]), st.text()),
    soft=st.none()
    | st.dictionaries(st.sampled_from(["memory.available"]), st.text(alphabet="0123456789.%Mi")),
    merged=st.none() | st.booleans(),
)
def test_any_thresholds_have_a_verdict(
    hard: dict[str, str] | None, soft: dict[str, str] | None, merged: bool | None
) -> None:
    found = eviction(evictionHard=hard, evictionSoft=soft, mergeDefaultEvictionSettings=merged)
    if not hard and not soft:
        assert found is UNKNOWN
    if found is ARMED:
        assert "memory.available" in {*(hard or {}), *(soft or {})}


@given(body=st.binary(max_size=200))
def test_any_bytes_have_a_verdict_or_the_one_error(body: bytes) -> None:
    def verdict() -> KubeletEviction | Outcome:
        try:
            return parse_configz(body)
        except PollError as error:
            return error.outcome

    assert verdict() in {*KubeletEviction, Outcome.UNREADABLE}
