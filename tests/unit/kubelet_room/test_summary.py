"""What is read of /stats/summary, of Windows kubelets that are well, broken or hostile."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.kubelet_payloads import AT, GIB, a_commit_container, a_memory, a_pod, a_summary
from winpool.kubelet.outcome import Outcome, PollError
from winpool.kubelet.samples import (
    LIMIT,
    MOST_PODS,
    CommitMemory,
    KubeletSample,
    MachineMemory,
    PodMemory,
    parse_summary,
)

MEMORY = MachineMemory(time=AT, committed=17 * GIB, available=12 * GIB, working_set=4 * GIB)
COMMIT = CommitMemory(time=AT, committed=17 * GIB, limit=24 * GIB)
POD = PodMemory(uid="u1", namespace="shop", name="pod-u1", time=AT, working_set=GIB, committed=None)

UNKNOWN_AMOUNTS = [0, -1, 2**63, 2**63 - 1, 2**64 - 1, LIMIT, 1.5, 1e300, None]


def outcome_of(body: bytes, *, node: str = "w1") -> Outcome:
    with pytest.raises(PollError) as raised:
        parse_summary(body, node=node, pods=True)
    return raised.value.outcome


def test_memory_and_commit_of_the_node_are_read() -> None:
    sample = parse_summary(a_summary(), node="w1")
    assert sample == KubeletSample(node="w1", memory=MEMORY, commit=COMMIT, pods=None)


def test_pods_are_read_only_where_they_are_asked_for() -> None:
    assert parse_summary(a_summary(), node="w1", pods=True).pods == (POD,)
    unreadable = a_summary(pods="none")
    assert parse_summary(unreadable, node="w1").memory == MEMORY
    assert outcome_of(unreadable) is Outcome.UNREADABLE


def test_an_old_kubelet_has_no_commit_container_and_its_commit_total_is_known() -> None:
    for containers in ([], None, [{"name": "pods", "memory": a_memory()}]):
        sample = parse_summary(a_summary(systemContainers=containers), node="w1")
        assert sample == KubeletSample(node="w1", memory=MEMORY, commit=None)
    body = json.loads(a_summary())
    del body["node"]["systemContainers"]
    assert parse_summary(json.dumps(body).encode(), node="w1").commit is None


@pytest.mark.parametrize("amount", UNKNOWN_AMOUNTS)
def test_what_is_no_amount_is_unknown_and_what_is_beside_it_stays(amount: float | None) -> None:
    told = parse_summary(a_summary(memory=a_memory(usageBytes=amount)), node="w1").memory
    assert told == MachineMemory(time=AT, committed=None, available=12 * GIB, working_set=4 * GIB)


@pytest.mark.parametrize("field", ["availableBytes", "usageBytes"])
@pytest.mark.parametrize("amount", UNKNOWN_AMOUNTS)
def test_a_commit_container_without_one_of_its_amounts_is_unknown(field: str, amount: float | None) -> None:
    """A zero would mean that no byte is left, and no kubelet reports that: it means missing."""
    sample = parse_summary(a_summary(systemContainers=[a_commit_container(**{field: amount})]), node="w1")
    assert sample.commit is None
    assert sample.memory == MEMORY


def test_amounts_that_make_no_limit_are_unknown() -> None:
    largest = a_commit_container(availableBytes=LIMIT - 1, usageBytes=1)
    assert parse_summary(a_summary(systemContainers=[largest]), node="w1").commit is None


def test_two_commit_containers_are_unknown() -> None:
    twice = [a_commit_container(), a_commit_container()]
    assert parse_summary(a_summary(systemContainers=twice), node="w1").commit is None


@pytest.mark.parametrize("time", [None, "", "yesterday", "2026-11-23T06:00:00", "0000-01-01T00:00:00Z"])
def test_amounts_without_a_time_are_unknown_since_their_age_is(time: str | None) -> None:
    body = a_summary(memory=a_memory(time=time), systemContainers=[a_commit_container(time=time)])
    sample = parse_summary(body, node="w1")
    assert (sample.memory, sample.commit) == (None, None)


def test_a_hostprocess_pod_reports_zeros_and_is_unknown() -> None:
    body = a_summary(pods=[a_pod(usageBytes=0, workingSetBytes=0)])
    pods = parse_summary(body, node="w1", pods=True).pods
    assert pods is not None
    assert [(pod.working_set, pod.committed) for pod in pods] == [(None, None)]


def test_a_pod_without_memory_is_there_and_unknown_and_one_without_a_uid_is_not_there() -> None:
    bare = {"podRef": {"name": "bare", "namespace": "shop", "uid": "u2"}}
    nameless = {"podRef": {"name": "x", "namespace": "shop"}, "memory": a_memory()}
    pods = parse_summary(a_summary(pods=[nameless, {}, bare, a_pod("u1")]), node="w1", pods=True).pods
    assert pods is not None
    assert [(pod.uid, pod.working_set, pod.time) for pod in pods] == [("u1", GIB, AT), ("u2", None, None)]


def test_a_kubelet_with_the_feature_gate_reports_the_commit_of_pods() -> None:
    pods = parse_summary(a_summary(pods=[a_pod(usageBytes=3 * GIB)]), node="w1", pods=True).pods
    assert pods is not None
    assert pods[0].committed == 3 * GIB


@pytest.mark.parametrize("times", [2, 3])
def test_a_uid_that_is_reported_more_than_once_is_of_no_pod(times: int) -> None:
    pods = parse_summary(a_summary(pods=[a_pod("u1")] * times + [a_pod("u0")]), node="w1", pods=True).pods
    assert pods is not None
    assert [pod.uid for pod in pods] == ["u0"]


def test_a_list_of_more_pods_than_a_node_can_have_is_refused() -> None:
    pods = [a_pod(f"u{number}") for number in range(MOST_PODS + 1)]
    most = parse_summary(a_summary(pods=pods[:MOST_PODS]), node="w1", pods=True).pods
    assert most is not None
    assert len(most) == MOST_PODS
    assert outcome_of(a_summary(pods=pods)) is Outcome.UNREADABLE


def test_the_summary_of_another_node_is_refused_by_name() -> None:
    assert outcome_of(a_summary("w2")) is Outcome.WRONG_NODE
    assert outcome_of(a_summary("W1")) is Outcome.WRONG_NODE
    assert outcome_of(a_summary("")) is Outcome.UNREADABLE


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"pods not found",
        a_summary()[:-1],
        b'{"node": {"nodeName": "w1", "memory": {"usageBytes": NaN}}}',
        b'{"node": {"nodeName": "w1", "memory": {"usageBytes": Infinity}}}',
        b'{"node": {"nodeName": "w1", "memory": {"usageBytes": 1e999}}}',
        b'{"node": {"nodeName": "w1", "memory": {"usageBytes": "17"}}}',
        b'{"node": {"nodeName": "w1", "memory": {"usageBytes": true}}}',
        b'{"node": {"nodeName": "w1", "memory": {"time": "' + b"x" * 1000 + b'"}}}',
        b'{"node": {"nodeName": "' + b"x" * 1000 + b'"}}',
        b'{"node": ' + b"[" * 100_000,
        b'{"node": {"nodeName": "\xff\xfe"}}',
    ],
)
def test_what_is_no_summary_is_unreadable(body: bytes) -> None:
    assert outcome_of(body) is Outcome.UNREADABLE


def test_an_error_has_nothing_of_the_answer_in_it() -> None:
    with pytest.raises(PollError) as raised:
        parse_summary(a_summary("secret"), node="w1")
    assert "secret" not in str(raised.value)
    with pytest.raises(PollError) as raised:
        parse_summary(b'{"node": "secret"}', node="w1")
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__


def amounts_in(sample: KubeletSample) -> list[int]:
    """Return every amount that is not unknown."""
    builtins: Any = msgspec.to_builtins(sample)
    found: list[int] = []

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            for each in value.values():
                visit(each)
        elif isinstance(value, list | tuple):
            for each in value:
                visit(each)
        elif isinstance(value, int | float):
            found.append(value)  # type: ignore[arg-type]

    visit(builtins)
    return found


def is_sane(body: bytes, *, pods: bool) -> bool:
    """Whether the parser finds amounts that can be computed with, or raises one of its errors."""
    try:
        sample = parse_summary(body, node="w1", pods=pods)
    except PollError as error:
        return error.outcome in {Outcome.UNREADABLE, Outcome.WRONG_NODE}
    amounts = amounts_in(sample)
    return sample.node == "w1" and all(type(each) is int and 0 < each < LIMIT for each in amounts)


NUMBERS = st.one_of(
    st.sampled_from(
        [0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 1e308, -0.0, math.nan, math.inf]
    ),
    st.integers(-(2**70), 2**70),
    st.floats(),
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
TIMES = st.one_of(
    st.just("2026-11-23T06:00:00Z"), st.datetimes().map(lambda each: each.isoformat() + "Z"), JSON
)
MEMORIES = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {},
        optional={
            "time": TIMES,
            "availableBytes": NUMBERS,
            "usageBytes": NUMBERS,
            "workingSetBytes": NUMBERS,
        },
    ),
)
CONTAINERS = st.one_of(
    JSON,
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.sampled_from(["pods", "windows-global-commit-memory"]),
                "memory": MEMORIES,
            }
        ),
        max_size=3,
    ),
)
PODS = st.one_of(
    JSON,
    st.lists(
        st.fixed_dictionaries(
            {"podRef": st.fixed_dictionaries({"uid": st.sampled_from(["a", "b", ""])}), "memory": MEMORIES}
        ),
        max_size=4,
    ),
)
SUMMARIES = st.fixed_dictionaries(
    {
        "node": st.fixed_dictionaries(
            {
                "nodeName": st.sampled_from(["w1", "w1", "w1", "w2", ""]),
                "memory": MEMORIES,
                "systemContainers": CONTAINERS,
            }
        ),
        "pods": PODS,
    }
)


@given(body=st.one_of(SUMMARIES, JSON), pods=st.booleans())
def test_any_json_gives_sane_amounts_or_the_one_error(body: Any, pods: bool) -> None:
    assert is_sane(json.dumps(body).encode(), pods=pods)


@given(data=st.data())
def test_a_damaged_summary_gives_sane_amounts_or_the_one_error(data: st.DataObject) -> None:
    body = bytearray(a_summary(pods=[a_pod("u1"), a_pod("u2", usageBytes=GIB)]))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        body = body or bytearray(b"{")
    assert is_sane(bytes(body), pods=True)
