"""What a pool declares as reserved: its defaults, its sum, and what the CRD says of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from winpool.api.crd import structural_schema
from winpool.api.model import describe
from winpool.api.quantity import GIB, MIB, bytes_of
from winpool.api.spec import OnMismatch, ReservedMemory

AMOUNTS = st.integers(min_value=0, max_value=2**44) | st.sampled_from(["0", "512Mi", "2.5Gi", "2G", "16Ti"])


def test_an_empty_block_declares_the_practice_of_windows() -> None:
    memory = ReservedMemory.model_validate({})
    assert memory.declared_bytes == 2 * GIB + 500 * MIB
    assert memory.on_mismatch is OnMismatch.REPORT
    assert memory.told == "2548Mi (systemReserved 2Gi + kubeReserved 0 + evictionHard 500Mi)"


def test_what_is_given_is_told_as_it_was_written() -> None:
    memory = ReservedMemory.model_validate(
        {"systemReserved": "1.5Gi", "kubeReserved": 536870912, "evictionHard": 0, "onMismatch": "Taint"}
    )
    assert memory.declared_bytes == 2 * GIB
    assert memory.on_mismatch is OnMismatch.TAINT
    assert memory.told == "2Gi (systemReserved 1.5Gi + kubeReserved 536870912 + evictionHard 0)"


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_only_a_sum_above_zero_is_taken(system: int | str, kube: int | str, eviction: int | str) -> None:
    given_memory = {"systemReserved": system, "kubeReserved": kube, "evictionHard": eviction}
    total = sum(bytes_of(each) for each in (system, kube, eviction))
    try:
        assert ReservedMemory.model_validate(given_memory).declared_bytes == total > 0
    except ValidationError as error:
        assert total == 0
        (problem,) = describe(error, at="spec.reservedMemory")
        assert problem.startswith("spec.reservedMemory: must have a sum of `systemReserved`, ")


def test_a_slip_names_its_field_and_nothing_else() -> None:
    with pytest.raises(ValidationError) as caught:
        ReservedMemory.model_validate({"systemReserved": "2GB", "kubeReserved": 2.5, "evictionHard": 0})
    first, second = describe(caught.value, at="spec.reservedMemory")
    assert first.startswith("spec.reservedMemory.systemReserved: must be from 0 to 16Ti, in bytes or with ")
    assert second.startswith("spec.reservedMemory.kubeReserved: must be from 0 to 16Ti, in bytes or with ")


def test_the_crd_takes_numbers_and_texts_and_stores_no_tuned_number() -> None:
    schema: dict[str, Any] = structural_schema(ReservedMemory)
    fields = schema["properties"]
    for name in ("systemReserved", "kubeReserved", "evictionHard"):
        node = dict(fields[name])
        (rule,) = node.pop("x-kubernetes-validations")
        assert node.pop("description").endswith(" if absent.")
        assert node == {"x-kubernetes-int-or-string": True}
        # A CEL without the type would not compile for numbers.
        assert "quantity(string(self))" in rule["rule"]
    assert fields["onMismatch"]["default"] == "Report"
    assert "required" not in schema


def test_the_rule_about_the_sum_asks_only_for_fields_that_are_there() -> None:
    (rule,) = structural_schema(ReservedMemory)["x-kubernetes-validations"]
    for name in ("systemReserved", "kubeReserved", "evictionHard"):
        assert rule["rule"].index(f"has(self.{name})") < rule["rule"].index(f"string(self.{name})")
