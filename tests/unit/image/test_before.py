"""The sources of an earlier operator come out of the history, or a sentence says how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from image.before import sources_of


def test_where_the_history_lacks_the_commit_a_sentence_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="git fetch --unshallow") as caught:
        sources_of("0" * 40, folder=tmp_path)
    assert f"commit {'0' * 40}" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
