"""The formats of ``-o``, once for all verbs."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from winpool.cli.console import Look, Paper, Screen, document, is_text, write
from winpool.cli.parsing import ANSWER, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable


class Word(StrEnum):
    YES = "yes"


CONTENT: dict[str, Any] = {
    "version": "2022",
    "is": Word.YES,
    "none": None,
    "list": (1, 2.5, True),
    "text": "línea: 1\n- two\n",
    "long": "word " * 60,
}
"""Words that YAML 1.1 reads as something else, and what is no plain type of JSON."""


def table(look: Look) -> str:
    paper = Paper(look)
    paper.table([{"NAME": "a", "LONG": "x" * 200}], dropped=("LONG",), indent="")
    return paper.text


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    def run(output: str) -> str:
        write(output, lambda: CONTENT, table, lambda: ["node/a", "node/b"])
        return capsys.readouterr().out

    return run


def test_yaml_is_the_same_object_as_json(written: Callable[[str], str]) -> None:
    as_json = json.loads(written("json"))
    assert yaml.safe_load(written("yaml")) == as_json
    assert [*as_json] == [*CONTENT]
    assert document("yaml", CONTENT) == written("yaml")


def test_names_are_a_line_each(written: Callable[[str], str]) -> None:
    assert written("name") == "node/a\nnode/b\n"


def test_no_name_writes_to_the_terminal_what_is_not_its_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    write("name", dict, table, lambda: ["node/a\x1b[2J", "node/b\nnode/c"])
    assert capsys.readouterr().out == "node/a\\x1b[2J\nnode/b\\nnode/c\n"


def test_a_wide_table_leaves_out_no_column(written: Callable[[str], str]) -> None:
    assert written("text") == "NAME\na\n"
    assert written("wide").splitlines() == ["NAME   LONG", f"a      {'x' * 200}"]


def test_text_and_wide_are_for_people() -> None:
    assert [each for each in TABLE if is_text(each)] == ["text", "wide"]
    assert {*ANSWER} < {*TABLE}


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("json", '{"a": 1}\n{"a": 2}\n'),
        ("yaml", "a: 1\n---\na: 2\n"),
        ("name", "node/1\nnode/2\n"),
        ("text", "1\n\n2\n"),
    ],
)
def test_with_watch_answers_follow_each_other(
    capsys: pytest.CaptureFixture[str], output: str, shown: str
) -> None:
    screen = Screen(output)
    for number in (1, 2):
        screen.show(
            lambda: {"a": number},  # noqa: B023 - at once
            lambda _: f"{number}\n",  # noqa: B023
            lambda: [f"node/{number}"],  # noqa: B023
        )
    assert capsys.readouterr().out == shown
