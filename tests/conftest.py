"""For every test: no task left running, what it asks of the machine, its time, its worker."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import signal
from collections.abc import AsyncIterator

import pytest

import durations
from testbed import machine

# What stands on either side of an assertion that failed there is told, as in a test.
pytest.register_assert_rewrite("harness", "cluster", "crash", "image")

ONCE_A_RUN = ("fragile", "guard", "hasty")
"""Fixtures that start a control plane for the tests of several files."""


def pytest_configure() -> None:
    """Have all that tests start hear Ctrl-C: a background job of a shell and its children ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
async def no_leaked_task() -> AsyncIterator[None]:
    """Fail a test that ends while a task of its own still runs."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"left running: {left}"


@pytest.fixture
async def no_slow_callback() -> None:
    """Have asyncio's debug mode warn of no slow callback: a busy machine has some, and tests read the log."""
    asyncio.get_running_loop().slow_callback_duration = math.inf


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


@pytest.hookimpl(tryfirst=True)  # xdist writes the group into the name of a test in this hook too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if inspect.iscoroutinefunction(item.function):
            item.fixturenames[:0] = ["no_slow_callback", "no_leaked_task"]
        group = group_of(item)
        if item.get_closest_marker("xdist_group") is None and group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    durations.begin(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.when == "teardown":
        durations.end(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        each
        for found in terminalreporter.stats.values()
        for each in found
        if isinstance(each, pytest.TestReport)
    ]
    if os.environ.get("HYPOTHESIS_PROFILE") == "first" and (slow := durations.slow(reports)):
        terminalreporter.section(f"over {durations.SLOW_SECONDS:g} s on an idle machine: mark them slow")
        for seconds, name in slow:
            terminalreporter.line(f"{seconds:6.1f} s  {name}")


def group_of(item: pytest.Function) -> str | None:
    """Return what names the tests that one worker runs, since they share something that is made once.

    That is a control plane for several files, or a fixture of a test's own file. Any other test runs on
    whichever worker is free (``--dist loadgroup``), so that no long file keeps one of them busy at the end.
    """
    shared = [name for name in ONCE_A_RUN if name in item.fixturenames]
    if shared:
        return shared[0]
    made = item._fixtureinfo.name2fixturedefs.values()
    if any(fixture.scope == "module" for fixtures in made for fixture in fixtures[-1:]):
        return item.nodeid.partition("::")[0]
    return None
