"""For every test that is a coroutine: no task may be left running."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def no_leaked_task() -> AsyncIterator[None]:
    """Fail a test that ends while a task of its own still runs."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"left running: {left}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, "no_leaked_task")
