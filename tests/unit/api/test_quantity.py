"""Amounts of memory: read as Kubernetes writes them, declared and told as people do."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity
from pydantic import TypeAdapter, ValidationError

from harness.every import every
from winpool.api.quantity import (
    GIB,
    KIB,
    MAX_MEMORY,
    MAX_QUANTITY,
    MIB,
    TIB,
    Memory,
    bytes_of,
    exact,
    is_memory,
    milli_of,
    rounded,
)

MEMORY: TypeAdapter[int | str] = TypeAdapter(Memory)
OFFICIAL: Callable[[str], Decimal] = parse_quantity
BINARY = {"Ki": KIB, "Mi": MIB, "Gi": GIB, "Ti": TIB}
DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@every(
    ("quantity", "size"),
    [
        (0, 0),
        (536870912, 536870912),
        ("16776756Ki", 16776756 * KIB),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("12e-1", 2),
        ("128974848000m", 128974848),
        ("1m", 1),
        ("1n", 1),
        ("-1500m", -2),
        ("+2Gi", 2 * GIB),
        ("2.5Gi", 2 * GIB + 512 * MIB),
        (".5Gi", 512 * MIB),
        ("5.", 5),
        ("0.5", 1),
        ("1Ei", 2**60),
        ("8Ei", MAX_QUANTITY),
        ("1e30", MAX_QUANTITY),
        ("-1e999", -MAX_QUANTITY),
        ("1e-999", 1),
        ("0e999", 0),
    ],
)
def test_what_kubernetes_writes_is_read(quantity: int | str, size: int) -> None:
    assert bytes_of(quantity) == size


@every(
    "quantity",
    [
        *("", " ", "Gi", "2GB", "2gi", "2 Gi", " 2Gi"),
        *("2Gi\n", "1K", "1ki", "1mi", "0x10", "1_000", "1e", "1e3Ki"),
        *("1e1000", "NaN", "inf", "--1", "+-1", ".", "1.2.3", "1,5Gi", "٣Gi", "9" * 41, "1." + "9" * 41),
    ],
)
def test_what_is_no_quantity_is_refused_with_what_it_was(quantity: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(quantity[:64]))):
        bytes_of(quantity)


@every(
    ("quantity", "thousandths"),
    [
        ("250m", 250),
        ("2", 2000),
        (2, 2000),
        ("0.1", 100),
        ("100100u", 101),
        ("1k", 1_000_000),
        ("0", 0),
        ("-1", -1000),
        ("9e30", MAX_QUANTITY),
        (10**20, MAX_QUANTITY),
    ],
)
def test_cpu_is_read_in_thousandths_of_a_core(quantity: int | str, thousandths: int) -> None:
    assert milli_of(quantity) == thousandths


@pytest.mark.parametrize("quantity", ["", "250 m", "NaN", "1_000m", "9" * 41, 10**41])
def test_what_is_no_quantity_is_no_cpu(quantity: int | str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        milli_of(quantity)


@given(st.text(max_size=90))
def test_any_text_is_read_within_bounds_or_refused(text: str) -> None:
    size: int | None = None
    with contextlib.suppress(ValueError):
        size = bytes_of(text)
    assert size is None or abs(size) <= MAX_QUANTITY


@given(
    st.integers(min_value=0, max_value=1000),
    st.integers(min_value=0, max_value=999),
    st.sampled_from([*BINARY, *DECIMAL, "m", "Pi", "P"]),
)
def test_the_official_parser_reads_the_same(whole: int, thousandths: int, unit: str) -> None:
    """Where it keeps every digit, and up to the rounding, which it leaves to its caller."""
    text = f"{whole}.{thousandths:03}{unit}"
    assert 0 <= bytes_of(text) - OFFICIAL(text) < 1


@given(st.integers(min_value=-(2**62), max_value=2**62))
def test_an_exact_amount_can_be_read_back(size: int) -> None:
    assert bytes_of(exact(size)) == size


@given(st.integers(min_value=0, max_value=2**62))
def test_a_rounded_amount_has_one_decimal_and_is_near(size: int) -> None:
    text = rounded(size)
    assert re.fullmatch(r"[0-9]+([.][0-9])?(Ki|Mi|Gi|Ti)?", text)
    step = BINARY.get(text[-2:], 20) / 10
    assert abs(bytes_of(text) - size) <= step / 2 + 1


@every(
    ("size", "precise", "about"),
    [
        (0, "0", "0"),
        (1, "1", "1"),
        (1023, "1023", "1023"),
        (KIB, "1Ki", "1Ki"),
        (500 * MIB, "500Mi", "500Mi"),
        (2 * GIB, "2Gi", "2Gi"),
        (2 * GIB + 512 * MIB, "2.5Gi", "2.5Gi"),
        (2 * GIB + 500 * MIB, "2548Mi", "2.5Gi"),
        (16776756 * KIB, "16776756Ki", "16Gi"),
        (16352 * MIB, "16352Mi", "16Gi"),
        (2_000_000_000, "1953125Ki", "1.9Gi"),
        (16 * TIB, "16Ti", "16Ti"),
        (-3 * MIB, "-3Mi", "-3Mi"),
        (GIB - 1, "1073741823", "1024Mi"),
    ],
)
def test_amounts_are_told_in_the_units_of_people(size: int, precise: str, about: str) -> None:
    assert (exact(size), rounded(size)) == (precise, about)


@every(
    "value",
    [
        *(0, 1, 536870912, MAX_MEMORY, "0", "536870912"),
        *("512Mi", "2Gi", "2.5Gi", "0.125Ti", "16Ti", "16384Gi"),
        *("2G", "1500M", "100k", "1T", "64Ki", "1.125Gi", "0002Gi"),
    ],
)
def test_a_spec_may_declare_it(value: int | str) -> None:
    assert is_memory(value)
    assert MEMORY.validate_python(value) == value
    assert 0 <= bytes_of(value) <= MAX_MEMORY


@every(
    "value",
    [
        *(-1, MAX_MEMORY + 1, 2**64, "2GB", "-1", "-1Gi", "1e30", "1e3", "2.5", "17Ti", "16.001Ti", "99999G"),
        *("", "Gi", "2gi", "2 Gi", "500m", "1Pi", "1E", "1.2345Gi", "+1Gi", ".5Gi", "5.Gi", "512Mi\n", "٣Gi"),
        *("1" * 21, "9" * 5000),
    ],
)
def test_a_slip_is_refused_with_what_is_allowed(value: int | str) -> None:
    with pytest.raises(ValidationError) as caught:
        MEMORY.validate_python(value)
    (fault,) = caught.value.errors(include_url=False)
    assert (fault["type"], fault["loc"]) == ("rule", ())
    assert fault["msg"] == (
        "must be from 0 to 16Ti, in bytes or with Ki, Mi, Gi or Ti, such as '512Mi' or '2Gi'"
    )


@pytest.mark.parametrize("value", [2.5, 2.0, 1e30, True, None, [], {"Gi": 2}])
def test_what_is_neither_number_nor_text_is_refused_in_one_sentence(value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        MEMORY.validate_python(value)
    (fault,) = caught.value.errors(include_url=False)
    assert fault["loc"] == ()
    assert fault["msg"].startswith("must be from 0 to 16Ti, ")
    assert fault["msg"].endswith("such as '2.5Gi'")


@given(st.integers(min_value=-(2**70), max_value=2**70))
def test_of_whole_numbers_the_limits_alone_decide(value: int) -> None:
    assert is_memory(value) == (0 <= value <= MAX_MEMORY)


@given(st.integers(min_value=0, max_value=10**9), st.sampled_from([*BINARY, *DECIMAL]))
def test_of_numbers_with_a_unit_the_limits_alone_decide(number: int, unit: str) -> None:
    size = number * {**BINARY, **DECIMAL}[unit]
    assert bytes_of(f"{number}{unit}") == min(size, MAX_QUANTITY)
    assert is_memory(f"{number}{unit}") == (size <= MAX_MEMORY)


@given(st.from_regex(r"\A[0-9]{1,4}[.]?[0-9]{0,4}[A-Za-z]{0,2}\Z"))
def test_what_a_spec_may_declare_can_be_read(text: str) -> None:
    if is_memory(text):
        assert 0 <= bytes_of(text) <= MAX_MEMORY
