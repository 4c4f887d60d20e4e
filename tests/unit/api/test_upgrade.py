"""The block of upgrades: what is read where it says nothing, and the forms of budgets, times, schedules."""

from __future__ import annotations

import copy
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from winpool.api.fields import MOMENT_PATTERN, SpecTime, is_moment, is_object_name
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.text import written_moment
from winpool.api.upgrade import (
    NEVER_OVERRIDDEN,
    Actuator,
    ActuatorType,
    Drain,
    DrainBehavior,
    DrainRule,
    EmptyDirPods,
    Gate,
    MaintenanceExclusion,
    Method,
    NodeBudget,
    OnTimeout,
    Override,
    Strategy,
    Trigger,
    UnmanagedPods,
    Upgrade,
    has_five_fields,
    is_budget,
    is_time_zone_name,
)

SAMPLE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[3] / "deploy" / "samples" / "upgrade.yaml").read_text()
)
BUDGET: TypeAdapter[int | str] = TypeAdapter(NodeBudget)
TIME: TypeAdapter[datetime] = TypeAdapter(SpecTime)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)

FIRST, LAST = datetime(2000, 1, 2, tzinfo=UTC), datetime(2999, 12, 30, tzinfo=UTC)

WRITTEN = st.timedeltas(timedelta(), LAST - FIRST).map(lambda since: FIRST + since)
OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def test_a_block_that_says_nothing_is_manual_and_one_node_at_a_time() -> None:
    upgrade = Upgrade()
    assert (upgrade.strategy, upgrade.method) == (Strategy.MANUAL, Method.IN_PLACE)
    assert upgrade.triggers == (Trigger.OS_VERSION, Trigger.OS_REVISION, Trigger.REQUEST)
    assert (upgrade.max_unavailable, upgrade.max_failed_nodes, upgrade.max_blocked_nodes) == (1, 0, 0)
    assert upgrade.actuator == Actuator(type=ActuatorType.EXTERNAL)
    assert (upgrade.canary, upgrade.topology_key) == (None, "topology.kubernetes.io/zone")
    assert (upgrade.soak_seconds, upgrade.rejoin_timeout_seconds, upgrade.settle_timeout_seconds) == (
        120,
        1800,
        1800,
    )
    assert upgrade.drain == Drain(
        timeout_seconds=3600,
        on_timeout=OnTimeout.WAIT,
        empty_dir_pods=EmptyDirPods.EVICT,
        unmanaged_pods=UnmanagedPods.BLOCK,
        volume_detach_timeout_seconds=600,
    )


def test_a_rule_of_drains_drains() -> None:
    rule = DrainRule(name="web", namespaces=("web",))
    assert (rule.behavior, rule.order) == (DrainBehavior.DRAIN, 0)


