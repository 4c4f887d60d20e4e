"""A matrix that differs from the packaged one in one place."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

import pytest

from winpool.support.matrix import FILE, Matrix, parse


@pytest.fixture
def edited() -> Callable[[str, str], Matrix]:
    """Return what reads the packaged data with one text replaced."""

    def edit(before: str, after: str) -> Matrix:
        text = resources.files("winpool.support").joinpath(FILE).read_text()
        assert text.count(before) == 1, f"{before!r} does not stand there once"
        return parse(text.replace(before, after))

    return edit
