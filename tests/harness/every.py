"""One test over all cases of a table: it tries every one, and names all that fail at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Protocol

import pytest

Test = Callable[..., None]


class Faults:
    """Collects what is wrong with each of many things, so that one run names all."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def of(self, name: str) -> _Fault:
        """Return a context manager: what fails in it is a fault of ``name``."""
        return _Fault(name, self._found)

    def check(self) -> None:
        """Fail with all faults, where there is one."""
        if self._found:
            pytest.fail("\n\n".join(self._found), pytrace=False)


class _Fault:
    def __init__(self, name: str, found: list[str]) -> None:
        self._name = name
        self._found = found

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception | pytest.fail.Exception):
            return False
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f" (line {trace.tb_lineno} of {trace.tb_frame.f_code.co_filename})"
        said = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        self._found.append(f"{self._name}{where}: {said}")
        return True


class Decorator(Protocol):
    """Makes one test of a test and its cases."""

    def __call__(self, test: Test, /) -> Test: ...


def every(
    names: str | Sequence[str], cases: Iterable[Any], *, ids: Callable[[Any], object] | None = None
) -> Decorator:
    """Return a decorator as ``pytest.mark.parametrize`` is one, but the cases are one test.

    It is for cases that need no fixture of their own: what the test takes besides is the same for all.
    """
    arguments = names.split(", ") if isinstance(names, str) else list(names)
    known = [_case(each, len(arguments), ids=ids) for each in cases]
    assert known, "a test of nothing"

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            faults = Faults()
            for name, values in known:
                with faults.of(name):
                    test(**dict(zip(arguments, values, strict=True)), **fixtures)
            faults.check()

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in arguments]
        vars(run)["__signature__"] = signature.replace(parameters=left)
        return run

    return decorate


def _case(each: Any, count: int, *, ids: Callable[[Any], object] | None) -> tuple[str, Sequence[Any]]:
    """Return the name of a case and its values."""
    name = None
    if isinstance(each, type(pytest.param())):
        values, name = each.values, each.id
    else:
        values = (each,) if count == 1 else tuple(each)
    return str(name or "-".join(str(ids(value) if ids else value) for value in values)), values