def fields_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a model by the names that users write, each with the model of its value."""
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def test_the_sample_has_every_field_that_can_stand_beside_the_others() -> None:
    upgrade = SAMPLE["spec"]["upgrade"]
    assert upgrade.keys() == fields_of(Upgrade).keys()
    assert upgrade["drain"].keys() == fields_of(Drain).keys()
    assert set().union(*upgrade["drain"]["rules"]) == fields_of(DrainRule).keys()


def test_the_sample_says_otherwise_only_where_it_says_so() -> None:
    """Of every field that the sample writes with its default, the sample means the default."""
    bare = copy.deepcopy(SAMPLE["spec"])
    examples = ("maxUnavailable", "canary", "maintenanceWindows", "maintenanceExclusions", "overrides")
    for name in examples:
        del bare["upgrade"][name]
    del bare["upgrade"]["drain"]["rules"]
    assert WindowsNodePoolSpec.model_validate(bare).upgrade == Upgrade()


@given(st.integers(-10, 6000))
def test_a_budget_is_a_number_or_a_percentage_with_zero_and_all(number: int) -> None:
    assert is_budget(number) == (0 <= number <= 5000)
    assert is_budget(f"{number}%") == (0 <= number <= 100)


@given(st.text(alphabet="0123456789%+-. \n٣", max_size=5))
def test_any_other_text_is_no_budget(text: str) -> None:
    number = text.removesuffix("%")
    assert is_budget(text) == (text.endswith("%") and number in {str(each) for each in range(101)})


@pytest.mark.parametrize("value", [True, 1.0, 0.1, None, ["1"]])
def test_a_budget_of_another_type_is_refused_with_what_is_allowed(value: Any) -> None:
    sentence = "must be a whole number from 0 to 5000 or a percentage from '0%' to '100%'"
    with pytest.raises(ValidationError, match=re.escape(sentence)):
        BUDGET.validate_python(value)


@given(WRITTEN, OFFSETS, st.sampled_from(["", ".5", ".123456789"]))
def test_a_time_is_the_same_however_its_offset_is_written(
    moment: datetime, offset: timezone, fraction: str
) -> None:
    shown = moment.astimezone(offset).replace(microsecond=0)
    text = f"{shown.replace(tzinfo=None).isoformat()}{fraction}{written_offset(offset)}"
    assert is_moment(text)
    assert TIME.validate_python(text) == moment.replace(microsecond=0)


def written_offset(offset: timezone) -> str:
    minutes = int((offset.utcoffset(None)).total_seconds()) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


@given(WRITTEN)
def test_what_is_written_reads_back_equal(moment: datetime) -> None:
    assert TIME.validate_python(written_moment(moment)) == moment.replace(microsecond=0)
    override = Override(gate=Gate.IMAGES, until=moment, reason="x")
    assert Override.model_validate(override.model_dump(mode="json")) == override


@given(st.text(alphabet="0123456789-:TZ+.tz \n٣", max_size=30) | st.from_regex(MOMENT_PATTERN))
def test_no_text_makes_a_time_that_cannot_be_compared(text: str) -> None:
    """What is accepted is a time in UTC that is near enough to every other one to be compared."""
    if is_moment(text):
        assert abs(TIME.validate_python(text) - NOON) < timedelta(days=366 * 1000)
    else:
        with pytest.raises(ValidationError, match="must be a time of RFC 3339 that exists"):
            TIME.validate_python(text)


@pytest.mark.parametrize("value", [1797724800, 1797724800.5, True, None])
def test_a_time_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="valid string"):
        TIME.validate_python(value)


def test_a_time_of_a_program_needs_a_zone() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        Override(gate=Gate.IMAGES, until=NOON.replace(tzinfo=None), reason="x")


def test_an_override_ends_at_its_time() -> None:
    override = Override(gate=Gate.IMAGES, until=NOON, reason="x")
    assert override.is_in_force(NOON - timedelta(seconds=1))
    assert not override.is_in_force(NOON)


@pytest.mark.parametrize("gate", Gate)
def test_every_gate_but_two_can_be_overridden(gate: Gate) -> None:
    if gate in NEVER_OVERRIDDEN:
        with pytest.raises(ValidationError, match="must not be Budget or PodDisruptionBudgets"):
            Override(gate=gate, until=NOON, reason="x")
    else:
        assert Override(gate=gate, until=NOON, reason="x").gate is gate


def test_every_gate_that_can_be_overridden_has_room_in_the_list() -> None:
    gates = [gate for gate in Gate if gate not in NEVER_OVERRIDDEN]
    overrides = tuple(Override(gate=gate, until=NOON, reason="x") for gate in gates)
    assert Upgrade(overrides=overrides).overrides == overrides
    with pytest.raises(ValidationError, match="at most 10"):
        Upgrade(overrides=(*overrides, overrides[0]))


def test_an_exclusion_ends_after_it_begins() -> None:
    with pytest.raises(ValidationError, match="must be after `start`"):
        MaintenanceExclusion(start=NOON, end=NOON)
    assert MaintenanceExclusion(start=NOON, end=NOON + timedelta(seconds=1)).reason == ""


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("0 22 * * 6", True),
        ("0 22 * * 6\n", False),
        ("\n0 22 * * 6", False),
        ("0\t22 * * 6", False),
        (" 0 22 * * 6", False),
        ("0 22 * * 6;", False),
        ("\u0660 22 * * 6", False),
        ("0 22 * * " + "6" * 119, True),
        ("0 22 * * " + "6" * 120, False),
    ],
)
def test_a_schedule_has_five_fields_of_plain_characters(text: str, *, holds: bool) -> None:
    assert has_five_fields(text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("Europe/Berlin", True),
        ("Etc/GMT-14", True),
        ("America/Kentucky/Monticello", True),
        ("/Europe/Berlin", False),
        ("Europe//Berlin", False),
        ("Europe/", False),
        ("Europe/../Berlin", False),
        ("Europe/Berlin\n", False),
        ("A" * 64, True),
        ("A" * 65, False),
    ],
)
def test_a_time_zone_has_the_form_of_a_name(text: str, *, holds: bool) -> None:
    assert is_time_zone_name(text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("windows-patch", True),
        ("a.b", True),
        ("", False),
        ("a..b", False),
        ("Windows", False),
        ("a\n", False),
        (".".join(["a" * 50] * 5)[:253], True),
        ("a" * 254, False),
    ],
)
def test_a_pod_template_has_the_name_of_an_object(text: str, *, holds: bool) -> None:
    assert is_object_name(text) is holds


@pytest.mark.parametrize(
    ("upgrade", "serves"),
    [
        (None, False),
        ({}, True),
        ({"triggers": ["Request"]}, True),
        ({"triggers": ["OSVersion", "OSRevision"]}, False),
    ],
)
def test_a_pool_serves_requests_where_they_are_a_trigger(
    upgrade: dict[str, Any] | None, *, serves: bool
) -> None:
    spec = {"nodeSelector": {"matchLabels": {"a": "b"}}, "os": {"version": "2022"}}
    if upgrade is not None:
        spec["upgrade"] = upgrade
    assert WindowsNodePoolSpec.model_validate(spec).serves_requests is serves
