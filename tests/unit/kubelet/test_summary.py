"""What is read of /stats/summary, of Windows kubelets that are well, broken or hostile."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.kubelet_payloads import AT, GIB, MIB, TIME, a_commit_container, a_memory, a_pod, a_summary
from winpool.kubelet.samples import MOST_PODS, Outcome, PollError, parse_summary
from winpool.model.pressure import LARGEST, MemorySample, PodUsage

OLD = MemorySample(taken_at=AT.timestamp(), commit_total=17 * GIB, proxy_available=12 * GIB)
"""Of a kubelet before 1.31, or one whose commit container cannot be read."""
WHOLE = replace(OLD, commit_limit=24 * GIB)

UNKNOWN_AMOUNTS = [0, -1, 2**63, 2**63 - 1, 2**64 - 1, LARGEST, 1.5, 1e300, None]


def sample_of(body: bytes) -> MemorySample:
    return parse_summary(body, node="w1")[0]


def pods_of(*pods: dict[str, Any]) -> dict[str, PodUsage]:
    found = parse_summary(a_summary(pods=list(pods)), node="w1", pods=True)[1]
    assert found is not None
    return found


def outcome_of(body: bytes, *, node: str = "w1") -> Outcome:
    with pytest.raises(PollError) as raised:
        parse_summary(body, node=node, pods=True)
    return raised.value.outcome


def test_memory_and_commit_of_the_node_are_read() -> None:
    assert parse_summary(a_summary(), node="w1") == (WHOLE, None)


def test_the_commit_container_is_believed_and_the_older_of_the_two_times_counts() -> None:
    for earlier, later in ((TIME, "2026-11-23T06:01:00Z"), ("2026-11-23T06:01:00Z", TIME)):
        container = a_commit_container(usageBytes=16 * GIB, time=later)
        sample = sample_of(a_summary(memory=a_memory(time=earlier), systemContainers=[container]))
        assert sample == replace(WHOLE, commit_total=16 * GIB, commit_limit=23 * GIB)


def test_without_the_memory_of_the_machine_the_commit_container_is_read_all_the_same() -> None:
    assert sample_of(a_summary(memory=None)) == replace(WHOLE, proxy_available=None)


def test_pods_are_read_only_where_they_are_asked_for() -> None:
    assert pods_of(a_pod()) == {"u1": PodUsage(working_set=GIB)}
    unreadable = a_summary(pods="none")
    assert sample_of(unreadable) == WHOLE
    assert outcome_of(unreadable) is Outcome.UNREADABLE


def test_an_old_kubelet_has_no_commit_container_and_its_commit_total_is_known() -> None:
    for containers in ([], None, [{"name": "pods", "memory": a_memory()}]):
        assert sample_of(a_summary(systemContainers=containers)) == OLD
    body = json.loads(a_summary())
    del body["node"]["systemContainers"]
    assert sample_of(json.dumps(body).encode()) == OLD


@pytest.mark.parametrize("amount", UNKNOWN_AMOUNTS)
def test_what_is_no_amount_is_unknown_and_what_is_beside_it_stays(amount: float | None) -> None:
    body = a_summary(memory=a_memory(usageBytes=amount), systemContainers=[])
    assert sample_of(body) == replace(OLD, commit_total=None)
    body = a_summary(memory=a_memory(availableBytes=amount), systemContainers=[])
    assert sample_of(body) == replace(OLD, proxy_available=None)


def test_a_machine_that_can_commit_nothing_more_reports_zero_available() -> None:
    full = a_commit_container(availableBytes=0, usageBytes=24 * GIB)
    assert sample_of(a_summary(systemContainers=[full])) == replace(
        OLD, commit_total=24 * GIB, commit_limit=24 * GIB
    )


@pytest.mark.parametrize(
    ("field", "amount"),
    [
        *(("usageBytes", amount) for amount in UNKNOWN_AMOUNTS),
        *(("availableBytes", amount) for amount in UNKNOWN_AMOUNTS if amount != 0),
    ],
)
def test_a_commit_container_without_one_of_its_amounts_is_unknown(field: str, amount: float | None) -> None:
    assert sample_of(a_summary(systemContainers=[a_commit_container(**{field: amount})])) == OLD


def test_amounts_that_make_no_limit_are_unknown() -> None:
    largest = a_commit_container(availableBytes=LARGEST - 1, usageBytes=1)
    assert sample_of(a_summary(systemContainers=[largest])) == OLD


def test_two_commit_containers_are_unknown() -> None:
    twice = [a_commit_container(), a_commit_container()]
    assert sample_of(a_summary(systemContainers=twice)) == OLD


@pytest.mark.parametrize("time", [None, "", "yesterday", "2026-11-23T06:00:00", "0000-01-01T00:00:00Z"])
def test_amounts_without_a_time_are_unknown_since_their_age_is(time: str | None) -> None:
    body = a_summary(memory=a_memory(time=time), systemContainers=[a_commit_container(time=time)])
    assert sample_of(body) == MemorySample()


def test_a_hostprocess_pod_reports_zeros_and_is_unknown() -> None:
    assert pods_of(a_pod(usageBytes=0, workingSetBytes=0)) == {"u1": PodUsage()}


def test_a_pod_without_memory_is_there_and_unknown_and_one_without_a_uid_is_not_there() -> None:
    bare = {"podRef": {"name": "bare", "namespace": "shop", "uid": "u2"}}
    nameless = {"podRef": {"name": "x", "namespace": "shop"}, "memory": a_memory()}
    found = pods_of(nameless, {}, bare, a_pod("u1"))
    assert list(found.items()) == [("u1", PodUsage(working_set=GIB)), ("u2", PodUsage())]


def test_a_kubelet_with_the_feature_gate_reports_the_commit_of_pods() -> None:
    assert pods_of(a_pod(usageBytes=3 * GIB))["u1"].commit == 3 * GIB


@pytest.mark.parametrize(
    ("sandbox", "containers", "working_set", "commit"),
    [
        (44 * MIB, [9 * GIB], 5 * GIB, 9 * GIB),
        (44 * MIB, [2 * GIB, 3 * GIB], GIB, 5 * GIB),
        (6 * GIB, [2 * GIB, 3 * GIB], GIB, 6 * GIB),
        (44 * MIB, [9 * GIB, 0], GIB, None),
        (6 * GIB, [2 * GIB, 0], GIB, 6 * GIB),
        (44 * MIB, [], 5 * GIB, None),
        (44 * MIB, [GIB], 5 * GIB, None),
        (0, [9 * GIB], 5 * GIB, None),
    ],
)
def test_no_pod_has_committed_less_than_its_containers_or_its_working_set(
    sandbox: int, containers: list[int], working_set: int, commit: int | None
) -> None:
    """As https://github.com/containerd/containerd/pull/12015 says."""
    pod = a_pod(usageBytes=sandbox, workingSetBytes=working_set)
    pod["containers"] = [{"name": "app", "memory": {"usageBytes": each}} for each in containers]
    assert pods_of(pod)["u1"] == PodUsage(commit, working_set)


