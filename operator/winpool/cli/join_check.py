"""Finds in a person's script what a kubelet on Windows refuses or ignores: ``join-config --check``.

A script may be of any language, so it is read by its words: flags behind two dashes, names of fields before a
colon. Only the names are printed: a value may be a secret.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from winpool.api.text import printable
from winpool.cli.counts import counted
from winpool.cli.join_rules import FIELDS, RULES, Rule
from winpool.cli.parsing import Exit, RefusedError, UsageError, note
from winpool.features.audit.rules import NEWEST, SEVERITIES, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from winpool.support.versions import Minor

MAX_BYTES: Final = 1024 * 1024
"""Of a script. Most clouds take 16 KiB of user data."""

_LINE: Final = re.compile(r"\r\n|\r|\n")
_COMMENT: Final = re.compile(r"\s*(?:#|::|@?rem(?:\s|$))", re.IGNORECASE)
_BLOCK: Final = re.compile(r"<#.*?(?:#>|$)")
_END: Final = re.compile(r"\"[^\"]*\"|'[^']*'|(?P<comment>\s#)")
_QUOTED: Final = r"\"[^\"]*\"?|'[^']*'?"
_FLAG: Final = re.compile(
    r"(?<![\w-])--(?P<name>[A-Za-z][\w-]*)"
    rf"(?:(?:=|[ \t]+(?![-\s]))(?P<value>{_QUOTED}|[^\s\"',;)\]]*))?"
)
_FIELD: Final = re.compile(
    rf"(?<![\w.$-])[\"']?(?P<name>{'|'.join(FIELDS)})[\"']?[ \t]*:(?!:)[ \t]*"
    rf"(?P<value>\[[^\]]*\]?|\{{[^}}]*\}}?|{_QUOTED}|[^,}}]*)"
)
_EXTRA_ARGS: Final = re.compile(r"(?P<indent>\s*)(?:-\s+)?[\"']?kubeletExtraArgs[\"']?\s*:\s*$")
_EXTRA_ARG: Final = re.compile(
    r"\s*(?:-\s+)?(?:name\s*:\s*)?[\"']?(?P<name>[a-z][a-z-]+)[\"']?\s*(?::\s*(?P<value>.*))?$"
)
_VARIABLE: Final = re.compile(r"[$%]|\{\{")
"""Is in a value that only the script knows."""

_PROGRAM: Final = re.compile(
    r"kubelet|\b(?:kube-proxy|kube-apiserver|kube-controller-manager|kube-scheduler|flanneld"
    r"|kubeadm|kubectl|containerd|dockerd|calico-node|kube-log-runner|csi-proxy)\b"
    r"|(?<![\w-])(?![\w-]{0,60}kube)[\w-]{1,60}\.exe\b",
    re.IGNORECASE,
)
_KUBELET: Final = "kubelet"
_OTHER: Final = "another program"
"""Any other .exe. Its name is not printed."""
_OF_LINE: Final = frozenset(
    {"kubeadm", "kubectl", "containerd", "dockerd", "kube-log-runner", "csi-proxy", _OTHER}
)
"""What a script calls in passing for its kubelet: flags in the lines below are not theirs."""

_IF: Final = re.compile(r"\b(?:if|elif|elseif|switch|case)\b", re.IGNORECASE)
_VERSION: Final = re.compile(r"version|\b1\.\d\d\b", re.IGNORECASE)
_ELSE: Final = re.compile(r"\W*else", re.IGNORECASE)
_CONDITION: Final = "behind a condition on a version"
"""Many scripts are for old kubelets too: whether such a flag is used is not known."""

_ENDS: Final = ("\\", "`", "^")
"""At the end of a line in bash, PowerShell and cmd: the next line continues it."""


class Setting(NamedTuple):
    """A flag or a field; ``value`` is None where only the script knows it."""

    line: int
    name: str
    value: str | None


def check(file: str, kubelet: Minor | None) -> Exit:
    """Print what is found in ``file``; return the exit code."""
    minor = min(kubelet or NEWEST, NEWEST)
    if kubelet and kubelet > NEWEST:
        note(f"Kubernetes {kubelet} is newer than the rules: judged as {minor}")
    text, title = _text(file), "stdin" if file == "-" else file
    settings, unjudged = read_script(text)
    severities = Counter[Severity]()
    for each, rule in findings(settings, minor):
        is_ignored = rule.ignores_from is not None and minor >= rule.ignores_from
        severity = Severity.WARNING if is_ignored else rule.severity
        severities[severity] += 1
        since = f" from {rule.since} on" if rule.since else ""
        happens = "ignores it on Windows, and logs a warning." if is_ignored else rule.happens
        said = f"{severity} {each.name}: A kubelet{since} {happens} {rule.fix} {rule.source}"
        sys.stdout.write(f"{printable(f'{title}:{each.line}: {said}')}\n")
    told = ", ".join(f"{severities[each]} {each}" for each in SEVERITIES if severities[each])
    note(f"Kubernetes {minor}: {counted(severities.total(), 'finding')}" + (f" ({told})" if told else ""))
    if unjudged:
        counts = [f"{counted(count, 'flag')} {why}" for why, count in sorted(unjudged.items())]
        note(f"not judged: {', '.join(counts)}")
    if not settings and "KubeletConfiguration" not in text:
        note("nothing was judged: there is no flag of a kubelet and no KubeletConfiguration")
        return Exit.UNKNOWN
    return Exit.NO if severities[Severity.ERROR] else Exit.YES


def findings(settings: Sequence[Setting], minor: Minor) -> Iterator[tuple[Setting, Rule]]:
    """Yield each setting with the rules that it breaks."""
    names = {each.name for each in settings}
    for each in settings:
        for rule in RULES:
            is_met = rule.holds is None or (each.value is not None and rule.holds(each.value))
            is_old = rule.since is not None and minor < rule.since
            if each.name in rule.names and is_met and not is_old and not names.intersection(rule.unless):
                yield each, rule


def _text(file: str) -> str:
    """Read a script in UTF-8, in UTF-16 with a byte order mark, or in the code page of Windows."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise RefusedError(f"{file}: not read: it is larger than {MAX_BYTES // 1024} KiB")
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    if "\0" in text:
        raise RefusedError(f"{file}: not a text: it is binary, or UTF-16 without a byte order mark")
    return text


def read_script(text: str) -> tuple[list[Setting], Counter[str]]:
    """Return what a script has of a kubelet, and how many flags are not judged, by why.

    A flag belongs to the program that is named last before it, and to the kubelet where none is.
    """
    settings: list[Setting] = []
    unjudged = Counter[str]()
    lines = list(_lines(text))
    program, of_line, extra, outside = _KUBELET, "", None, None
    for place, (number, line) in enumerate(lines):
        outside = _outside(line, outside)
        if outside is not None:
            unjudged[_CONDITION] += len(_FLAG.findall(line))
            continue
        extra = _extra_args(settings, number, line, extra)
        settings += [
            Setting(number, each["name"], _value(_whole(each["value"], lines, place)))
            for each in _FIELD.finditer(line)
        ]
        at, current = 0, of_line or program
        for each in _FLAG.finditer(line):
            current = _last_program(line[at : each.start()]) or current
            at = each.end()
            if current == _KUBELET:
                settings.append(Setting(number, _flag(each["name"]), _value(each["value"])))
            else:
                unjudged[f"of {current}"] += 1
        current = _last_program(line[at:]) or current
        program = program if current in _OF_LINE else current
        of_line = current if line.rstrip().endswith(_ENDS) else ""
    return settings, +unjudged


def _outside(line: str, depth: int | None) -> int | None:
    """Return how far the condition on a version around ``line`` is indented; None where there is none."""
    if depth is not None and (_depth(line) > depth or _ELSE.match(line)):
        return depth
    found = _IF.search(line)
    return _depth(line) if found and _VERSION.search(line, found.end()) else None


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _last_program(text: str) -> str:
    """Return the program that ``text`` names last; empty where it names none."""
    found = [each[0].lower() for each in _PROGRAM.finditer(text)]
    last = found[-1] if found else ""
    return _OTHER if last.endswith(".exe") else last


def _extra_args(settings: list[Setting], number: int, line: str, indent: int | None) -> int | None:
    """Read a line of ``kubeletExtraArgs`` of kubeadm; return how far these are indented, None outside."""
    if begin := _EXTRA_ARGS.match(line):
        return len(begin["indent"])
    depth = _depth(line)
    if indent is None or depth < indent or (depth == indent and not line.lstrip().startswith("-")):
        return None
    if (found := _EXTRA_ARG.match(line)) and found["name"] not in {"name", "value"}:
        settings.append(Setting(number, _flag(found["name"]), _value(found["value"])))
    return indent


def _value(text: str | None) -> str | None:
    """Return a value without quotes; None where only the script knows it."""
    if text is None or _VARIABLE.search(text):
        return None
    return text.strip().rstrip(",;").strip().strip("\"'`\\").strip()


def _whole(value: str, lines: Sequence[tuple[int, str]], place: int) -> str:
    """Return the value of a field, or the next line where it begins there; empty for none."""
    if value.strip() not in {"", "[", "{"} or place + 1 == len(lines):
        return value
    line, below = lines[place][1], lines[place + 1][1]
    is_item = _depth(below) == _depth(line) and below.lstrip().startswith("-")
    return below.strip() if is_item or _depth(below) > _depth(line) else ""


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that has more than a comment."""
    has_blocks = "#>" in text  # of PowerShell; else <# is no comment
    is_comment = False
    for number, line in enumerate(_LINE.split(text), 1):
        code = line
        if is_comment:
            _, end, code = line.partition("#>")
            is_comment = not end
        if _COMMENT.match(code):
            continue
        if has_blocks and "<#" in code:
            is_comment = code.rfind("<#") > code.rfind("#>")
            code = _BLOCK.sub(" ", code)
        if code.strip():
            yield number, _without_comment(code)


def _without_comment(line: str) -> str:
    """Return ``line`` without the comment at its end: behind a blank and a #, outside of quotes."""
    ends = (each.start() for each in _END.finditer(line) if each["comment"])
    return line[: next(ends, len(line))]
