"""The pinned packages without what the image leaves out: they are small, and winpool still runs with them."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from harness.documents import ROOT
from licenses import HEAD, OVERVIEW, collect
from slim import CUTS, Removed, slim

SITE: Final = "lib/python3.13/site-packages"
SOURCES: Final = ROOT / "operator"

MOST_BYTES: Final = 45_000_000
"""As in ``tests/image/test_contents.py``, which measures the image itself."""
BLOCK_BYTES: Final = 4096
BYTE_CODE: Final = 1.13
"""Size of byte code where that of its source is 1, over all packages."""

IMPORT_ALL = """
import importlib, pkgutil, sys
site, source = sys.argv[1:]
sys.path[:0] = [source, site]
import winpool
for module in pkgutil.walk_packages(winpool.__path__, "winpool."):
    if module.name != "winpool.cli.memory_plot":  # needs the extra plot, which the image lacks
        importlib.import_module(module.name)
outside = [path for path in sys.path if "site-packages" in path and path != site]
assert not outside, outside
print(len([name for name in sys.modules if name.startswith("winpool.")]))
"""

CREDENTIALS = """
import asyncio, json, sys
from pathlib import Path
site, source, folder = sys.argv[1:]
sys.path[:0] = [source, site]
from winpool.kube.credentials import load_connection
(Path(folder) / "renewed").write_text("file")
kinds = {
    "token": {"token": "fixed"},
    "tokenFile": {"tokenFile": folder + "/renewed"},
}
async def header(name, user):
    kubeconfig = Path(folder) / name
    kubeconfig.write_text(json.dumps({
        "clusters": [{"name": "c", "cluster": {
            "server": "https://192.0.2.1:6443", "proxy-url": "http://192.0.2.2:3128"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }))
    connection = await load_connection(kubeconfig=str(kubeconfig), environ={})
    assert connection.proxy is not None and connection.tls.context() is not None
    return await connection.authorization.header()
print(json.dumps({name: asyncio.run(header(name, user)) for name, user in kinds.items()}))
"""

IN_PYTHON: Final = """
import asyncio, json, sys
sys.path[:0] = sys.argv[1:]
from aiosignal import Signal
from charset_normalizer import cd, from_bytes, md
async def sent():
    got = []
    async def receive(value):
        got.append(value)
    signal = Signal(None)
    signal.append(receive)
    signal.freeze()
    await signal.send("sent")
    return got
text = "Всеки човек има право на образование. Образованието трябва да бъде безплатно. "
assert str(from_bytes((text * 3).encode("cp1251")).best()) == text * 3
compiled = ("charset_normalizer", "frozenlist")
named = [name for name, module in sys.modules.items() if name.startswith(compiled)
         and not module.__file__.endswith(".py")]
print(json.dumps([asyncio.run(sent()), named]))
"""

NEVER_REACHED: Final = {
    ("aiohttp", "aiohttp.worker"): "when somebody asks aiohttp for a worker of gunicorn",
    ("aiohttp._websocket.helpers", "aiohttp._websocket.mask"): "otherwise the same in Python",
    ("aiohttp._websocket.reader", "aiohttp._websocket.reader_c"): "otherwise the same in Python",
    ("cronsim.cronsim", "cronsim.explain"): "CronSim.explain",
    ("dateutil.tz.tz", "dateutil.rrule"): "a time zone out of an iCalendar file",
    ("dateutil.tz.tz", "dateutil.tz.win"): "without it dateutil knows no time zones of Windows",
    ("dotenv", "dotenv.ipython"): "in IPython",
    ("frozenlist", "frozenlist._frozenlist"): "otherwise the same in Python",
    ("kubernetes.client.rest", "urllib3.contrib.socks"): "a SOCKS proxy, for which PySocks is missing",
    ("kubernetes.utils.metrics", "kubernetes.client.api.custom_objects_api"): "a helper that reads metrics",
    ("msgspec._utils", "attrs"): "a type to decode that is a class of attrs",
    ("multidict", "multidict._multidict_py"): "without compiled code, or with MULTIDICT_NO_EXTENSIONS",
    ("propcache._helpers", "propcache._helpers_py"): "without compiled code, or with PROPCACHE_NO_EXTENSIONS",
    ("pydantic._internal._generate_schema", "pydantic.v1"): "a model with __get_validators__, as v1 had it",
    ("pydantic.main", "pydantic.deprecated"): "BaseModel.parse_raw, as v1 had it",
    ("pydantic.main", "pydantic.deprecated.copy_internals"): "BaseModel.copy, as v1 had it",
    ("pydantic.main", "pydantic.deprecated.json"): "BaseModel.json, as v1 had it",
    ("pydantic.main", "pydantic.deprecated.parse"): "BaseModel.parse_raw, as v1 had it",
    ("requests", "urllib3.contrib.pyopenssl"): "with an OpenSSL that knows no SNI",
    ("requests.adapters", "urllib3.contrib.socks"): "without it requests knows no SOCKS proxy",
    ("urllib3", "urllib3.contrib.emscripten"): "in a browser",
    ("urllib3.http2", "urllib3.http2.connection"): "inject_into_urllib3, where somebody wants HTTP/2",
    ("yarl._quoting", "yarl._quoting_py"): "without compiled code, or with YARL_NO_EXTENSIONS",
}
"""Each import of a removed module by one that stays, and when it would be run.

winpool runs none of them, but for those that the importing module does without.
"""


@dataclass(frozen=True, slots=True)
class Slimmed:
    """The pinned packages, laid out as in the image and slimmed."""

    root: Path
    before: frozenset[str]
    """All modules that there were."""
    removed: Sequence[Removed]

    @property
    def site(self) -> Path:
        return self.root / SITE


@pytest.fixture(scope="module")
def slimmed(tmp_path_factory: pytest.TempPathFactory) -> Slimmed:
    root = tmp_path_factory.mktemp("venv")
    copy_pinned(root / SITE)
    (root / "bin").mkdir()
    for name in ("python", "python3", "python3.13", "kubectl-winpool", "kopf"):
        (root / "bin" / name).touch()
    plugin = root / SITE / "winpool" / "cli"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").touch()
    before = frozenset(modules(root / SITE))
    return Slimmed(root, before, slim(root))


@pytest.mark.slow
def test_every_cut_removes_something_and_most_of_what_was_there_goes(slimmed: Slimmed) -> None:
    assert [each.cut for each in slimmed.removed if each.files] == list(CUTS)
    assert sum(each.size for each in slimmed.removed) > 70_000_000


@pytest.mark.slow
def test_all_that_winpool_imports_is_left(slimmed: Slimmed) -> None:
    imported = run_with(slimmed, IMPORT_ALL)
    others = {"winpool/__init__.py", "winpool/cli/memory_plot.py"}
    assert int(imported) == len(list((SOURCES / "winpool").rglob("*.py"))) - len(others)


@pytest.mark.slow
def test_each_kind_of_credentials_of_a_kubeconfig_works(slimmed: Slimmed, tmp_path: Path) -> None:
    assert json.loads(run_with(slimmed, CREDENTIALS, str(tmp_path))) == {
        "token": "Bearer fixed",
        "tokenFile": "Bearer file",
    }


@pytest.mark.slow
def test_what_is_left_in_python_only_does_what_the_compiled_code_did(slimmed: Slimmed) -> None:
    assert json.loads(run_with(slimmed, IN_PYTHON)) == [["sent"], []]


@pytest.mark.slow
def test_an_import_of_what_is_removed_is_one_that_winpool_never_reaches(slimmed: Slimmed) -> None:
    """Also of imports in functions, which run late, with a setting, or after a fault."""
    left = modules(slimmed.site)
    gone = slimmed.before - left.keys()
    assert {"click", "tzdata", "kubernetes.client.models.v1_pod"} <= gone
    assert imports_of(gone, left) == NEVER_REACHED.keys()


@pytest.mark.slow
def test_nothing_of_ours_imports_what_is_removed(slimmed: Slimmed) -> None:
    gone = slimmed.before - modules(slimmed.site).keys()
    ours = {name: path for name, path in modules(SOURCES).items() if not name.startswith("winpool.cli")}
    assert imports_of({"aiohttp"}, ours) != set()
    assert imports_of(gone, ours) == set()


@pytest.mark.slow
def test_each_distribution_that_is_shipped_has_the_text_of_its_licence(
    slimmed: Slimmed, tmp_path: Path
) -> None:
    collect(slimmed.root, tmp_path)
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "run.txt").read_text(), re.MULTILINE)
    assert {path.name for path in tmp_path.iterdir()} == {*pins, OVERVIEW} - {"click", "tzdata"}
    lines = (tmp_path / OVERVIEW).read_text().removeprefix(HEAD).splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w-]+ [\w.]+: \S.* \([^()]+\)", line)] == []


@pytest.mark.slow
def test_what_is_left_fits_with_byte_code_into_what_the_image_may_have(slimmed: Slimmed) -> None:
    """An estimate, so that a package that grows is noticed before the image is built."""
    sizes: list[float] = []
    for tree in (slimmed.site, SOURCES / "winpool"):
        for folder, _, names in os.walk(tree):
            if folder.endswith("__pycache__"):
                continue
            files = {name: (Path(folder) / name).stat().st_size for name in names}
            modules_here = [size * BYTE_CODE for name, size in files.items() if name.endswith(".py")]
            sizes += [BLOCK_BYTES, *files.values(), *modules_here]
            sizes += [BLOCK_BYTES] if modules_here else []  # the folder with the byte code
    assert sum(sizes) <= MOST_BYTES
    assert sum(math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES for size in sizes) <= MOST_BYTES


def run_with(slimmed: Slimmed, script: str, *arguments: str) -> str:
    """Run it with nothing else to import from but Python itself; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(slimmed.site), str(SOURCES), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules(folder: Path) -> dict[str, Path]:
    """Return what can be imported from ``folder``: the file of each module, by the name of the module."""
    found = {}
    for path in (*folder.rglob("*.py"), *folder.rglob("*.so")):
        *parents, name = path.relative_to(folder).parts
        parts = [*parents, name.partition(".")[0]]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(wanted: Set[str], among: Mapping[str, Path]) -> set[tuple[str, str]]:
    """Return which of the modules ``among`` import which of the ``wanted`` ones, anywhere in them."""
    # An import of a module has its name, or that of the folder that it is in. Most files have none of these
    # words, and need not be parsed.
    words = {name.rpartition(".")[2].encode() for name in wanted if name.rpartition(".")[0] not in wanted}
    return {
        (name, imported)
        for name, path in among.items()
        if path.suffix == ".py" and not words.isdisjoint(re.findall(rb"\w+", path.read_bytes()))
        for imported in imports(name, path)
        if imported in wanted
    }


def imports(name: str, path: Path) -> Iterator[str]:
    """Name what a module imports, and what may be modules of it; not what only a type checker reads."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{each.name}" for each in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def copy_pinned(to: Path) -> None:
    """Link, or copy to another file system, the files of everything in requirements/run.txt.

    With their byte code, which counts as long as the times are the same: to compile it all again takes long.
    """
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "run.txt").read_text(), re.MULTILINE)
    for name in pins:
        distribution = importlib.metadata.distribution(name)
        for file in distribution.files or ():
            if ".." in file.parts:
                continue
            target = to / file
            target.parent.mkdir(parents=True, exist_ok=True)
            source = Path(str(distribution.locate_file(file)))
            try:
                os.link(source, target)
            except OSError:
                shutil.copy2(source, target)
