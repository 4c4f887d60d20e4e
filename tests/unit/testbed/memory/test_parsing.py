"""What people may write as a workload, and what they read when it is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.documents import ROOT
from harness.machine_memory import script
from testbed.memory.pages import GIB, KIB, MIB, TIB
from testbed.memory.parsing import WorkloadError, parse_workload, workload_of
from testbed.memory.sizes import parse_size
from testbed.memory.workloads import WORKLOADS, Leak, LeaksInto, OsLeak, Workload

WHERE = "annotation winsim/memory"


def refusal(text: str) -> list[str]:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(text, where=WHERE)
    return str(caught.value).splitlines()


def refusal_of(**fields: Any) -> list[str]:
    return refusal(json.dumps(fields))


def test_the_example_of_the_pages_is_read() -> None:
    found = parse_workload('{"workload": "leak", "commit": "2Gi", "growthPerMinute": "200Mi"}', where=WHERE)
    assert found == Leak(commit="2Gi", growth_per_minute="200Mi")
    assert isinstance(found, Leak)
    assert (found.commit, found.growth_per_minute, found.maximum) == (2 * GIB, 200 * MIB, None)


def test_a_part_of_a_scenario_is_read_as_the_text_would_be() -> None:
    content = {"workload": "osLeak", "growthPerMinute": "1Mi", "into": "PagedPool"}
    found = workload_of(content, where="step 3")
    assert isinstance(found, OsLeak)
    assert found == parse_workload(json.dumps(content), where="step 3")
    assert (found.commit, found.into) == (64 * MIB, LeaksInto.PAGED_POOL)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4Ki", 4 * KIB), ("200Mi", 200 * MIB), ("1.5Gi", 3 * GIB // 2), ("16Ti", 16 * TIB), ("0Mi", 0)],
)
def test_sizes_are_binary_quantities(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "given_size",
    [
        "",
        "1",
        "1G",
        "1GB",
        "1 Gi",
        "-1Gi",
        "1.Gi",
        ".5Gi",
        "1e3Mi",
        "NaN",
        "1.2345Gi",
        "٣Gi",
        1024,
        None,
        True,
    ],
)
def test_what_is_no_size_is_refused_with_an_example(given_size: object) -> None:
    with pytest.raises(
        ValueError, match="is not a size: write a number with Ki, Mi, Gi or Ti, such as 200Mi"
    ):
        parse_size(given_size)


def test_a_slip_of_the_unit_is_refused() -> None:
    assert refusal_of(workload="steady", commit="200Ti") == [f"{WHERE}: commit: '200Ti' is more than 16Ti"]


def test_every_mistake_is_named_at_once_with_its_field() -> None:
    assert refusal_of(workload="leak", commit="2G", growthPerMinut="1Mi", touchedPercent=101) == [
        f"{WHERE}: commit: '2G' is not a size: write a number with Ki, Mi, Gi or Ti, such as 200Mi",
        f"{WHERE}: touchedPercent: 101: input should be less than or equal to 100",
        f"{WHERE}: growthPerMinute: it is missing",
        f"{WHERE}: growthPerMinut: there is no such field; there are workload, commit, touchedPercent, "
        "activePercent, useSeconds, fileReadsPerSecond, jitterPercent, growthPerMinute, afterSeconds, "
        "maximum",
    ]


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"workload": "leek", "commit": "1Gi"}, "workload: there is no 'leek'; write one of steady, leak, "),
        ({"commit": "1Gi"}, "workload: it is missing; write one of steady, leak, "),
        ({"workload": ["steady"]}, "workload: there is no \"['steady']\"; write one of steady, "),
        (script("leak", "2Gi", growthPerMinute="1Mi", maximum="1Gi"), "maximum: it is less than commit"),
        (script("sawtooth", "2Gi", peak="1Gi"), "peak: it is less than commit"),
        (script("burst", "1Gi", burst="1Gi", lastsSeconds=5), "rampSeconds: it is more than lastsSeconds"),
        (
            script("burst", "1Gi", burst="1Gi", everySeconds=59),
            "everySeconds: it is less than lastsSeconds",
        ),
        (script("steady", "1Gi", touchedPercent="80"), "touchedPercent: '80' is not a number"),
        (script("steady", "1Gi", activePercent=True), "activePercent: True is not a number"),
        (
            script("steady", "1Gi", useSeconds=0),
            "useSeconds: 0: input should be greater than or equal to 0.1",
        ),
        (script("steady", "1Gi", touched_percent=80), "touched_percent: there is no such field; there are "),
        (
            script("osLeak", growthPerMinute="1Mi", into="Heap"),
            "into: Heap: input should be 'NonPagedPool', 'PagedPool' or 'Processes'",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_mistake_is_a_sentence_about_its_field(fields: dict[str, Any], mistake: str) -> None:
    [found] = refusal(json.dumps(fields))
    assert found.startswith(f"{WHERE}: {mistake}")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "not JSON that can be read: Expecting value"),
        ("leak", "not JSON that can be read: Expecting value"),
        ("[]", "write a map of fields, such as "),
        ('"steady"', "write a map of fields, such as "),
        ('{"workload": "steady", "commit": "1Gi", "commit": "2Gi"}', "the field 'commit' is given twice"),
        ('{"workload": "steady", "commit": "1Gi", "useSeconds": NaN}', "NaN is no number of JSON"),
        ("[" * 4000, "not JSON that can be read: "),
        (" " * 4097, "4097 characters are more than 4096"),
    ],
    ids=["empty", "word", "list", "text", "twice", "nan", "deep", "long"],
)
def test_what_is_no_map_of_fields_is_refused(text: str, mistake: str) -> None:
    [found] = refusal(text)
    assert found.startswith(WHERE)
    assert mistake in found


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1Gi", "2.5Mi", "0Ki", *WORKLOADS]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=4,
)
FIELDS = st.sampled_from(
    sorted({str(field.alias) for model in WORKLOADS.values() for field in model.model_fields.values()})
)


@given(
    content=VALUES
    | st.builds(
        lambda name, rest: {**rest, "workload": name},
        st.sampled_from([*WORKLOADS]),
        st.dictionaries(FIELDS, VALUES, max_size=6),
    )
)
def test_anything_is_a_workload_or_a_refusal_that_names_the_place(content: Any) -> None:
    try:
        found = workload_of(content, where=WHERE)
    except WorkloadError as error:
        lines = str(error).splitlines()
    else:
        assert isinstance(found, Workload)
        assert found.demand(60.0, seed=1).commit_bytes >= 0
        return
    assert lines
    assert all(line.startswith(f"{WHERE}: ") for line in lines)


@given(text=st.text(max_size=60))
def test_any_text_is_a_workload_or_a_refusal(text: str) -> None:
    assert refusal(text)


def described() -> str:
    """Return what the page of the testbed says about the model."""
    page = (ROOT / "tests" / "testbed" / "README.md").read_text()
    return page.partition("## The memory of a machine")[2].partition("\n## ")[0]


def test_the_page_describes_every_workload_and_every_field_with_its_default() -> None:
    lines = [line for line in described().splitlines() if line.startswith("| `")]
    rows = {line.split("|")[1].strip(" `"): line for line in lines[1:]}  # the first is a heading
    common = {str(field.alias) for field in Workload.model_fields.values()}
    assert set(rows) == {*WORKLOADS, *common}
    for name, model in WORKLOADS.items():
        for field in model.model_fields.values():
            if field.alias in common:
                continue
            assert f"`{field.alias}`" in rows[name]
            if isinstance(field.default, int) and not isinstance(field.default, bool):
                assert f"`{field.alias}` ({field.default})" in rows[name]
    for field in Workload.model_fields.values():
        default = "required" if field.is_required() else str(field.default)
        assert rows[str(field.alias)].split("|")[2].strip() == default
