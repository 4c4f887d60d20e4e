"""Manifests as kubectl reads them: YAML and JSON, many documents in one file, Lists taken apart.

Stricter in one thing: a key that is there twice is refused. kubectl takes the last one and says
nothing, so that half of a manifest may be gone without a word.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from winpool.cli.scalars import ScalarError, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[int | str, ...]

_SEPARATOR: Final = "---"
_MERGE: Final = "<<"
_PLAIN: Final = "plain"
"""In the place of a tag: a scalar without quotes and without a tag in the file."""

_MAX_VALUES: Final = 100_000
"""Values of one document, each use of an alias counted: the API server takes 3 MiB at most, and nine
lines of aliases of aliases can name a billion."""


class ManifestError(ValueError):
    """A text that is no manifest. ``line`` is where, from 1 on in its file."""

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Loader(yaml.BaseLoader):
    """Leaves to ``scalars`` what a scalar means, and tells a tag in the file from none."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:  # noqa: ARG002 - PyYAML's
        """Return the tag of a node that has none in the file."""
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else self.DEFAULT_SCALAR_TAG
        return self.DEFAULT_SEQUENCE_TAG if kind is yaml.SequenceNode else self.DEFAULT_MAPPING_TAG


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file.

    ``number`` counts the documents of the file from 1 on, ``item`` those of a List from 0 on.
    ``line`` is where it begins. ``problems`` are the keys that are there twice, with their lines.
    """

    content: Any
    number: int
    line: int
    item: int | None = None
    problems: tuple[ManifestError, ...] = ()
    nodes: dict[Path, yaml.Node] = field(default_factory=dict, repr=False)

    def line_of(self, path: Path) -> int:
        """Return the line of the value at ``path``, or of the nearest one above it that there is."""
        while path and path not in self.nodes:
            path = path[:-1]
        node = self.nodes.get(path)
        return self.line if node is None else _line(node)

    def written(self, path: Path) -> str | None:
        """Return the scalar at ``path`` as the file has it, without quotes; None where there is none."""
        node = self.nodes.get(path)
        return node.value if isinstance(node, yaml.ScalarNode) else None


def read(text: str) -> Iterator[Manifest | ManifestError]:
    """Yield the objects of a file, and an error in the place of each document that cannot be read."""
    number = 0
    for offset, chunk in _documents(text.removeprefix("\ufeff")):
        if isinstance(chunk, ManifestError):
            yield chunk
            continue
        try:
            nodes = list(_compose(chunk, offset=offset))
        except ManifestError as error:
            number += 1
            yield error
            continue
        for node in nodes:
            number += 1
            try:
                yield from _manifests(node, number=number)
            except ManifestError as error:
                yield error
            except RecursionError:
                # Merges of merges, and aliases of aliases, go deeper than what is written.
                yield ManifestError("nested too deeply", line=_line(node))


def _documents(text: str) -> Iterator[tuple[int, str | ManifestError]]:
    """Split as kubectl does, by lines that begin with ``---``; yield each part with the lines before it."""
    lines = io.StringIO(text, newline="\n").readlines()
    begin = 0
    for index, line in enumerate([*lines, _SEPARATOR]):
        if not line.startswith(_SEPARATOR):
            continue
        yield begin, "".join(lines[begin:index])
        begin = index + 1
        rest = line.removeprefix(_SEPARATOR).strip()
        if rest and not rest.startswith("#"):
            yield (
                index,
                ManifestError("only a comment may follow '---' on its line", line=index + 1),
            )


def _compose(chunk: str, *, offset: int) -> Iterator[yaml.Node]:
    for begin, part in _json_texts(chunk) or [(0, chunk)]:
        before = offset + chunk.count("\n", 0, begin)
        try:
            loader = _Loader(part)
            loader.line = before
            node = loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise ManifestError(
                f"not YAML: {error.problem or error}", line=mark.line + 1 if mark else before + 1
            ) from None
        except yaml.YAMLError as error:
            raise ManifestError(f"not YAML: {' '.join(str(error).split())}", line=before + 1) from None
        except RecursionError:
            raise ManifestError("nested too deeply", line=before + 1) from None
        if node is not None:
            yield node


def _json_texts(chunk: str) -> list[tuple[int, str]]:
    """Return the objects of a stream of JSON with where each begins; nothing where it is no such stream."""
    found: list[tuple[int, str]] = []
    decoder, at = json.JSONDecoder(), 0
    while begin := re.compile(r"\S").search(chunk, at):
        if chunk[begin.start()] != "{":
            return []
        try:
            _, at = decoder.raw_decode(chunk, begin.start())
        except (json.JSONDecodeError, RecursionError):
            return []
        # A tab is a blank in JSON (in its strings it is written \t) and a fault in YAML.
        found.append((begin.start(), chunk[begin.start() : at].replace("\t", " ")))
    return found


def _manifests(node: yaml.Node, *, number: int) -> Iterator[Manifest]:
    reader = _Reader()
    content = reader.value(node, ())
    problems = tuple(problem for _, problem in reader.problems.values())
    whole = Manifest(content, number, _line(node), None, problems, reader.nodes)
    items = content.get("items") if isinstance(content, dict) else None
    if not isinstance(items, list) or not str(content.get("kind", "")).endswith("List"):
        yield whole
        return
    for index, item in enumerate(items):
        prefix: Path = ("items", index)
        nodes = {path[2:]: inner for path, inner in reader.nodes.items() if path[:2] == prefix}
        problems = tuple(problem for path, problem in reader.problems.values() if path[:2] == prefix)
        yield Manifest(item, number, whole.line_of(prefix), index, problems, nodes)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Reader:
    """Makes values of nodes, and remembers which node stands at which path."""

    def __init__(self) -> None:
        self.nodes: dict[Path, yaml.Node] = {}
        self.problems: dict[int, tuple[Path, ManifestError]] = {}
        """By the node of the key, so that what aliases repeat is told once."""
        self._values = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node, path: Path) -> Any:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise ManifestError("too many values, aliases included", line=_line(node))
        if id(node) in self._open:
            raise ManifestError("an anchor that contains itself", line=_line(node))
        self.nodes[path] = node
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(inner, (*path, index)) for index, inner in enumerate(node.value)]
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = _line(key_node)
            if _is_merge(key_node):
                # In the order of the file: what is merged replaces what stands above it.
                found.update(self._merged(value_node, path))
                self.nodes[path] = node
                continue
            key = _key(key_node)
            if key in first:
                problem = ManifestError(f'key "{key}" is already set on line {first[key]}', line=line)
                self.problems.setdefault(id(key_node), ((*path, key), problem))
            first.setdefault(key, line)
            found[key] = self.value(value_node, (*path, key))
        return found

    def _merged(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Any] = {}
        for source in reversed(sources):
            if not isinstance(source, yaml.MappingNode):
                raise ManifestError("map merge requires a map or a list of maps", line=_line(source))
            found.update(self.value(source, path))
        return found


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == _MERGE and node.tag == _PLAIN


def _key(node: yaml.Node) -> str:
    """Return the key as JSON has it: 1 becomes "1", and y becomes "true"."""
    value = _scalar(node) if isinstance(node, yaml.ScalarNode) else None
    if value is None:
        raise ManifestError("a key must be a string, a number or a boolean", line=_line(node))
    return value if isinstance(value, str) else json.dumps(value)


def _scalar(node: yaml.ScalarNode) -> Any:
    plain = node.tag == _PLAIN
    try:
        value = resolve(node.value, tag=None if plain else node.tag, plain=plain)
    except ScalarError as error:
        raise ManifestError(str(error), line=_line(node)) from None
    if isinstance(value, str):
        # JSON writes what is beyond 16 bits as two halves.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
