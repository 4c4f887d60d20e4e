"""Reading the objects of files, with the lines of what is wrong in them."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.cli import manifests
from winpool.cli.manifests import Manifest, documents_of, named_twice, objects_of, pools_in
from winpool.cli.parsing import EndError

A, B = "{kind: A}\n", "{kind: B}\n"
POOL = """\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: %s}
spec:
  nodeSelector: {matchLabels: {agentpool: red}}
  os: {version: "2022"}
"""


def read(text: str) -> list[Manifest]:
    return list(objects_of("pools.yaml", text))


def files(names: list[str], *, keeps: Callable[[Any], bool] = bool) -> Iterator[Manifest]:
    return manifests.read(names, recursive=False, keeps=keeps, goes_on=True)


def objects(text: str) -> list[Any]:
    found = read(text)
    assert not [each.faults for each in found if each.faults]
    return [each.content for each in found]


@pytest.mark.parametrize(
    "text",
    [
        f"{A}---\n{B}",
        f"---\n{A}---\n\n---\n# nothing\n---\n{B}---\n",
        f"--- # first\n{A}---  \n{B}",
        f"{A}---\n{B}".replace("\n", "\r\n"),
        '{\t"kind":\n\t"A"}\n---\n{"kind": "B"}',
        "kind: List\napiVersion: v1\nitems: [{kind: A}, {kind: B}]\n",
    ],
)
def test_a_file_can_have_many_objects(text: str) -> None:
    assert objects(text) == [{"kind": "A"}, {"kind": "B"}]


@pytest.mark.parametrize("text", ["", "\n", "---\n---\n", "# only words\n"])
def test_a_file_can_have_none(text: str) -> None:
    assert objects(text) == []


def test_a_list_is_taken_apart() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- {metadata: {name: a}}\n- kind: B\n  x: 1\n  x: 2\n"
    first, second = read(text)
    assert (first.title, first.name, first.line, first.faults) == ("document 1, item 1", "a", 4, ())
    assert (second.title, second.line, second.content) == ("document 1, item 2", 5, {"kind": "B", "x": 2})
    assert second.faults == ((7, 'key "x" is already set on line 6'),)
    assert second.line_of("x: is wrong") == 7


def test_a_list_with_its_items_there_twice_is_a_fault() -> None:
    """Or the first half of the pools would be gone without a word."""
    found = read("kind: List\nitems: [{kind: A}]\nitems: [{kind: B}]\n")
    assert [each.faults for each in found] == [(), ((3, 'key "items" is already set on line 2'),)]


@pytest.mark.slow
def test_what_cannot_be_read_is_said_with_its_line() -> None:
    wrong = [
        f"{text[:30]!r}: {found}"
        for text, line, message in (
            ("kind: [\n", 2, "not YAML: "),
            ("a: 1\n\tb: 2\n", 2, "not YAML: "),
            ("a: 1\n---\na: 1\n\tb: 2\n", 4, "not YAML: "),
            ("a: 1\nb: !!int x\n", 1, "not YAML: "),
            ("a: 1\nb: !!python/name:os.system\n", 2, "not YAML: "),
            ("? [a]\n: b\n", 1, "not YAML: "),
            ("a: *nobody\n", 1, "not YAML: "),
            ("a: &x [*x]\n", 1, "not YAML: Circular reference"),
            ("<<: 5\n", 1, "not YAML: "),
            ("a: \x07\n", 1, "not YAML: "),
            (f"a: 1\nb: {'[' * 5000}", 2, "nested too deeply: more than 64 levels"),
            (f"{'{<<: ' * 2000}{{a: 1}}{'}' * 2000}", 1, "nested too deeply"),
        )
        for found in [read(text)[-1].faults]
        if found[0][0] != line or not found[0][1].startswith(message)
    ]
    assert wrong == []


def test_aliases_of_aliases_end_somewhere() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    message = "more than 10,000 uses of aliases, those in aliases included"
    assert read("\n".join(lines))[0].faults == ((1, message),)


def fault_of(text: str) -> str:
    """Return what is told of a document that is read no further."""
    (found,) = read(text)
    assert found.content is None
    ((_, message),) = found.faults
    return message


def test_levels_of_maps_and_lists_end_with_the_64th() -> None:
    for opened, closed in ("[", "]"), ("{a: ", "}"):
        assert len(objects(f"{opened * 64}1{closed * 64}")) == 1
        assert fault_of(f"{opened * 65}1{closed * 65}") == "nested too deeply: more than 64 levels"


@pytest.mark.slow
def test_levels_that_aliases_make_count() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000))]
    assert len(objects("\n".join(lines[:63]))) == 1
    for some in (lines[:64], lines):
        assert fault_of("\n".join(some)) == "nested too deeply: more than 64 levels, aliases included"


@pytest.mark.slow
def test_10000_uses_of_aliases_are_read_and_no_more() -> None:
    for count, message in (
        (10_000, ""),
        (10_001, "more than 10,000 uses of aliases, those in aliases included"),
    ):
        (found,) = read(f"a: &a 1\nb: [{'*a,' * count}]")
        assert [text for _, text in found.faults] == [message] * bool(message)


def test_a_long_text_is_not_written_out_thousands_of_times() -> None:
    text = f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 400}]"
    assert fault_of(text) == "more than 1,000,000 values or 32 MiB, aliases included"


def test_a_file_has_a_million_values_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for all documents together, and holds while they are read."""
    monkeypatch.setattr(manifests, "_MAX_VALUES", 12)
    monkeypatch.setattr(manifests._Rest.__init__, "__defaults__", (0, 0, 12, 0))
    text = "a: 1\n---\nb: [\n---\nc: 1\n---\nd: 1\n" + "---\n" * 1000
    found = documents_of("pools.yaml", text)
    assert [each.content for each in found] == [{"a": 1}, None, {"c": 1}, None]
    assert found[-1].faults == ((7, "more than 12 values in the file: not read from here; split it"),)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"x" * (32 * 1024**2 + 1), "larger than 32 MiB: not read; split it", id="large"),
        pytest.param(b"a: \xff\n", "not UTF-8 at byte 4", id="no text"),
    ],
)
def test_a_file_that_is_too_large_or_no_text_is_named_and_the_others_are_read(
    tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    written(tmp_path, A, "b.yaml")
    first, second = files([str(tmp_path)])
    assert (first.file, first.faults) == (str(tmp_path / "a.yaml"), ((1, told),))
    assert second.content == {"kind": "A"}


def test_of_a_source_without_an_end_is_read_what_a_file_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/zero").open("rb") as endless:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=endless))
        (found,) = files(["-"])
    assert found.faults == ((1, "larger than 32 MiB: not read; split it"),)
    (found,) = files(["/dev/zero"])
    assert found.file == "/dev/zero"


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    found = files([written(tmp_path, A), "missing.yaml"])
    assert next(found).content == {"kind": "A"}
    with pytest.raises(EndError):
        next(found)


@pytest.mark.parametrize(("limit", "most", "count"), [("_MAX_VALUES", 12, 2), ("_MAX_BYTES", 24, 4)])
def test_what_is_kept_of_all_files_is_limited_and_of_the_others_only_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, count: int
) -> None:
    """What is kept has 3 values and 5 letters here, and the others count as a value."""
    monkeypatch.setattr(manifests, limit, most)
    others = [written(tmp_path, B, f"b{number}.yaml") for number in range(4)]
    kept = [written(tmp_path, A, f"a{number}.yaml") for number in range(9)]
    *found, last = files([*others, *kept], keeps=lambda content: content["kind"] == "A")
    assert [each.content["kind"] for each in found] == ["B"] * 4 + ["A"] * count
    many = f"more than {manifests._MAX_VALUES:,} values or 32 MiB"
    fault = f"what counts of all files has {many}: not read from here; name fewer files"
    assert (last.file, last.content, last.faults) == (kept[count], None, ((1, fault),))


