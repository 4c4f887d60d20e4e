"""The limits of evictions: what a number or a percentage of nodes may be, and which block stands for none."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from winpool.api.memory_pressure import EvictionLimits, MemoryPressure, NodeShare, is_share

SHARE: TypeAdapter[int | str] = TypeAdapter(NodeShare)


@given(st.integers(-10, 6000))
def test_a_number_of_nodes_is_from_one_to_those_of_the_largest_cluster(number: int) -> None:
    assert is_share(number) == (1 <= number <= 5000)
    assert is_share(f"{number}%") == (1 <= number <= 100)


@given(st.text(alphabet="0123456789%+-. \n٣", max_size=5))
def test_any_other_text_is_no_percentage(text: str) -> None:
    number = text.removesuffix("%")
    is_plain = text.endswith("%") and number in {str(each) for each in range(1, 101)}
    assert is_share(text) == is_plain


@pytest.mark.parametrize("value", [True, 5.0, 0.05, None, ["5%"], {"percent": 5}])
def test_a_share_of_another_type_is_refused_with_what_is_allowed(value: Any) -> None:
    sentence = "must be a whole number from 1 to 5000 or a percentage from '1%' to '100%'"
    with pytest.raises(ValidationError, match=re.escape(sentence)):
        SHARE.validate_python(value)


@pytest.mark.parametrize("block", [{}, {"eviction": {}}, {"mode": "Evict"}])
def test_limits_that_are_absent_are_those_that_the_api_server_stores(block: dict[str, Any]) -> None:
    limits = MemoryPressure.model_validate(block).eviction
    assert limits == EvictionLimits()
    assert (limits.max_nodes, limits.max_pressured_nodes, limits.pod_rules) == ("5%", "20%", ())
