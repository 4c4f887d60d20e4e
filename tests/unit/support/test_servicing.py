"""How near the end of support is: nothing, a notice from 180 days, a warning from 90, ended after the day."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.support.servicing import EndingLevel, support_ending

END = date(2031, 10, 14)


@pytest.mark.parametrize(
    ("left", "level"),
    [
        (181, EndingLevel.NONE),
        (180, EndingLevel.NOTICE),
        (91, EndingLevel.NOTICE),
        (90, EndingLevel.WARNING),
        (1, EndingLevel.WARNING),
        (0, EndingLevel.WARNING),
        (-1, EndingLevel.ENDED),
    ],
)
def test_level(left: int, level: EndingLevel) -> None:
    assert support_ending(END, END - timedelta(days=left)) is level


@given(st.dates(), st.dates())
def test_any_two_days_have_a_level(end: date, today: date) -> None:
    assert (support_ending(end, today) is EndingLevel.ENDED) == (today > end)
