"""What a scalar means: each line as kubectl 1.36 read it, printed back as JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.cli.scalars import ScalarError, resolve

AS_KUBECTL_READS_THEM: dict[str, Any] = {
    "y": True,
    "Y": True,
    "yes": True,
    "on": True,
    "TRUE": True,
    "tRUE": "tRUE",
    "n": False,
    "no": False,
    "off": False,
    "~": None,
    "": None,
    "Null": None,
    "2022": 2022,
    "1.30": 1.3,
    "1.0": 1,
    "10.0.20348": "10.0.20348",
    "2027-04-01": "2027-04-01",
    "2027-04-01T00:00:00Z": "2027-04-01T00:00:00Z",
    "23H2": "23H2",
    "12:30:45": "12:30:45",
    "=": "=",
    "0o17": 15,
    "017": 15,
    "0777": 511,
    "0_7": 7,
    "08": 8,
    "09.5": 9.5,
    "0o8": "0o8",
    "0x1F": 31,
    "0X1F": 31,
    "-0x1F": -31,
    "0x": "0x",
    "0b11": 3,
    "1_000": 1000,
    "1__0": 10,
    "1_0.5": 10.5,
    "1._5": 1.5,
    "_1": "_1",
    "+5": 5,
    "-5": -5,
    "-0": 0,
    "+y": "+y",
    ".5": 0.5,
    "+.5": 0.5,
    "5.": 5,
    "1e3": 1000,
    "1e+3": 1000,
    "1.5e-3": 0.0015,
    "1e+400": "1e+400",
    "99999999999999999999": 100000000000000000000,
}


@pytest.mark.parametrize(("text", "value"), AS_KUBECTL_READS_THEM.items())
def test_a_plain_scalar_means_what_it_means_to_kubectl(text: str, value: Any) -> None:
    found = resolve(text, tag=None, plain=True)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", AS_KUBECTL_READS_THEM)
def test_in_quotes_everything_is_a_text(text: str) -> None:
    assert resolve(text, tag=None, plain=False) == text


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("str", "2022", "2022"),
        ("int", "5", 5),
        ("float", "5", 5),
        ("bool", "y", True),
        ("null", "~", None),
        ("binary", "aGk=", "hi"),
    ],
)
def test_a_tag_decides(tag: str, text: str, value: Any) -> None:
    assert resolve(text, tag=f"tag:yaml.org,2002:{tag}", plain=False) == value


def test_a_tag_that_nobody_knows_makes_a_text() -> None:
    assert resolve("5", tag="!mine", plain=False) == "5"


@pytest.mark.parametrize(
    ("tag", "text", "word"),
    [
        ("int", "x", "'x' is not of the type int"),
        ("int", "1.5", "is not of the type int"),
        ("int", "true", "is not of the type int"),
        ("float", "true", "is not of the type float"),
        ("bool", "1", "is not of the type bool"),
        ("null", "x", "is not of the type null"),
        ("binary", "a", "not base64"),
    ],
)
def test_a_text_that_is_not_what_its_tag_says_is_refused(tag: str, text: str, word: str) -> None:
    with pytest.raises(ScalarError, match=word):
        resolve(text, tag=f"tag:yaml.org,2002:{tag}", plain=False)


NO_JSON = (".inf", "-.inf", "+.inf", ".nan")


@pytest.mark.parametrize("text", [*NO_JSON, "+.Inf", ".NaN"])
def test_what_json_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(ScalarError, match="does not exist in JSON"):
        resolve(text, tag=None, plain=True)


@given(st.text())
def test_no_text_crashes(text: str) -> None:
    found = resolve(text, tag=None, plain=True) if text.lower() not in NO_JSON else None
    assert found is None or isinstance(found, str | int | float)


@given(st.integers(min_value=-(2**63), max_value=2**64 - 1))
def test_every_integer_of_json_is_itself(number: int) -> None:
    assert resolve(str(number), tag=None, plain=True) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_of_json_is_itself(number: float) -> None:
    assert resolve(repr(number), tag=None, plain=True) == number
