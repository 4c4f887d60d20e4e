"""For every test: no task left running, what it asks of the machine, and which tests stay on one worker."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator

import pytest

from testbed import machine

# What stands on either side of an assertion that failed there is told, as in a test.
pytest.register_assert_rewrite("harness")


@pytest.fixture
async def no_leaked_task() -> AsyncIterator[None]:
    """Fail a test that ends while a task of its own still runs."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"left running: {left}"


@pytest.fixture(scope="session")
def private_network() -> None:
    """Skip the test, with the kernel's refusal, where there can be no private network namespace."""
    reason = machine.reason_to_skip(
        may_always=machine.may_enter_namespaces(),
        environment=os.environ,
        refusal=machine.namespace_refusal,
    )
    if reason is not None:
        pytest.skip(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, "no_leaked_task")
        if item.get_closest_marker("xdist_group") is None and shares_with_its_file(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def shares_with_its_file(item: pytest.Function) -> bool:
    """Whether a fixture is made once for the file of a test, such as a control plane of its own.

    With ``--dist loadgroup`` all tests of such a file run on one worker, so that it is made once; any other
    test runs on whichever worker is free, so that no long file keeps one of them busy at the end.
    """
    made = item._fixtureinfo.name2fixturedefs.values()
    return any(fixture.scope == "module" for fixtures in made for fixture in fixtures[-1:])
