"""Which pools ``-f`` gives to a verb, and what is said of all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from winpool.cli.files import UnreadableError
from winpool.cli.pool_manifests import pools_in

if TYPE_CHECKING:
    from pathlib import Path

POOL = """\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: %s}
spec:
  nodeSelector: {matchLabels: {agentpool: red}}
  os: {version: "2022"}
"""
A, B = POOL % "a", POOL % "b"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"


def written(folder: Path, text: str, name: str = "pools.yaml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_all_pools_of_a_file_are_found_in_order(tmp_path: Path) -> None:
    found = pools_in([written(tmp_path, f"{B}---\n{A}")], recursive=False)
    assert [each["metadata"]["name"] for each in found.pools] == ["b", "a"]
    assert (found.faults, found.skipped) == ([], [])


def test_pools_of_a_list_and_of_several_files_are_found(tmp_path: Path) -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + A.replace("\n", "\n  ")
    files = [written(tmp_path, listed, "list.yaml"), written(tmp_path, B, "b.yaml")]
    assert [each["metadata"]["name"] for each in pools_in(files, recursive=False).pools] == ["a", "b"]


def test_objects_of_other_kinds_are_skipped_with_a_word(tmp_path: Path) -> None:
    file = written(tmp_path, f"{SERVICE}---\n{A}")
    found = pools_in([file], recursive=False)
    assert len(found.pools) == 1
    assert found.skipped == [f"{file}:1: skipped, Service is not WindowsNodePool"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (A.replace("v1alpha1", "v1"), ":1: no matches for kind"),
        (A.replace('"2022"', "2022"), ":6: spec.os.version: Invalid value"),
        (A.replace("nodeSelector", "nodeSelektor"), ":5: spec.nodeSelektor: unknown field"),
        (A.replace("{name: a}", "{name: A_b}"), ":3: metadata.name: "),
        (A + "  os: {version: '2019'}\n", ':7: key "os" is already set on line 6'),
        ("a: [", ":1: not YAML"),
        ("- 1", ":1: must be an object with `apiVersion` and `kind`"),
        ("kind: WindowsNodePool", ":1: apiVersion not set"),
    ],
)
def test_what_is_wrong_is_a_line_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = written(tmp_path, text)
    found = pools_in([file], recursive=False)
    assert found.pools == []
    assert any(f"{file}{said}" in fault for fault in found.faults), found.faults


def test_two_pools_of_one_name_are_a_fault_since_only_the_last_would_be_applied(tmp_path: Path) -> None:
    file = written(tmp_path, f"{A}---\n{B}---\n{A}")
    found = pools_in([file], recursive=False)
    assert found.faults == [f'{file}:15: the pool "a" is already at {file}:1; keep one of them']


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"missing\.yaml: No such file"):
        pools_in([str(tmp_path / "missing.yaml")], recursive=False)
