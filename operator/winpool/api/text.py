"""Free text of others, made fit to be shown: in a condition, an event, a log line, a terminal.

Specs, kubelets, API servers and what stands between hand us texts of their own choice. A newline in one
forges a line of the log, an escape sequence rewrites a terminal, a change of direction shows other words
than stand there (CVE-2021-42574).
"""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return ``text`` with what does not show as itself written out: a newline as ``\n``, ESC as ``\x1b``.

    That is whatever Unicode calls a control, a format, a separator other than the space, a surrogate, or
    does not assign (``str.isprintable``). What is written out once stays as it is the next time.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
