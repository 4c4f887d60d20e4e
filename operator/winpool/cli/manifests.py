"""Reads the objects in files, with the comments for winpool, and says what is wrong with pools, offline.

A key that is there twice is refused. kubectl takes the last one and says nothing, so that half of a manifest
may be gone without a word. YAML drops comments, such as ``# winpool.dev/audit-ignore: W13: a cache``: they
are looked for in the text, and those inside of strings are left out. That is done once for each line, since
a file may consist of comments.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from bisect import bisect, bisect_left
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from winpool.api.keys import API_VERSION, GROUP, KIND
from winpool.api.model import sentences
from winpool.api.spec import WindowsNodePool
from winpool.cli.lenient import Fields
from winpool.cli.parsing import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from winpool.api.spec import WindowsNodePoolSpec


_STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
"""What kubectl, too, takes from a folder."""
_URL: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")

_TEXT, _TIME, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("str", "timestamp", "merge"))
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MAX_BYTES: Final = 32 * 1024 * 1024
"""Of a file, of a document with its aliases written out, and of what is kept of all files. The API server
takes 3 MiB for an object."""
_MAX_VALUES: Final = 1_000_000
"""Likewise; keys count. They take 0.7 GB and 40 s to read, and are 16,000 small Deployments. 32 MiB have room
for 16 million. There is one file in memory, and what is kept of those before it."""
_MAX_LEVELS: Final = 64
"""Of maps and lists in each other. The deepest schemas of CRDs have about 40; functions of Python that call
themselves for each level end at a few hundred."""
_TOO_DEEP: Final = f"nested too deeply: more than {_MAX_LEVELS} levels"
_MAX_ALIASES: Final = 10_000
"""Uses of aliases in a document, those in aliases counted: nine lines can name a billion values."""

_DOCUMENTS: Final = re.compile(r"^(?=---\s)", re.MULTILINE)
"""Where documents begin: no text of YAML can have three dashes at the beginning of a line."""

_FIELD: Final = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*|\[[^\]]*\])*")
"""The field at the beginning of a sentence, such as ``spec.labels[team]``."""
_PART: Final = re.compile(r"[^.\[\]]+|(?<=\[)[^\]]+")

_COMMENT: Final = re.compile(rf"(?<![^ \t\n])#[ \t]*({re.escape(GROUP)}/[\w-]+):?([^\r\n]*)")
_NO_FIELD: Final = re.compile(r"[ \t]*(?:---[ \t]*)?(?:#.*)?\r?")
"""A line without a field."""

_GENERATED: Final = "xxxxx"
"""What the API server appends to generateName, in kind: five letters or digits."""

_LONGEST_NAME: Final = 253
"""Of an object of Kubernetes. A line about one that is skipped has no more of it.
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/"""

_NOT_JUDGED: Final = ("apiVersion", "kind", "status")

_Entry: TypeAlias = tuple[yaml.Node, yaml.Node]
"""A key of a map with its value; of an item of a list the item, twice."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment: its key, its text, its line, and the line of the field that it is about.

    That is the field in the same line, or the first one after it. ``position`` is that in the text.
    """

    key: str
    text: str
    line: int
    about: int
    position: int


class Size(NamedTuple):
    """How large a node is with its aliases written out."""

    values: int = 1
    letters: int = 0
    aliases: int = 0
    levels: int = 0


_ONE_VALUE: Final = Size()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object of a file; ``content`` is None where a document cannot be read.

    ``title`` is its place in the file, ``line`` where it begins. ``faults`` are lines and sentences: why it
    cannot be read, or which keys are there twice. ``comments`` are those for winpool, and ``above`` those
    above the items of its List, one tuple for all of them. ``size`` is that of the content.
    """

    file: str
    line: int
    title: str = ""
    content: Any = None
    faults: tuple[tuple[int, str], ...] = ()
    node: yaml.Node | None = field(default=None, repr=False)
    comments: tuple[Comment, ...] = ()
    above: tuple[Comment, ...] = ()
    size: Size = _ONE_VALUE
    _maps: dict[int, Mapping[str, _Entry]] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        """The name of the object, empty where it has none."""
        return Fields.of(self.content).one("metadata").text("name")

    def line_of(self, text: str) -> int:
        """Return the line of the field with which ``text`` begins, or of the nearest one above it."""
        return [self.line, *(_line(value) for _, value in self._steps(text))][-1]

    def lines_to(self, text: str) -> set[int]:
        """Return the lines of the field with which ``text`` begins and of all fields above it."""
        return {self.line, *(_line(key) for key, _ in self._steps(text))}

    def _steps(self, text: str) -> Iterator[_Entry]:
        """Yield key and value of each field on the way to the one with which ``text`` begins."""
        found, node = _FIELD.match(text), self.node
        for part in _PART.findall(found[0]) if found else ():
            below = self._below(node, part)
            if below is None:
                return
            yield below
            node = below[1]

    def _below(self, node: yaml.Node | None, part: str) -> _Entry | None:
        """Return the key ``part`` of a map with its value, or the item with that index of a list."""
        if isinstance(node, yaml.MappingNode):
            # A file may have a map of all its values, and a finding for each: it is searched through once.
            if id(node) not in self._maps:
                self._maps[id(node)] = _entries(node)
            return self._maps[id(node)].get(part)
        is_index = isinstance(node, yaml.SequenceNode) and part.isdecimal()
        if node is None or not is_index or int(part) >= len(node.value):
            return None
        return node.value[int(part)], node.value[int(part)]

    def at(self, line: int, text: str) -> str:
        """Return ``text`` with its place before it."""
        title = f"{self.title} ({self.name[:_LONGEST_NAME]})" if self.name else self.title
        return f"{self.file}:{line}: {title}: {text}" if title else f"{self.file}:{line}: {text}"


