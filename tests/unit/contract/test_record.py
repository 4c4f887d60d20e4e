"""The ownership record: written so that it reads back, and read as if an enemy had written it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.every import every
from harness.strategies import hostile_records
from winpool.api.fields import RESERVED_TAINT_KEYS, is_label_key_allowed, is_label_value, is_taint_key_allowed
from winpool.api.keys import TAINT_EFFECTS
from winpool.ownership.record import MAX_BYTES, Owned, Record, Unreadable, fits, parse, render

FULL = Record(
    pool_uid="0d8b",
    labels={"team": Owned(set="payments", before="sales"), "tier": Owned(set="", before=None)},
    taints={
        ("os", "NoSchedule"): Owned(set="windows", before=None),
        ("os", "PreferNoSchedule"): Owned(set="windows", before=""),
        ("gpu", "NoSchedule"): Owned(set="", before="a", before_time="2026-10-31T08:00:00Z"),
    },
)
FULL_AS_JSON = {
    "v": 1,
    "pool": "0d8b",
    "labels": {"team": {"set": "payments", "before": "sales"}, "tier": {"set": "", "before": None}},
    "taints": [
        {
            "key": "gpu",
            "effect": "NoSchedule",
            "value": "",
            "before": "a",
            "beforeTimeAdded": "2026-10-31T08:00:00Z",
        },
        {"key": "os", "effect": "NoSchedule", "value": "windows", "before": None},
        {"key": "os", "effect": "PreferNoSchedule", "value": "windows", "before": ""},
    ],
}


def text_of(**changes: Any) -> str:
    return json.dumps({**FULL_AS_JSON, **changes})


def labels_read(labels: Any) -> dict[str, Owned]:
    record = parse(text_of(labels=labels, taints=[]))
    assert isinstance(record, Record), record
    return dict(record.labels)


def taints_read(*taints: Any) -> dict[tuple[str, str], Owned]:
    record = parse(text_of(labels={}, taints=list(taints)))
    assert isinstance(record, Record), record
    return dict(record.taints)


# The format is a contract with every other version of the operator


def test_a_record_is_written_as_the_format_says() -> None:
    assert json.loads(render(FULL)) == FULL_AS_JSON


def test_a_record_of_the_format_is_read() -> None:
    assert parse(json.dumps(FULL_AS_JSON)) == FULL


@pytest.mark.parametrize("missing", ["labels", "taints"])
def test_a_record_needs_no_empty_parts(missing: str) -> None:
    content = {key: value for key, value in FULL_AS_JSON.items() if key != missing}
    assert getattr(parse(json.dumps(content)), missing, None) == {}


keys = st.sampled_from(("team", "example.com/tier", "node-role.kubernetes.io/win", "a.b"))
values = st.sampled_from(("", "x", "A-b_c.d", "0" * 63))
owned_labels = st.builds(Owned, set=values, before=st.none() | values)
owned_taints = owned_labels | st.builds(
    Owned, set=values, before=values, before_time=st.just("2026-10-31T08:00:00Z")
)
records = st.builds(
    Record,
    pool_uid=st.uuids().map(str),
    labels=st.dictionaries(keys, owned_labels),
    taints=st.dictionaries(st.tuples(keys, st.sampled_from(TAINT_EFFECTS)), owned_taints),
)


@given(records)
def test_what_is_written_reads_back_equal(record: Record) -> None:
    assert parse(render(record)) == record


@given(records, st.randoms())
def test_equal_records_have_equal_texts(record: Record, random: Any) -> None:
    labels, taints = list(record.labels.items()), list(record.taints.items())
    random.shuffle(labels)
    random.shuffle(taints)
    shuffled = Record(pool_uid=record.pool_uid, labels=dict(labels), taints=dict(taints))
    assert render(shuffled) == render(record)


# Reading gives rights only to keys and values that a pool could have set


@every(
    "key",
    [
        "kubernetes.io/os",
        "kubernetes.io/hostname",
        "node.kubernetes.io/windows-build",
        "topology.kubernetes.io/zone",
        "beta.kubernetes.io/os",
        "x.k8s.io/y",
        "karpenter.sh/nodepool",
        "sub.karpenter.sh/x",
        "winpool.dev/pool",
        "winpool.dev/applied",
        "a.winpool.dev/x",
        "",
        "/",
        "a b",
        "x/",
        "/x",
        "a/b/c",
        "ümlaut",
        "x" * 64,
        "team\n",
    ],
)
def test_a_label_that_no_pool_may_set_is_not_read(key: str) -> None:
    assert labels_read({key: {"set": "windows", "before": None}, "team": {"set": "a"}}) == {
        "team": Owned("a")
    }


@pytest.mark.parametrize(
    "key",
    [
        "node-role.kubernetes.io/win",
        "node-restriction.kubernetes.io/tenant",
        "example.node-restriction.kubernetes.io/tenant",
        "node.kubernetes.io/exclude-from-external-load-balancers",
        "example.com/team",
        "team",
    ],
)
def test_a_label_that_a_pool_may_set_is_read(key: str) -> None:
    assert labels_read({key: {"set": "a", "before": "b"}}) == {key: Owned("a", "b")}


@every("key", [*RESERVED_TAINT_KEYS, "karpenter.sh/disrupted", "winpool.dev/x", "", "a b"])
@every("effect", TAINT_EFFECTS)
def test_a_taint_that_no_pool_may_set_is_not_read(key: str, effect: str) -> None:
    stranger = {"key": key, "effect": effect, "value": "", "before": None}
    ours = {"key": "node.kubernetes.io/os", "effect": effect, "value": "windows", "before": None}
    assert taints_read(stranger, ours) == {("node.kubernetes.io/os", effect): Owned("windows")}


@pytest.mark.parametrize("effect", ["NoRun", "noschedule", "", None, 1])
def test_a_taint_with_an_effect_that_no_pool_may_use_is_not_read(effect: Any) -> None:
    assert taints_read({"key": "os", "effect": effect, "value": "windows", "before": None}) == {}


BAD_VALUES = ["not a value", "x" * 64, "-x", "ü", "x\n", 1, True, ["x"], {"x": "y"}, 1.5]


@every("value", [*BAD_VALUES, None])
def test_a_label_whose_value_no_pool_could_have_set_is_not_read(value: Any) -> None:
    assert labels_read({"team": {"set": value, "before": None}}) == {}


@every("before", BAD_VALUES)
def test_a_label_that_could_not_be_put_back_is_not_read(before: Any) -> None:
    """Or the API server would refuse the undo of all the rest, for ever."""
    assert labels_read({"team": {"set": "a", "before": before}}) == {}


@every("value", BAD_VALUES)
@every("field", ["value", "before"])
def test_a_taint_whose_value_no_pool_could_have_set_is_not_read(field: str, value: Any) -> None:
    entry = {"key": "os", "effect": "NoSchedule", "value": "windows", "before": None, field: value}
    assert taints_read(entry) == {}


@pytest.mark.parametrize("entry", [None, "set", 1, [], {}, {"before": "x"}])
def test_a_label_entry_that_is_none_is_left_out(entry: Any) -> None:
    assert labels_read({"team": entry, "tier": {"set": "a"}}) == {"tier": Owned("a")}


@pytest.mark.parametrize(
    "entry", [None, "os", 1, [], {}, {"key": "os"}, {"effect": "NoSchedule", "value": ""}]
)
def test_a_taint_entry_that_is_none_is_left_out(entry: Any) -> None:
    ours = {"key": "os", "effect": "NoSchedule", "value": "windows", "before": None}
    assert taints_read(entry, ours) == {("os", "NoSchedule"): Owned("windows")}


# A record that gives no rights at all, and the sentence why

DEEP = "[" * 100_000 + "]" * 100_000
UNREADABLE = {
    "empty": "",
    "no JSON": "{",
    "two documents": text_of() + text_of(),
    "not an object": "[]",
    "null": "null",
    "a string": '"v"',
    "another version": text_of(v=2),
    "a version of another type": text_of(v="1"),
    "a version that only equals 1 in Python": text_of(v=True),
    "no version": json.dumps({key: FULL_AS_JSON[key] for key in ("pool", "labels", "taints")}),
    "no pool": json.dumps({key: FULL_AS_JSON[key] for key in ("v", "labels", "taints")}),
    "empty pool": text_of(pool=""),
    "a pool that is no text": text_of(pool=7),
    "null as pool": text_of(pool=None),
    "labels that are no map": text_of(labels=["team"]),
    "taints that are no list": text_of(taints={"os": "NoSchedule"}),
    "NaN": '{"v": NaN, "pool": "0d8b"}',
    "infinite": '{"v": Infinity, "pool": "0d8b"}',
    "nested without end": DEEP,
    "nested in a part": text_of()[:-1] + ', "more": ' + DEEP[: MAX_BYTES // 2] + "}",
    "a number without end": '{"v": 1' + "0" * 10_000 + "}",
    "larger than the limit": text_of(pool="0d8b" + "x" * MAX_BYTES),
    "larger than the limit in bytes": text_of(pool="0d8b")[:-1] + ', "x": "' + "ü" * (MAX_BYTES // 2) + '"}',
    "larger than the limit by spaces": text_of() + " " * MAX_BYTES,
}


@every("text", [pytest.param(text, id=name) for name, text in UNREADABLE.items()])
def test_a_record_that_cannot_be_read_gives_no_rights_and_says_why(text: str) -> None:
    record = parse(text)
    assert isinstance(record, Unreadable)
    assert record.why
    assert len(record.why) < 200
    assert "\n" not in record.why


@pytest.mark.parametrize("text", ['{"v": NaN}', "\ud800", "\x00", "NaN", "-" * 99, '"' + "\\u0000" * 9 + '"'])
def test_odd_texts_give_no_rights(text: str) -> None:
    assert isinstance(parse(text), Unreadable)


@given(hostile_records() | st.text())
@example('{"v": 1, "pool": "\\ud800"}')
@example('{"v": 1, "v": 2, "pool": "a"}')
@example('{"v": 1, "pool": "a", "labels": {"team": {"set": "\\ud800"}}}')
@example(text_of(labels={"team": {"set": "a"}} | {f"k{n}": {"set": "a"} for n in range(400)}))
def test_reading_never_raises_and_never_gives_more_than_a_pool_could_have_set(text: str) -> None:
    record = parse(text)
    if isinstance(record, Unreadable):
        assert record.why
        return
    assert record.pool_uid
    for key, entry in record.labels.items():
        assert is_label_key_allowed(key)
        assert all(is_label_value(value) for value in (entry.set, entry.before or ""))
    for (key, effect), entry in record.taints.items():
        assert is_taint_key_allowed(key)
        assert effect in TAINT_EFFECTS
        assert all(is_label_value(value) for value in (entry.set, entry.before or ""))


# What fits

LONG = "x" * 63


def labels_of(number: int) -> dict[str, str]:
    return {f"{'a' * 240}.{n:03d}/{LONG}": LONG for n in range(number)}


def test_a_usual_spec_fits() -> None:
    labels = {f"example.com/label-{n}": LONG for n in range(32)}
    taints = {(f"example.com/taint-{n}", "PreferNoSchedule"): LONG for n in range(16)}
    assert fits(labels=labels, taints=taints)


def test_the_largest_spec_that_the_api_server_takes_does_not_fit() -> None:
    taints = {(key, "PreferNoSchedule"): value for key, value in labels_of(16).items()}
    assert not fits(labels=labels_of(32), taints=taints)


@given(st.integers(0, 32), st.integers(0, 16), st.sampled_from((None, "", "b", LONG)))
def test_what_fits_can_be_written_whatever_stood_there_before(
    labels: int, taints: int, before: str | None
) -> None:
    time = None if before is None else "2026-10-31T08:00:00Z"
    wanted_labels = labels_of(labels)
    wanted_taints = {(key, "PreferNoSchedule"): value for key, value in labels_of(taints).items()}
    record = Record(
        pool_uid="0d8bd7fe-0f4c-4b4c-9b7e-6f8e4d7b1c11",
        labels={key: Owned(value, before) for key, value in wanted_labels.items()},
        taints={key: Owned(value, before, time) for key, value in wanted_taints.items()},
    )
    readable = parse(render(record)) == record
    assert readable or not fits(labels=wanted_labels, taints=wanted_taints)