def test_comments_of_what_is_kept_count_and_those_of_a_list_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comment = "# winpool.dev/audit-ignore: W13: a\n"
    items = written(tmp_path, f"{comment * 5}kind: List\nitems: [\n{{kind: A}},\n{{kind: A}}]\n", "a.yaml")
    one = written(tmp_path, f"{comment * 5}{A}", "b.yaml")
    monkeypatch.setattr(manifests, "_MAX_VALUES", 19)
    assert [each.content for each in files([items, one])] == [{"kind": "A"}] * 3
    monkeypatch.setattr(manifests, "_MAX_VALUES", 18)
    assert [each.content for each in files([items, one])] == [{"kind": "A"}, {"kind": "A"}, None]


@pytest.mark.slow
def test_of_an_object_that_is_kept_nothing_of_its_file_remains(tmp_path: Path) -> None:
    """PyYAML has the text of the whole file in the place of each value."""
    file = written(tmp_path, f"{A}---\na: {'x' * 200_000}\n")
    tracemalloc.start()
    try:
        kept = next(files([file]))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert kept.content == {"kind": "A"}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 'key "a" is already set on line 1'),
        ("x:\n  y1: 1\n  y1: 2\n", 3, 'key "y1" is already set on line 2'),
        ("x:\n- {a: 1,\n   a: 2}\n", 3, 'key "a" is already set on line 2'),
        ("1: 1\n'1': 2\n", 2, 'key "1" is already set on line 1'),
        ('{"a": 1,\n"b": 2,\n"a": 3}', 3, 'key "a" is already set on line 1'),
        ("base: &a\n  v: 1\n  v: 2\nx:\n  <<: *a\n  b: 2\ny: *a\n", 3, 'key "v" is already set on line 2'),
    ],
)
def test_a_key_that_is_there_twice_is_a_fault(text: str, line: int, message: str) -> None:
    assert [each.faults for each in read(text)] == [((line, message),)]


def test_scalars_are_what_they_are_for_kubectl_where_it_matters() -> None:
    text = "[2027-04-01, 2027-02-30, 2027-04-01T00:00:00Z, 12:30, 22:00:00, 1.30, 0x10, 'y', ~, 5: b]\n"
    values = ["2027-04-01", "2027-02-30", "2027-04-01T00:00:00Z", "12:30", "22:00:00", 1.3, 16, "y", None]
    assert objects(text) == [[*values, {"5": "b"}]]
    assert objects("base: &a {v: 1}\nx: {<<: *a, b: 2}\n")[0]["x"] == {"v": 1, "b": 2}