@dataclass(slots=True)
class PoolManifests:
    """The pools in files, what is wrong with pools and documents, and what was skipped: a line for each.

    ``has_invalid``: some of the faults are of what can be read.
    """

    pools: list[Manifest] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    has_invalid: bool = False
    skipped: list[str] = field(default_factory=list)


def pools_in(names: Iterable[str], *, recursive: bool, judged: bool = True) -> PoolManifests:
    """Read the pools in files, folders and standard input (``-``). Raises UsageError.

    With ``judged`` only the valid ones are among the pools, and the others' faults are told.
    """
    found = PoolManifests()
    for each in read(names, recursive=recursive, keeps=is_pool):
        refusal = None if each.content is None else not_a_pool(each.content)
        if refusal == "":
            kind = each.content["kind"][:_LONGEST_NAME]
            found.skipped.append(each.at(each.line, f"skipped, {kind} is not {KIND}"))
            continue
        faults = [each.at(each.line, refusal)] if refusal else told_faults(each, judged=judged)
        found.faults += faults
        found.has_invalid |= bool(faults) and each.content is not None
        if each.content is not None and not refusal and not (judged and faults):
            found.pools.append(each)
    return found


def told_faults(manifest: Manifest, *, judged: bool = True) -> list[str]:
    """Return a line for each fault of a pool, or of a document that cannot be read, in their order."""
    found = list(manifest.faults)
    if judged and manifest.content is not None:
        found += [(manifest.line_of(text), text) for text in faults_of(manifest.content)]
    return [manifest.at(line, text) for line, text in sorted(found)]


def named_twice(pools: Iterable[Manifest]) -> Iterator[str]:
    """Yield a fault for each pool whose name an earlier one has: only the last one would be applied."""
    places: dict[str, str] = {}
    for each in pools:
        if each.name in places:
            where = places[each.name]
            yield each.at(each.line, f'the pool "{each.name}" is already at {where}; keep one of them')
        elif each.name:
            places[each.name] = f"{each.file}:{each.line}"