@pytest.mark.parametrize(
    ("pods", "commit"),
    [
        ([], None),
        ([a_pod("a", usageBytes=GIB), a_pod("b", usageBytes=2 * GIB)], 3 * GIB),
        ([a_pod("a", usageBytes=GIB), a_pod("b")], None),
    ],
)
def test_what_all_pods_have_committed_is_known_only_if_it_is_of_each(
    pods: list[dict[str, Any]], commit: int | None
) -> None:
    body = a_summary(pods=pods)
    assert parse_summary(body, node="w1", pods=True)[0].pods_commit == commit
    assert sample_of(body).pods_commit is None


@pytest.mark.parametrize("times", [2, 3])
def test_a_uid_that_is_reported_more_than_once_is_of_no_pod(times: int) -> None:
    assert list(pods_of(*[a_pod("u1")] * times, a_pod("u0"))) == ["u0"]


def test_a_list_of_more_pods_than_a_node_can_have_is_refused() -> None:
    pods = [a_pod(f"u{number}") for number in range(MOST_PODS + 1)]
    assert len(pods_of(*pods[:MOST_PODS])) == MOST_PODS
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


def amounts_in(sample: MemorySample, pods: dict[str, PodUsage] | None) -> list[Any]:
    """Return every amount that is not unknown."""
    fields = (sample.commit_total, sample.commit_limit, sample.proxy_available)
    of_pods = (amount for pod in (pods or {}).values() for amount in (pod.commit, pod.working_set))
    return [each for each in (*fields, *of_pods) if each is not None]


def is_sane(body: bytes, *, pods: bool) -> bool:
    """Whether the parser finds amounts that can be computed with, or raises one of its errors."""
    try:
        sample, usage = parse_summary(body, node="w1", pods=pods)
    except PollError as error:
        return error.outcome in {Outcome.UNREADABLE, Outcome.WRONG_NODE}
    return all(type(each) is int and 0 < each < LARGEST for each in amounts_in(sample, usage))


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
