"""Telling a person how far a long step is: a bar on a terminal, a line now and then in a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Report = Callable[[str], None]
"""Takes one line about what happens now."""
Advance = Callable[[int, str], None]
"""Takes how many are done and the name of the last."""

PLAIN_STEP_PERCENT: Final = 5
"""Between two lines in a log: twenty lines for a build of five minutes."""
DETAIL_WIDTH: Final = 40
"""Columns for the name of the last item, so that the bar fits into 80 with its counts."""

console: Final = Console(stderr=True, highlight=False, soft_wrap=True)


def say(line: str) -> None:
    """Print one line about what happens now."""
    console.print(line, markup=False)


def quiet(line: str) -> None:
    """Print nothing."""


@contextmanager
def progress(title: str, *, total: int, report: Report = say) -> Iterator[Advance]:
    """Show the progress of a step with a known number of items.

    On a terminal this is a bar that goes away when the step is over; elsewhere a line every few percent,
    because a log cannot be drawn over.
    """
    if console.is_terminal and report is say:
        with _bar(title, total=total) as advance:
            yield advance
    else:
        yield plain(title, total=total, report=report)


def plain(title: str, *, total: int, report: Report) -> Advance:
    """Show progress as lines: one whenever the percentage has passed another step."""
    last = -PLAIN_STEP_PERCENT

    def advance(done: int, detail: str) -> None:
        nonlocal last
        percent = min(100, 100 * done // max(total, 1))
        if percent >= last + PLAIN_STEP_PERCENT:
            last = percent - percent % PLAIN_STEP_PERCENT
            report(f"{title}: {percent:3d} % ({done} of {total}) {detail}".rstrip())

    return advance


@contextmanager
def _bar(title: str, *, total: int) -> Iterator[Advance]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}", style="dim"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total, detail="")

        def advance(done: int, detail: str) -> None:
            bar.update(task, completed=min(done, total), detail=detail[-DETAIL_WIDTH:])

        yield advance