def not_a_pool(content: Any) -> str | None:
    """Return None for a pool, nothing for an object of another kind, and a sentence for what is neither.

    What is of our group or nearly of our name is taken for a mistake: passing it over in silence would call
    a pool valid that was never read.
    """
    if not isinstance(content, dict):
        return "must be an object with `apiVersion` and `kind`"
    version, kind = content.get("apiVersion"), content.get("kind")
    for name, value in (("kind", kind), ("apiVersion", version)):
        if not value or not isinstance(value, str):
            return f"{name} not set"
    if (version, kind) == (API_VERSION, KIND):
        return None
    if str(version).partition("/")[0] == GROUP or str(kind).lower() == KIND.lower():
        return f'no matches for kind "{kind}" in version "{version}"; winpool has {KIND} in {API_VERSION}'
    return ""


def is_pool(content: Any) -> bool:
    """Whether an object is a pool."""
    return not_a_pool(content) is None


def faults_of(pool: Mapping[str, Any]) -> tuple[str, ...]:
    """Return all that is wrong with ``pool``, by the models, then by the rules that CEL cannot check.

    Each are sentences that begin with the field. ``status`` is not looked at, as in a create.
    """
    content = without_nulls({key: each for key, each in pool.items() if key not in _NOT_JUDGED})
    metadata = content.get("metadata", {})
    told = list(_told(_Metadata, metadata, at="metadata"))
    if isinstance(metadata, dict):
        begin = metadata.get("generateName")
        name = metadata.get("name") or (begin and f"{begin}{_GENERATED}")
        content["metadata"] = {"name": name} if name else {}
        told += _told(WindowsNodePool, content)
    return tuple(dict.fromkeys(told)) or tuple(_unusable(WindowsNodePool.model_validate(content).spec))


class _Metadata(BaseModel):
    """Kubernetes' own ObjectMeta: of metadata a CRD says the name only."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    uid: str = ""
    resource_version: str = ""
    self_link: str = ""
    generation: Any = None
    creation_timestamp: Any = None
    deletion_timestamp: Any = None
    deletion_grace_period_seconds: Any = None
    finalizers: Any = None
    managed_fields: Any = None
    owner_references: Any = None


def _told(model: type[BaseModel], content: Any, *, at: str = "") -> Iterator[str]:
    """Yield what ``model`` refuses: unknown fields too, and rules that it asks only where there are none."""
    text = json.dumps(content)
    for extra in ("forbid", "ignore"):
        try:
            # As JSON: strict about numbers and texts, and lists and times are what they are on the wire.
            model.model_validate_json(text, strict=True, extra=extra, by_alias=True, by_name=False)
        except ValidationError as error:
            yield from sentences(error, at=at)


def _unusable(spec: WindowsNodePoolSpec) -> Iterator[str]:
    """Yield why an operator with its default settings would not act on ``spec``."""
    # Imported here: most verbs read no manifest.
    from winpool.features.contract.feature import unusable
    from winpool.features.judge import rows_of
    from winpool.features.upgrade.feature import unusable as of_upgrades_unusable
    from winpool.support.matrix import built_in
    from winpool.support.rows import layered

    matrix = built_in()
    wrong = unusable(spec, matrix=matrix)
    yield from wrong
    if spec.upgrade is not None and not wrong:
        layers = layered(matrix, (), rows_of(spec.support_matrix))
        yield from of_upgrades_unusable(spec.upgrade, spec.os, layers=layers, now=datetime.now(UTC))


def without_nulls(value: Any) -> Any:
    """Drop the fields that are null, as the API server does; entries of lists stay."""
    match value:
        case dict():
            return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
        case list():
            return [without_nulls(inner) for inner in value]
    return value


def read(
    names: Iterable[str], *, recursive: bool, keeps: Callable[[Any], bool], goes_on: bool = False
) -> Iterator[Manifest]:
    """Yield the objects in files, folders and standard input (``-``), file by file. Raises UsageError.

    ``keeps`` says which contents the caller keeps. They are limited in all files together, with their
    comments: at the limit comes a fault, and no more is read. With ``goes_on`` also what stands after a fault
    of YAML is yielded.
    """
    kept = _Kept()
    for name in names:
        for file, content in _files(name, recursive=recursive):
            for each in _decoded(file, content, goes_on=goes_on):
                kept.add(each, is_whole=bool(each.faults) or keeps(each.content))
                if kept.values > _MAX_VALUES or kept.letters > _MAX_BYTES:
                    many = f"more than {_MAX_VALUES:,} values or 32 MiB"
                    fault = f"what counts of all files has {many}: not read from here; name fewer files"
                    yield Manifest(file=file, line=each.line, faults=((each.line, fault),))
                    return
                yield each


@dataclass(slots=True)
class _Kept:
    """How much is kept of all files; ``above`` are the comments of the last List, which its items share."""

    values: int = 0
    letters: int = 0
    above: tuple[Comment, ...] = ()

    def add(self, manifest: Manifest, *, is_whole: bool) -> None:
        """Count an object, or with not ``is_whole`` that a line may be said of it."""
        self.letters += sum(len(fault) for _, fault in manifest.faults)
        if not is_whole:
            self.values += 1
            return
        comments = manifest.comments
        if manifest.above is not self.above:
            comments, self.above = (*comments, *manifest.above), manifest.above
        self.values += manifest.size.values + len(comments)
        self.letters += manifest.size.letters + sum(len(each.text) for each in comments)


def _files(name: str, *, recursive: bool) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the file ``name``, of each manifest in that folder, or of stdin for ``-``.

    The content is one byte more than a file may have where it is too much, however much there is.
    """
    if name == _STDIN:
        yield "stdin", sys.stdin.buffer.read(_MAX_BYTES + 1)
        return
    if _URL.match(name):
        raise UsageError(f"{name}: URLs are not supported: download the file, or pipe it in with -f -")
    path = Path(name)
    try:
        for file in _of_folder(path, recursive=recursive) if path.is_dir() else [path]:
            with file.open("rb") as opened:
                content = opened.read(_MAX_BYTES + 1)
            yield str(file), content
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None


