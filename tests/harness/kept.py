"""Measures what winpool keeps in memory, and fills what a wire type declares."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from msgspec import inspect

MEGABYTE: Final = 1_000_000
"""Most of what etcd takes of an object (1.5 MiB)."""

FILL: Final = MEGABYTE // 4
"""Bytes of a field that is filled: many times what may be kept."""

FRAMES: Final = 8
"""More than the calls between a function of winpool and the one that allocates for it."""
WINPOOL: Final = tracemalloc.Filter(inclusive=True, filename_pattern="*/winpool/*", all_frames=True)
"""The thread by which pytest-xdist talks to a worker allocates in the meantime too."""


class Memory:
    """Bytes that are kept of what winpool does in the meantime."""

    kept = 0


@contextmanager
def measured() -> Iterator[Memory]:
    memory = Memory()
    # A worker that ran thousands of tests has a million objects: no collection here looks at them again.
    gc.collect()
    gc.freeze()
    tracemalloc.start(FRAMES)
    try:
        yield memory
        gc.collect()
        ours = tracemalloc.take_snapshot().filter_traces([WINPOOL])
        memory.kept = sum(each.size for each in ours.traces)
    finally:
        tracemalloc.stop()


class Filler:
    """Yields values of a wire type, in each of which one field is filled, with the path of the field.

    A list and a dict are filled twice: with many small parts, and with one that is large. ``accepted`` says,
    by the path, how many characters the API server takes; ``later`` has the types of raw fields, and
    ``beside`` what an object has in its other fields.
    """

    def __init__(
        self, *, accepted: Mapping[str, int], later: Mapping[str, Any], beside: Mapping[str, dict[str, Any]]
    ) -> None:
        self._accepted = accepted
        self._later = later
        self._beside = beside
        self.used: set[str] = set()

    def values(self, declared: inspect.Type, path: str = "") -> Iterator[tuple[str, Any]]:
        match declared:
            case inspect.UnionType(types=types):
                for each in types:
                    yield from self.values(each, path)
            case inspect.StrType(max_length=most):
                yield path, "x" * (most or self._length(path))
            case inspect.RawType():
                self.used.add(path)
                yield from self.values(inspect.type_info(self._later[path]), path)
            case inspect.DictType(key_type=key, value_type=value):
                yield f"{path} of many", many(lambda n: (f"k{n}", small(value, n)))
                yield from ((of, {text: small(value)}) for of, text in self.values(key, f"{path}{{key}}"))
                yield from ((of, {"key": each}) for of, each in self.values(value, f"{path}{{}}"))
            case inspect.StructType(fields=fields) | inspect.TypedDictType(fields=fields):
                others = small(declared) | self._beside.get(path, {})
                self.used.add(path)
                for part in fields:
                    within = self.values(part.type, f"{path}.{part.encode_name}")
                    yield from ((of, others | {part.encode_name: value}) for of, value in within)
            case (
                inspect.ListType(item_type=item)
                | inspect.VarTupleType(item_type=item)
                | (inspect.CollectionType(item_type=item))
            ):
                most = getattr(declared, "max_length", None)
                yield f"{path} of many", many(lambda n: small(item, n), most)
                yield from ((of, [each]) for of, each in self.values(item, f"{path}[]"))

    def _length(self, path: str) -> int:
        self.used.add(path)
        return self._accepted.get(path, FILL)


def many(part: Any, most: int | None = None) -> Any:
    """Return as many parts as FILL has room for, at most ``most``."""
    count = FILL // (len(json.dumps(part(99_999))) + 2)
    parts = [part(number) for number in range(min(count, most or count))]
    return dict(parts) if isinstance(parts[0], tuple) else parts


def small(declared: inspect.Type, number: int = 0) -> Any:
    """Return a short value of a type, another one for each ``number`` where the type has texts."""
    match declared:
        case inspect.UnionType(types=types):
            return small(next(each for each in types if not isinstance(each, inspect.NoneType)), number)
        case inspect.StrType():
            return f"{number:x}"
        case inspect.IntType() | inspect.FloatType():
            return number
        case inspect.BoolType():
            return True
        case inspect.DictType() | inspect.RawType() | inspect.AnyType():
            return {}
        case inspect.StructType(fields=fields):
            first = next((each for each in fields if each.required or _is_text(each.type)), None)
            return {each.encode_name: small(each.type, number) for each in fields if each.required} | (
                {first.encode_name: small(first.type, number)} if first else {}
            )
    return []


def _is_text(declared: inspect.Type) -> bool:
    types = declared.types if isinstance(declared, inspect.UnionType) else (declared,)
    return any(isinstance(each, inspect.StrType) for each in types)


def merged(least: Any, more: Any) -> Any:
    """Return ``least`` with what ``more`` has, part by part."""
    if not (isinstance(least, dict) and isinstance(more, dict)):
        return more
    return least | {key: merged(least.get(key), value) for key, value in more.items()}
