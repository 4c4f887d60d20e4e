"""resourceVersions are ordered as KEP-5504 says, and those without an order have none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.kube.wire import is_comparable, is_older

POSITIVE = st.integers(min_value=1, max_value=2**128 - 1)
FOREIGN = st.text(max_size=6).filter(lambda text: not (text.isascii() and text.isdigit() and text[0] != "0"))


@given(POSITIVE, POSITIVE)
def test_integers_compare_as_integers(a: int, b: int) -> None:
    assert is_older(str(a), str(b)) is (a < b)


@given(POSITIVE, FOREIGN)
def test_other_texts_have_no_order(a: int, b: str) -> None:
    assert not is_comparable(b)
    assert is_older(str(a), b) is None
    assert is_older(b, str(a)) is None
    assert is_older(b, b) is False


@pytest.mark.parametrize("text", ["", "0", "007", "-1", "1.0", "1e3", "٣", "²", " 1", "1 ", "abc"])
def test_what_is_no_resource_version(text: str) -> None:
    assert not is_comparable(text)