def _of_folder(folder: Path, *, recursive: bool) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(folders) if recursive else []
        yield from (Path(place, each) for each in sorted(names) if Path(each).suffix in _SUFFIXES)


def _raise(error: OSError) -> NoReturn:
    raise error


def _decoded(file: str, content: bytes, *, goes_on: bool) -> Iterable[Manifest]:
    """Return the objects in a file, or a fault for one that is too large or no text."""
    line, fault = 1, f"larger than {_MAX_BYTES // 1024**2} MiB: not read; split it"
    if len(content) <= _MAX_BYTES:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            fault = f"not UTF-8 at byte {error.start + 1}"
        else:
            return documents_of(file, text) if goes_on else objects_of(file, text)
    return [Manifest(file=file, line=line, faults=((line, fault),))]


def documents_of(file: str, text: str) -> Sequence[Manifest]:
    """Return the objects in the text of a file, and a fault for each document that is no YAML."""
    found = list(objects_of(file, text))
    if all(each.content is not None or each.title for each in found):
        return found
    found, rest, number = [], _Rest(comments_in(text)), 0
    for document in _split(text):
        rest.values -= 1
        read_now = list(objects_of(file, document, number=number, rest=rest))
        rest.line += document.count("\n")
        rest.index += len(document)
        number += bool(read_now)
        found += read_now
        if rest.values < 0:
            break
    return found


def _split(text: str) -> Iterator[str]:
    """Yield the documents of a text one by one: there may be millions."""
    start = 0
    for found in _DOCUMENTS.finditer(text):
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]


@dataclass(slots=True)
class _Rest:
    """What of a file is not read yet: comments, where its text begins, and how many values may be in it.

    ``levels`` is how many maps and lists are open.
    """

    comments: deque[Comment]
    line: int = 0
    index: int = 0
    values: int = _MAX_VALUES
    levels: int = 0


