"""Our port of kstatus, rule by rule; each test names the function of cli-utils that it follows."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.kstatus import Result, Status, compute, explain


def a_pool(
    *conditions: tuple[str, str], generation: int | None = 2, observed: int | None = 2, deleted: bool = False
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p"}
    if generation is not None:
        metadata["generation"] = generation
    if deleted:
        metadata["deletionTimestamp"] = "2026-11-21T08:00:00Z"
    status: dict[str, Any] = {
        "conditions": [
            {"type": kind, "status": status, "message": f"{kind} is {status}"} for kind, status in conditions
        ]
    }
    if observed is not None:
        status["observedGeneration"] = observed
    return {"kind": "WindowsNodePool", "metadata": metadata, "status": status}


def test_what_is_being_deleted_is_terminating_whatever_else_it_says() -> None:
    """CheckGenericProperties looks at metadata.deletionTimestamp first."""
    pool = a_pool(("Stalled", "True"), ("Ready", "True"), observed=1, deleted=True)
    assert explain(pool) == Result(Status.TERMINATING, "Resource scheduled for deletion")


@pytest.mark.parametrize("observed", [-1, 1, 3])
def test_a_generation_that_was_not_observed_is_in_progress_before_any_condition(observed: int) -> None:
    """CheckGeneration compares for inequality, so that -1, the default of a CRD's status, holds a gate."""
    pool = a_pool(("Stalled", "True"), ("Ready", "True"), observed=observed)
    assert explain(pool) == Result(
        Status.IN_PROGRESS,
        f"WindowsNodePool generation is 2, but latest observed generation is {observed}",
    )


@pytest.mark.parametrize("pool", [a_pool(observed=None), a_pool(generation=None), {}, {"metadata": {}}])
def test_without_both_generations_and_conditions_an_object_is_current(pool: dict[str, Any]) -> None:
    """CheckGeneration says nothing where a field is absent; Compute then assumes that all is well."""
    assert explain(pool) == Result(Status.CURRENT, "Resource is current")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((("Ready", "True"), ("Reconciling", "True")), Status.IN_PROGRESS),
        ((("Ready", "True"), ("Stalled", "True")), Status.FAILED),
        # The loop of checkGenericProperties returns at the first that is True.
        ((("Reconciling", "True"), ("Stalled", "True")), Status.IN_PROGRESS),
        ((("Stalled", "True"), ("Reconciling", "True")), Status.FAILED),
        # Only True counts: both have the polarity that True is abnormal.
        ((("Reconciling", "False"), ("Stalled", "False"), ("Ready", "True")), Status.CURRENT),
        ((("Reconciling", "Unknown"), ("Stalled", "Unknown"), ("Ready", "True")), Status.CURRENT),
    ],
)
def test_reconciling_and_stalled_come_before_ready(
    conditions: tuple[tuple[str, str], ...], expected: Status
) -> None:
    """The loop over conditions in checkGenericProperties."""
    assert compute(a_pool(*conditions)) is expected


def test_the_message_is_that_of_the_condition() -> None:
    assert explain(a_pool(("Stalled", "True"))).message == "Stalled is True"
    assert explain(a_pool(("Reconciling", "True"))).message == "Reconciling is True"
    assert explain(a_pool(("Ready", "Unknown"))).message == "Ready is Unknown"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("True", Result(Status.CURRENT, "Resource is Ready")),
        ("False", Result(Status.IN_PROGRESS, "Ready is False")),
        ("Unknown", Result(Status.IN_PROGRESS, "Ready is Unknown")),
        ("Perhaps", Result(Status.CURRENT, "Resource is current")),
    ],
)
def test_ready_decides_where_nothing_else_has(status: str, expected: Result) -> None:
    """checkReadyCondition; a status that is none of the three is passed over."""
    assert explain(a_pool(("Available", "False"), ("Ready", status))) == expected


@pytest.mark.parametrize(
    "pool",
    [
        {"metadata": "none"},
        {"metadata": {"deletionTimestamp": 5}},
        {"metadata": {"generation": "2"}, "status": {"observedGeneration": 2}},
        {"metadata": {"generation": True}},
        {"metadata": {}, "status": {"conditions": {"type": "Ready"}}},
        {"metadata": {}, "status": {"conditions": ["Ready"]}},
        {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": True}]}},
    ],
)
def test_what_cannot_be_read_is_unknown(pool: dict[str, Any]) -> None:
    """Compute returns an error for it, of which whoever asks makes Unknown."""
    assert compute(pool) is Status.UNKNOWN
    assert explain(pool).message.startswith("the object could not be read: ")