def test_lines_of_fields_are_known() -> None:
    (found,) = read(
        "# a pool\nspec:\n  os:\n    version: 2022\n  labels:\n    a.b/c: x\n  floors: [1,\n    2]\n"
    )
    assert found.line == 2
    wanted = {
        "spec.os.version: must be": 4,
        "spec.labels[a.b/c]: must be": 6,
        "spec.floors[1]: must be": 8,
        "spec.floors[7]: must be": 7,
        "spec.os.nothing.here": 4,
        "spec.os.version is 2023, but": 4,
        "no field": 2,
    }
    assert {text: found.line_of(text) for text in wanted} == wanted


class Counted(list[Any]):
    """Counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        Counted.times += 1
        return super().__iter__()

    def __getitem__(self, place: Any) -> Any:
        Counted.times += isinstance(place, slice)
        return super().__getitem__(place)


def test_thousands_of_fields_are_found_without_going_through_a_map_for_each() -> None:
    """Or a file with 100,000 keys and a finding for each tenth takes minutes."""
    (found,) = read("a:\n" + "".join(f"  k{number}: [1]\n" for number in range(1000)) + "b: [1, 2]\n")
    assert found.node is not None
    for node in (found.node, *(value for _, value in found.node.value)):
        node.value = Counted(node.value)
    Counted.times = 0
    for number in range(1000):
        assert found.line_of(f"a.k{number}: x") == number + 2
        assert found.lines_to(f"a.k{number}: x") == {1, number + 2}
        assert found.line_of("b[1]: x") == 1002
    assert Counted.times == 2, "once for each map"


KEYS = st.text(max_size=80)
"""PyYAML reads keys of up to 1024 characters as written, of Kubernetes' own none has more than 317."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, JSON, max_size=4).filter(lambda each: "items" not in each))
def test_json_reads_back_as_it_was_written(content: dict[str, Any]) -> None:
    for text in (json.dumps(content), json.dumps(content, indent="\t")):
        assert objects(text) == [content]


@given(st.text(alphabet=st.sampled_from("ab:-{}[]\"'\n\t #&*!|>~.<?,%@`0é\x00")))
def test_no_text_crashes(text: str) -> None:
    for each in read(text):
        assert each.line >= 1
        assert each.content is not None or each.faults


@given(st.binary(max_size=200) | st.text(alphabet="&*<>[]{}:,-!a \n").map(str.encode))
def test_no_bytes_crash(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder, "a.yaml")
        file.write_bytes(content)
        for each in files([str(file)]):
            assert each.content is not None or each.faults
            each.line_of("spec.template.spec.containers[0]: x")


def written(folder: Path, text: str, name: str = "pools.yaml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_pools_of_a_list_and_of_several_files_are_found_in_order(tmp_path: Path) -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + (POOL % "c").replace("\n", "\n  ")
    files = [written(tmp_path, listed, "c.yaml"), written(tmp_path, f"{POOL % 'b'}---\n{POOL % 'a'}")]
    found = pools_in(files, recursive=False)
    assert [each.content["metadata"]["name"] for each in found.pools] == ["c", "b", "a"]
    assert (found.faults, found.skipped) == ([], [])


def test_two_pools_of_one_name_are_a_fault_where_only_the_last_would_be_applied(tmp_path: Path) -> None:
    file = written(tmp_path, f"{POOL % 'a'}---\n{POOL % 'b'}---\n{POOL % 'a'}")
    (fault,) = named_twice(pools_in([file], recursive=False).pools)
    assert fault == f'{file}:15: document 3 (a): the pool "a" is already at {file}:1; keep one of them'


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EndError, match=r"missing\.yaml: No such file"):
        pools_in([str(tmp_path / "missing.yaml")], recursive=False)


def test_what_stands_after_a_fault_can_be_read_in_its_place() -> None:
    text = f"{A}---\na: [\n---\n# nothing\n---\n- b\n c: d\n--- # last\n{B}"
    found = documents_of("pools.yaml", text)
    assert [(each.line, each.title, each.content) for each in found] == [
        (1, "document 1", {"kind": "A"}),
        (4, "", None),
        (8, "", None),
        (10, "document 4", {"kind": "B"}),
    ]
    assert [each.line_of("kind") for each in found if each.content] == [1, 10]


@given(st.lists(st.sampled_from([A, B, "a: [\n", "# nothing\n", "x: 1\nx: 2\n", "'\n", "]\n"])))
def test_reading_on_changes_nothing_of_what_is_read_without_a_fault(documents: list[str]) -> None:
    text = "".join(f"---\n{each}" for each in documents)
    once, again = read(text), list(documents_of("pools.yaml", text))
    good = [each for each in once if each.content is not None or each.title]
    assert [each.content for each in again][: len(good)] == [each.content for each in good]
    assert len(again) >= len(once)
