"""The settings of the operator that a person gives to the plugin."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from winpool.cli.parsing import EndError, add_settings
from winpool.cli.upgrades import rows_of_settings
from winpool.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from winpool.support.rows import Row

ROWS = 'supportMatrix:\n- {osVersion: "2022", verdict: Deny, reason: a bad month}\n'


def rows(*arguments: str) -> tuple[Row, ...]:
    parser = argparse.ArgumentParser()
    add_settings(parser)
    return rows_of_settings(parser.parse_args(arguments))


def test_every_flag_is_one_of_the_operator() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_settings(parser)
    assert set(vars(parser.parse_args([]))) <= set(Settings.model_fields)


def test_without_the_flag_there_are_no_rows() -> None:
    assert rows() == ()


def test_the_rows_of_the_file_are_read_as_the_operator_reads_them(tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text(ROWS)
    (row,) = rows("--support-matrix-file", str(tmp_path / "rows.yaml"))
    assert (row.os_version, row.reason) == ("2022", "a bad month")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", "not UTF-8"),
        (b"supportMatrix: [{osVersion: 7}]", "osVersion"),
        (b"a: [", "rows.yaml: "),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "rows.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(EndError) as raised:
        rows("--support-matrix-file", str(file))
    assert str(raised.value).startswith(f"--support-matrix-file {file}: ")
    assert said in str(raised.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(EndError, match="Is a directory"):
        rows("--support-matrix-file", str(tmp_path))
