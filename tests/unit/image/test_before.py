"""The sources of an earlier operator come out of the history, or a sentence says how to get it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from image.before import sources_of

OPERATOR: Final = {"operator/run.py": "old", "requirements/run.txt": "old"}
BUILT_LATER: Final = {"Dockerfile": "FROM", "image/slim.py": "cuts", "requirements/build.txt": "pins"}


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A repository without a commit."""
    git(tmp_path, "init", "--quiet", "history")
    return tmp_path / "history"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "earlier").mkdir()
    return tmp_path / "earlier"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def commit(history: Path, files: Mapping[str, str]) -> str:
    for name, content in files.items():
        (history / name).parent.mkdir(exist_ok=True)
        (history / name).write_text(content)
    git(history, "add", "--all")
    who = ("-c", "user.name=a person", "-c", "user.email=person@example.com")
    git(history, *who, "commit", "--quiet", "--no-gpg-sign", "--message", "a change")
    return git(history, "rev-parse", "HEAD")


def content_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_later_commit_gives_what_builds_it_and_nothing_else(history: Path, folder: Path) -> None:
    earlier = commit(history, OPERATOR)
    later = commit(history, {**dict.fromkeys(OPERATOR, "new"), **BUILT_LATER, "image/builder.py": "new"})
    commit(history, dict.fromkeys(BUILT_LATER, "of today"))
    assert sources_of(earlier, built_as=later, folder=folder, repository=history) == folder
    assert content_of(folder) == {**OPERATOR, **BUILT_LATER}


def test_what_the_earlier_operator_has_itself_is_not_replaced(history: Path, folder: Path) -> None:
    earlier = commit(history, {**OPERATOR, "Dockerfile": "its own"})
    later = commit(history, BUILT_LATER)
    with pytest.raises(AssertionError, match="has a Dockerfile of its own"):
        sources_of(earlier, built_as=later, folder=folder, repository=history)
    assert content_of(folder)["Dockerfile"] == "its own"


@pytest.mark.parametrize("lacking", ["earlier", "later"])
def test_where_the_history_lacks_a_commit_a_sentence_says_what_to_do(
    history: Path, folder: Path, lacking: str
) -> None:
    here = commit(history, {**OPERATOR, **BUILT_LATER})
    earlier, later = ("0" * 40 if lacking == each else here for each in ("earlier", "later"))
    with pytest.raises(AssertionError, match="git fetch --unshallow") as caught:
        sources_of(earlier, built_as=later, folder=folder, repository=history)
    assert f"commit {'0' * 40}" in str(caught.value)
    assert list(folder.iterdir()) == []
