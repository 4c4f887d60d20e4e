"""Reading files as kubectl does, with the lines of what is wrong in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.cli.manifests import Manifest, ManifestError, _Loader, read

A, B = "{kind: A}\n", "{kind: B}\n"


def objects(text: str) -> list[Manifest]:
    found = list(read(text))
    assert not [each.message for each in found if isinstance(each, ManifestError)]
    return [each for each in found if isinstance(each, Manifest)]


def fault(text: str) -> tuple[int, str]:
    """Return line and message of the one thing that is wrong."""
    (found,) = [each for each in read(text) if isinstance(each, ManifestError)]
    return found.line, found.message


@pytest.mark.parametrize(
    "text",
    [
        f"{A}---\n{B}",
        f"---\n{A}---\n\n---\n# nothing\n---\n{B}---\n",
        f"--- # first\n{A}---  \n{B}",
        f"{A}---\n{B}".replace("\n", "\r\n"),
        f"\ufeff{A}---\n{B}",
        '{"kind":"A"}\n{"kind":"B"}',
        '{"kind":"A"}{"kind":"B"}',
        f'{{"kind":"A"}}\n---\n{B}',
        'kind: A\n---\n{\t"kind":\n\t"B"}',
    ],
)
def test_a_file_can_have_many_documents(text: str) -> None:
    found = objects(text)
    assert [each.content for each in found] == [{"kind": "A"}, {"kind": "B"}]
    assert [each.number for each in found] == [1, 2]


@pytest.mark.parametrize("text", ["", "\n", "---\n---\n", "# only words\n"])
def test_a_file_can_have_none(text: str) -> None:
    assert objects(text) == []


def test_a_list_is_taken_apart() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- kind: A\n- kind: B\n  x: 1\n  x: 2\n"
    first, second = objects(text)
    assert (first.content, first.item, first.line) == ({"kind": "A"}, 0, 4)
    assert (second.content, second.item, second.line) == ({"kind": "B", "x": 2}, 1, 5)
    assert (first.problems, [problem.line for problem in second.problems]) == ((), [7])
    assert second.line_of(("x",)) == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("kind: [\n", 2, "not YAML: "),
        ("a: 1\n\tb: 2\n", 2, "not YAML: "),
        (f"{A}---\na: 1\n\tb: 2\n", 4, "not YAML: "),
        ("a: .inf\n", 1, ".inf does not exist in JSON"),
        ("a: 1\nb: !!int x\n", 2, "'x' is not of the type int"),
        ("? [a]\n: b\n", 1, "a key must be a string, a number or a boolean"),
        ("~: b\n", 1, "a key must be a string, a number or a boolean"),
        ("a: *nobody\n", 1, "not YAML: "),
        ("a: &x [*x]\n", 1, "an anchor that contains itself"),
        ("<<: 5\n", 1, "map merge requires a map or a list of maps"),
        # kubectl reads nothing after such a line, and says nothing of it.
        (f"{A}...\n{B}", 3, "not YAML: expected '<document start>'"),
        ("%YAML 1.1\n---\nkind: A\n", 2, "not YAML: "),
        (f"{A}--- {B}", 2, "only a comment may follow '---' on its line"),
        ("a: \x07\n", 1, "not YAML: "),
        pytest.param("[" * 5000, 1, "nested too deep", id="5000 brackets"),
        pytest.param(
            f"{A}---\n{'{<<: ' * 400}{{a: 1}}{'}' * 400}", 3, "nested too deep", id="400 merge keys"
        ),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(text: str, line: int, message: str) -> None:
    found = fault(text)
    assert found[0] == line
    assert found[1].startswith(message)


def test_one_document_that_cannot_be_read_hides_no_other() -> None:
    found = list(read(f"{A}---\n[\n---\n{B}"))
    assert [isinstance(each, ManifestError) for each in found] == [False, True, False]
    last = found[-1]
    assert isinstance(last, Manifest)
    assert (last.content, last.number) == ({"kind": "B"}, 3)


def test_what_stands_before_a_document_is_not_read_again_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read_for_each: list[str] = []
    construct = _Loader.__init__

    def counting(self: _Loader, stream: str) -> None:
        read_for_each.append(stream)
        construct(self, stream)

    monkeypatch.setattr(_Loader, "__init__", counting)
    text = f"{A}---\n" * 50 + f"{B}"
    found = objects(text)
    assert found[-1].line == 101
    assert sum(map(len, read_for_each)) <= len(text)


def test_aliases_of_aliases_end_somewhere() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert fault("\n".join(lines))[1] == "too many values, aliases included"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 'key "a" is already set on line 1'),
        ("x:\n  y1: 1\n  y1: 2\n", 3, 'key "y1" is already set on line 2'),
        ("x:\n- {a: 1,\n   a: 2}\n", 3, 'key "a" is already set on line 2'),
        ("y: 1\ntrue: 2\n", 2, 'key "true" is already set on line 1'),
        ("1: 1\n'1': 2\n", 2, 'key "1" is already set on line 1'),
        ('{"a": 1,\n"b": 2,\n"a": 3}', 3, 'key "a" is already set on line 1'),
        (f'{A}---\n{{"a": 1,\n\t"a": 3}}', 4, 'key "a" is already set on line 3'),
    ],
)
def test_a_key_that_is_there_twice_is_a_problem(text: str, line: int, message: str) -> None:
    ((found, told),) = [
        (problem.line, problem.message) for each in objects(text) for problem in each.problems
    ]
    assert (found, told) == (line, message)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("base: &a {v: 1}\nx: {<<: *a, b: 2, v: 3}\n", {"b": 2, "v": 3}),
        # The one above is replaced, as kubectl does it.
        ("base: &a {v: 1}\nx: {v: 3, <<: *a, b: 2}\n", {"b": 2, "v": 1}),
        ("base: &a {v: 1}\nother: &b {v: 2, w: 2}\nx: {<<: [*a, *b]}\n", {"v": 1, "w": 2}),
        ("x: {'<<': 5}\n", {"<<": 5}),
    ],
)
def test_maps_are_merged(text: str, content: dict[str, Any]) -> None:
    (found,) = objects(text)
    assert found.content["x"] == content
    assert found.problems == ()


def test_what_is_repeated_by_aliases_is_told_once_and_where_it_stands() -> None:
    (found,) = objects("base: &a\n  v: 1\n  v: 2\nx:\n  <<: *a\n  b: 2\ny: *a\n")
    assert [problem.line for problem in found.problems] == [3]
    assert (found.line_of(("x",)), found.line_of(("x", "v"))) == (5, 3)


def test_a_document_that_means_nothing_in_json_is_counted_once() -> None:
    first, second = read("a: .inf\n---\nkind: B\n")
    assert isinstance(first, ManifestError)
    assert isinstance(second, Manifest)
    assert second.number == 2


def test_lines_and_letters_of_values_are_known() -> None:
    (found,) = objects("# a pool\nspec:\n  os:\n    version: 2022\n    floors: [1,\n      0x2]\n")
    assert found.line == 2
    assert found.line_of(("spec", "os", "version")) == 4
    assert found.line_of(("spec", "os", "floors", 1)) == 6
    assert found.line_of(("spec", "os", "nothing", "here")) == 4
    assert found.written(("spec", "os", "version")) == "2022"
    assert found.written(("spec", "os", "floors", 1)) == "0x2"
    assert found.written(("spec", "os")) is None
    assert found.written(("nothing",)) is None


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
        (found,) = objects(text)
        assert found.content == content
        assert found.problems == ()


@given(st.text(alphabet=st.sampled_from("ab:-{}[]\"'\n\t #&*!|>~.<?,%@`0é\x00")))
def test_no_text_crashes(text: str) -> None:
    for each in read(text):
        assert isinstance(each, Manifest) or each.line >= 1
