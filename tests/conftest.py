"""For every test that is a coroutine: no task may be left running. And what some tests ask of the machine."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator

import pytest

from testbed import machine


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
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, "no_leaked_task")
