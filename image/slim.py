"""Removes from the virtual environment of the image what winpool never runs.

The Dockerfile runs it: ``python3 image/slim.py /opt/winpool``. It needs only the standard library. Each cut
must still find something to remove: when a dependency changes, the build fails instead of keeping a cut
that does nothing, or losing a module that is needed.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SITE: Final = "lib/python3*/site-packages"

USAGE: Final = 2


class SlimError(Exception):
    """A cut does not fit the environment; the text names each of them, and what to do."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What to remove, and why that is safe.

    ``pattern`` is a glob below the virtual environment; what it matches is removed, folders with all that is
    in them. ``keep`` are patterns of names that stay. ``instead`` is a pattern of what does its work: a wheel
    for all platforms has no compiled code, and must not lose its Python.
    """

    pattern: str
    reason: str
    keep: tuple[str, ...] = ()
    instead: str = ""


CUTS: Final = (
    Cut(
        f"{SITE}/kubernetes/client/models/*.py",
        "typed models of the official client: winpool loads its configuration and credentials, and no model; "
        "Kopf imports the three that stay",
        keep=("__init__.py", "v1_managed_fields_entry.py", "v1_object_meta.py", "v1_owner_reference.py"),
    ),
    Cut(
        f"{SITE}/kubernetes/client/api",
        "a class for each API group: winpool sends its requests itself",
    ),
    Cut(
        f"{SITE}/kubernetes/aio/client/models/*.py",
        "the same models once more, for asyncio",
        keep=("__init__.py",),
    ),
    Cut(f"{SITE}/kubernetes/aio/client/api", "the same API classes once more, for asyncio"),
    Cut(
        f"{SITE}/kubernetes/**/leaderelection/*",
        "leader election of the official client: winpool has its own",
        keep=("__init__.py",),
    ),
    Cut(f"{SITE}/prometheus_client/parser.py", "reads metrics: winpool only writes them"),
    Cut(f"{SITE}/prometheus_client/openmetrics/parser.py", "reads metrics: winpool only writes them"),
    Cut(f"{SITE}/kubernetes/**/*_test.py", "tests of the official client"),
    Cut(f"{SITE}/kubernetes/**/test_*.py", "tests of the official client"),
    Cut(f"{SITE}/pydantic/v1", "pydantic's first version, for models that were not ported; winpool has none"),
    Cut(f"{SITE}/pydantic/mypy.py", "pydantic's plugin of a type checker"),
    Cut(f"{SITE}/pydantic/deprecated", "methods of pydantic's first version: winpool calls none"),
    Cut(f"{SITE}/pydantic/experimental", "what pydantic may still change: winpool uses none of it"),
    Cut(f"{SITE}/pydantic/color.py", "a type for colours"),
    Cut(f"{SITE}/dateutil/rrule.py", "rules of calendars: the official client reads the time a token ends"),
    Cut(f"{SITE}/dateutil/zoneinfo", "time zones by name, once more"),
    Cut(f"{SITE}/requests_oauthlib/compliance_fixes", "for Facebook, Slack and other services"),
    Cut(f"{SITE}/prometheus_client/bridge", "sends metrics to Graphite: winpool is scraped"),
    Cut(f"{SITE}/prometheus_client/django", "for Django"),
    Cut(f"{SITE}/prometheus_client/twisted", "for Twisted"),
    Cut(f"{SITE}/prometheus_client/aiohttp", "a handler for scrapes: winpool has its own"),
    Cut(f"{SITE}/requests/help.py", "says what is installed, for reports of faults in requests"),
    Cut(f"{SITE}/kopf/testing.py", "for tests of operators that use Kopf"),
    Cut(f"{SITE}/urllib3/contrib/pyopenssl.py", "for pyOpenSSL, which is not in the image"),
    Cut(f"{SITE}/urllib3/http2/connection.py", "for h2, which is not in the image"),
    Cut(f"{SITE}/tzdata", "time zones by name: the base has them, as Debian packages them"),
    Cut(f"{SITE}/tzdata-*.dist-info", "so that a scanner does not list tzdata"),
    Cut(
        f"{SITE}/aiohttp/_websocket/*.so",
        "compiled code for WebSockets: winpool opens none, and aiohttp has the same in Python",
    ),
    Cut(
        f"{SITE}/frozenlist/*.so",
        "compiled code of a list, for signals of aiohttp: frozenlist has the same in Python",
    ),
    Cut(
        f"{SITE}/charset_normalizer/*.so",
        "compiled code that guesses encodings for requests: winpool sends nothing with it, and the same is "
        "there in Python",
    ),
    *(
        Cut(
            f"{SITE}/{package}/{python}.py",
            "the same is there compiled",
            instead=f"{SITE}/{package}/{compiled}",
        )
        for package, python, compiled in (
            ("multidict", "_multidict_py", "_multidict.*.so"),
            ("propcache", "_helpers_py", "_helpers_c.*.so"),
            ("yarl", "_quoting_py", "_quoting_c.*.so"),
        )
    ),
    Cut(f"{SITE}/_yaml", "the old name of yaml._yaml, which no one imports"),
    Cut(f"{SITE}/aiohttp/pytest_plugin.py", "for tests of programs that use aiohttp"),
    Cut(f"{SITE}/aiohttp/test_utils.py", "for tests of programs that use aiohttp"),
    Cut(f"{SITE}/aiohttp/worker.py", "for gunicorn, which is not in the image"),
    *(
        Cut(f"{SITE}/pydantic/{name}.py", "a module of pydantic v1 that only says where its contents are now")
        for name in (
            *(
                "class_validators",
                "datetime_parse",
                "decorator",
                "env_settings",
                "error_wrappers",
                "generics",
            ),
            *("json", "parse", "schema", "tools", "typing", "utils", "validators"),
        )
    ),
    Cut(f"{SITE}/dateutil/tz/win.py", "time zones of Windows, on which the operator does not run"),
    Cut(f"{SITE}/dateutil/tzwin.py", "its old name"),
    Cut(f"{SITE}/prometheus_client/multiprocess.py", "metrics of several processes: winpool is one"),
    Cut(
        f"{SITE}/pydantic/networks.py", "types for URLs and addresses: winpool's models have their own rules"
    ),
    Cut(
        f"{SITE}/pydantic/validate_call_decorator.py",
        "checks the arguments of functions: winpool's are typed",
    ),
    Cut(f"{SITE}/pydantic/_internal/_validate_call.py", "the rest of it"),
    Cut(f"{SITE}/pydantic/_internal/_decorators_v1.py", "validators as v1 had them"),
    Cut(f"{SITE}/kopf/_kits/runner.py", "for tests of operators that use Kopf"),
    Cut(f"{SITE}/idna/codec.py", "the codec idna of Python, by a name that no one asks for"),
    Cut(f"{SITE}/urllib3/contrib/socks.py", "for PySocks, which is not in the image"),
    Cut(f"{SITE}/pythonjsonlogger/orjson.py", "for orjson, which is not in the image"),
    Cut(f"{SITE}/pythonjsonlogger/msgspec.py", "a formatter that winpool does not use"),
    Cut(f"{SITE}/attrs/*.py", "the newer names of what is in attr, which aiohttp imports"),
    Cut(f"{SITE}/dateutil/easter.py", "the dates of Easter"),
    Cut(f"{SITE}/dateutil/utils.py", "helpers that no one imports"),
    Cut(f"{SITE}/dotenv/ipython.py", "for IPython"),
    Cut(f"{SITE}/idna/compat.py", "the names of Python's own codec, which no one imports"),
    Cut(f"{SITE}/kubernetes/client/apis", "the old name of kubernetes.client.api"),
    Cut(f"{SITE}/cronsim/explain.py", "describes a schedule in words: winpool shows it as it is written"),
    Cut(f"{SITE}/urllib3/contrib/emscripten", "for Python in a browser"),
    Cut(f"{SITE}/click", "reads the command lines of kopf and dotenv, which are not in the image"),
    Cut(f"{SITE}/click-*.dist-info", "so that a scanner does not list click"),
    Cut(f"{SITE}/*/cli.py", "command lines of kopf, dotenv and idna"),
    Cut(f"{SITE}/charset_normalizer/cli", "command line of charset-normalizer"),
    *(
        Cut(f"{SITE}/{package}/__main__.py", "python -m for a command line that is cut as well")
        for package in ("charset_normalizer", "dotenv", "idna", "kopf")
    ),
    Cut(f"{SITE}/winpool/cli", "the plugin of kubectl, which is for machines with kubectl"),
    Cut(f"{SITE}/jsonpatch_cli.py", "command line of jsonpatch"),
    Cut(f"{SITE}/websocket/_wsdump.py", "command line of websocket-client"),
    Cut(f"{SITE}/websocket/tests", "tests of websocket-client"),
    Cut(f"{SITE}/certifi/tests", "tests of certifi"),
    Cut(f"{SITE}/iso8601/test_*.py", "tests of iso8601"),
    Cut(f"{SITE}/annotated_types/test_cases.py", "for tests of programs that use annotated-types"),
    Cut(f"{SITE}/multidict/_testcapi*.so", "for multidict's own tests"),
    Cut(f"{SITE}/**/*.px[di]", "declarations for Cython: the compiled modules are there"),
    Cut(f"{SITE}/**/*.pyx", "sources in Cython: the compiled modules are there"),
    Cut(f"{SITE}/**/*.h", "headers for a compiler"),
    Cut(f"{SITE}/*-stubs", "types for a type checker"),
    Cut(f"{SITE}/**/*.pyi", "types for a type checker"),
    Cut(f"{SITE}/**/py.typed", "says to a type checker that a package has types"),
    Cut(
        f"{SITE}/*.dist-info/RECORD",
        "lists of installed files, for pip uninstall: the image has no pip, and the cuts made them wrong",
    ),
    Cut(f"{SITE}/*.dist-info/INSTALLER", "says that pip has installed it, for pip"),
    Cut(f"{SITE}/*.dist-info/WHEEL", "the format of the wheel, for pip"),
    Cut(
        f"{SITE}/*.dist-info/entry_points.txt",
        "names of the command lines of libraries, which are cut as well",
    ),
    Cut(f"{SITE}/kubernetes/aio/setup.py", "installs the asyncio client where it is a package of its own"),
    Cut(f"{SITE}/*.dist-info/top_level.txt", "for setuptools; name, version and licence are in METADATA"),
    Cut(
        "bin/*",
        "commands of libraries, the plugin, and scripts that a shell would source",
        keep=("python", "python3", "python3.*"),
    ),
)


@dataclass(frozen=True, slots=True)
class Removed:
    """What one cut has removed."""

    cut: Cut
    files: int
    size: int
    """Bytes in these files."""


def slim(venv: Path, cuts: Sequence[Cut] = CUTS) -> list[Removed]:
    """Remove what ``cuts`` name from the virtual environment, and return what each has removed.

    Raises SlimError, before anything is removed, where a pattern of a cut matches nothing.
    """
    found = [(cut, sorted(venv.glob(cut.pattern))) for cut in cuts]
    faults = [fault for cut, paths in found for fault in _faults(venv, cut, paths)]
    if faults:
        raise SlimError(
            f"{venv} is not what image/slim.py expects:\n"
            + "\n".join(f"  {fault}" for fault in faults)
            + "\nCheck what the dependency has changed, and correct CUTS."
        )
    return [_remove(cut, [path for path in paths if not _kept(cut, path)]) for cut, paths in found]


def _kept(cut: Cut, path: Path) -> bool:
    return any(fnmatchcase(path.name, name) for name in cut.keep)


def _faults(venv: Path, cut: Cut, paths: Sequence[Path]) -> Iterator[str]:
    for name in cut.keep:
        if not any(fnmatchcase(path.name, name) for path in paths):
            yield f"{cut.pattern}: there is no {name} to keep"
    if all(_kept(cut, path) for path in paths):
        yield f"{cut.pattern}: there is nothing to remove"
    if cut.instead and not any(venv.glob(cut.instead)):
        yield f"{cut.pattern}: there is no {cut.instead} to do its work"


def _remove(cut: Cut, paths: Sequence[Path]) -> Removed:
    files = size = 0
    for path in paths:
        if not os.path.lexists(path):  # it was in a folder that an earlier cut has removed
            continue
        inside = (
            [path] if path.is_symlink() or not path.is_dir() else [p for p in path.rglob("*") if p.is_file()]
        )
        files += len(inside)
        size += sum(each.lstat().st_size for each in inside)
        if inside == [path]:
            path.unlink()
        else:
            shutil.rmtree(path)
    return Removed(cut, files=files, size=size)


def main(arguments: Sequence[str]) -> int:
    """Slim the environment that is named, and print what was removed; return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: slim.py VIRTUAL_ENVIRONMENT\n")
        return USAGE
    try:
        removed = slim(Path(arguments[0]))
    except SlimError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for each in removed:
        sys.stdout.write(
            f"removed {each.files:5} files, {each.size / 1e6:5.1f} MB: "
            f"{each.cut.pattern} ({each.cut.reason})\n"
        )
    sys.stdout.write(f"removed {sum(each.size for each in removed) / 1e6:.1f} MB in all\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