class _Loader(yaml.SafeLoader):
    """Ends where a file has too much, before that is in memory."""

    def __init__(self, text: str, rest: _Rest) -> None:
        super().__init__(text)
        self.line, self.index = rest.line, rest.index
        self.rest = rest
        rest.levels = 0

    def get_mark(self) -> yaml.Mark:
        """Return the place that is read. PyYAML's own has the whole text too, and so would each object."""
        return yaml.Mark(self.name, self.index, self.line, self.column, None, 0)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a value: PyYAML does it here for each of them, by events of its parser."""
        self.rest.values -= 1
        if self.rest.values < 0 or self.rest.levels > _MAX_LEVELS:
            told = f"more than {_MAX_VALUES:,} values in the file: not read from here; split it"
            next_event = self.peek_event()  # type: ignore[no-untyped-call]
            raise _TooMuchError(told if self.rest.values < 0 else _TOO_DEEP, next_event.start_mark.line)
        self.rest.levels += 1
        node = super().compose_node(parent, index)
        self.rest.levels -= 1
        return node


class _TooMuchError(Exception):
    """A limit is exceeded: which, and in which line, counted from 0."""


def objects_of(file: str, text: str, *, number: int = 0, rest: _Rest | None = None) -> Iterator[Manifest]:
    """Yield the objects in the text of a file; what stands after a fault of YAML is not read.

    ``number`` is how many documents of the file stand before the text, which is the next of the ``rest``.
    """
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # a blank in JSON, and a fault in YAML
    rest = rest or _Rest(comments_in(text))
    line = rest.line + 1
    try:
        loader = _Loader(text, rest)
        while loader.check_node() and (node := loader.get_node()):
            line = _line(node)
            sizes = _sizes(node)
            items = _items(node)
            parts, seen = [node] if items is None else items, set[int]()
            twice = [tuple(_twice(each, seen)) for each in (*parts, node)]
            content = json.loads(json.dumps(loader.construct_document(node), default=str))
            number += content is not None
            contents = [content] if items is None else content["items"]
            comments = taken(rest.comments, node)
            above = tuple(_about(comments, line, _line(parts[0]) - 1)) if items else ()
            for index, (part, inner) in enumerate(zip(parts, contents, strict=True)):
                title = f"document {number}" if items is None else f"document {number}, item {index + 1}"
                if inner is not None:
                    yield Manifest(
                        file=file,
                        line=_line(part),
                        title=title,
                        content=inner,
                        faults=twice[index],
                        node=part,
                        comments=tuple(_about(comments, _line(part), part.end_mark.line + 1)),
                        above=above,
                        size=sizes[id(part)],
                    )
            if twice[-1]:
                yield Manifest(file=file, line=line, title=f"document {number}", faults=twice[-1])
    except _TooMuchError as error:
        told, last = error.args
        yield Manifest(file=file, line=last + 1, faults=((last + 1, told),))
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = mark.line + 1 if mark else line
        told = getattr(error, "problem", None) or " ".join(str(error).split())
        yield Manifest(file=file, line=line, faults=((line, f"not YAML: {told}"),))


def _about(comments: list[Comment], first: int, last: int) -> list[Comment]:
    """Return those of ``comments``, which are in order, that are about a line from ``first`` to ``last``."""
    line = attrgetter("about")
    return comments[bisect_left(comments, first, key=line) : bisect(comments, last, key=line)]


def _items(node: yaml.Node) -> list[yaml.Node] | None:
    """Return the items of a List; None for what is none."""
    entries = _entries(node) if isinstance(node, yaml.MappingNode) else {}
    (_, kind), (_, items) = (entries.get(key, (None, None)) for key in ("kind", "items"))
    is_list = isinstance(items, yaml.SequenceNode) and kind and str(kind.value).endswith("List")
    return items.value if items and is_list else None


def _sizes(node: yaml.Node) -> Mapping[int, Size]:
    """Return the sizes of a document and of all in it, by their identity.

    Refuse one that its aliases make too large; make texts of what is a text for kubectl.
    """
    sizes: dict[int, Size] = {}
    size, line = _size(node, sizes), _line(node) - 1
    if size.levels > _MAX_LEVELS:
        raise _TooMuchError(f"{_TOO_DEEP}, aliases included", line)
    if size.aliases > _MAX_ALIASES:
        raise _TooMuchError(f"more than {_MAX_ALIASES:,} uses of aliases, those in aliases included", line)
    if size.values > _MAX_VALUES or size.letters > _MAX_BYTES:
        raise _TooMuchError(f"more than {_MAX_VALUES:,} values or 32 MiB, aliases included", line)
    return sizes


def _size(node: yaml.Node, sizes: dict[int, Size]) -> Size:
    """Make texts of dates and of 12:30, as they are for kubectl; return how large ``node`` is."""
    if isinstance(node, yaml.ScalarNode):
        if node.tag == _TIME or (node.tag in _NUMBERS and ":" in node.value):
            node.tag = _TEXT
        sizes[id(node)] = Size(letters=len(node.value))
        return sizes[id(node)]
    sizes[id(node)] = Size()  # what an alias inside of it has: JSON refuses it
    values, letters, aliases, levels = 1, 0, 0, 0
    is_map = isinstance(node, yaml.MappingNode)
    for each in itertools.chain.from_iterable(node.value) if is_map else node.value:
        is_alias = id(each) in sizes
        inner = sizes[id(each)] if is_alias else _size(each, sizes)
        values += inner.values
        letters += inner.letters
        aliases += inner.aliases + is_alias
        levels = max(levels, inner.levels)
    sizes[id(node)] = Size(values, letters, aliases, levels + 1)
    return sizes[id(node)]


def _twice(node: yaml.Node, seen: set[int]) -> Iterator[tuple[int, str]]:
    """Yield the keys that are there twice, each once however many aliases repeat them."""
    if id(node) in seen or isinstance(node, yaml.ScalarNode):
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _twice(each, seen)
        return
    first: dict[str, int] = {}
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            if key.value in first:
                yield _line(key), f'key "{key.value}" is already set on line {first[key.value]}'
            first.setdefault(key.value, _line(key))
        yield from _twice(value, seen)


def _entries(node: yaml.MappingNode) -> Mapping[str, _Entry]:
    """Return keys and values of a map, by the texts of the keys; of one that is there twice the last."""
    return {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


# Comments


def comments_in(text: str) -> deque[Comment]:
    """Return the comments for winpool in the text of a file, in their order."""
    found = list(_COMMENT.finditer(text))
    lines = text.split("\n") if found else []
    own = len(lines) - 1
    end, comments = len(text), deque[Comment]()
    for each in reversed(found):
        own, end = own - text.count("\n", each.start(), end), each.start()
        about = own
        while about < len(lines) and _NO_FIELD.fullmatch(lines[about]):
            about += 1
            if comments and 1 + about == comments[0].line:
                about = comments[0].about - 1
                break
        comments.appendleft(Comment(each[1], each[2].strip(), 1 + own, 1 + about, end))
    return comments


def taken(comments: deque[Comment], node: yaml.Node) -> list[Comment]:
    """Take the comments off that are before the end of a document; return those about a field of it.

    Those in its strings are none. Those at its end that are about the next document are left for that one.
    """
    found = []
    while comments and comments[0].position < node.end_mark.index:
        found.append(comments.popleft())
    strings = list(_strings(node, set())) if found else []
    found = [each for each in found if not _is_inside(each.position, strings)]
    last = node.end_mark.line + bool(node.end_mark.column)  # at column 0 the next document begins
    end = bisect(found, last, key=attrgetter("about"))
    comments.extendleft(reversed(found[end:]))
    return found[:end]


def _is_inside(position: int, strings: list[tuple[int, int]]) -> bool:
    place = bisect(strings, (position + 1,)) - 1
    return place >= 0 and position < strings[place][1]


def _strings(node: yaml.Node, seen: set[int]) -> Iterator[tuple[int, int]]:
    """Yield where the strings below ``node`` begin and end, in their order; each once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        yield node.start_mark.index, node.end_mark.index
        return
    for each in node.value:
        for inner in each if isinstance(each, tuple) else (each,):
            yield from _strings(inner, seen)
