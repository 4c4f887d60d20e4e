"""What starts the plugin out of an archive: it unpacks once, completely or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from harness.installed_plugin import PACKAGES, THIS, Installation, install
from release.launcher import start

CANNOT_START = "kubectl winpool cannot start: "


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """Give the test an installation for its own Python."""
    return install(tmp_path)


def test_the_first_start_unpacks_and_each_later_one_uses_that(installation: Installation) -> None:
    first = installation.run("status", "a b")
    [kept] = installation.kept
    assert (first.code, first.out, first.err) == (7, f"{kept} status a b\n", "")
    for path in (installation.folder / "wheels").glob("*.whl"):
        path.unlink()
    assert installation.run("status", "a b") == first


def test_the_folder_has_the_name_of_its_content_and_its_python(installation: Installation) -> None:
    installation.run()
    digest = (installation.folder / "wheels" / "digest").read_text()
    assert [path.name for path in installation.kept] == [f"{digest[:16]}-{sys.implementation.cache_tag}"]


def test_all_of_it_is_compiled_when_it_is_unpacked(installation: Installation) -> None:
    installation.run()
    [kept] = installation.kept
    sources = list(kept.rglob("*.py"))
    assert len(sources) == len(PACKAGES)
    compiled = {path.name.partition(".")[0]: path for path in kept.rglob("*.pyc")}
    assert set(compiled) == {path.stem for path in sources}
    # 1: byte code that belongs to a hash of its source, and is not compared with it.
    assert {path.read_bytes()[4:8] for path in compiled.values()} == {(1).to_bytes(4, "little")}


def test_the_cache_is_where_the_user_says(installation: Installation, tmp_path: Path) -> None:
    ended = installation.run(XDG_CACHE_HOME=str(tmp_path / "other"))
    assert ended.out.startswith(str(tmp_path / "other" / "winpool" / "plugin"))
    assert installation.kept == []


def test_starts_at_the_same_time_all_succeed_and_leave_one_folder(installation: Installation) -> None:
    processes = [installation.begin() for _ in range(4)]
    ended = [(process.communicate(timeout=60), process.returncode) for process in processes]
    [kept] = installation.kept
    assert ended == [((f"{kept}\n", ""), 7)] * 4


def test_after_a_start_that_was_killed_the_next_one_unpacks_again(installation: Installation) -> None:
    with installation.begin(LOADING_SECONDS="60") as process:
        deadline = time.monotonic() + 30
        while not any(installation.cache.glob("*/**/pydantic.*.pyc")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    [left] = installation.kept
    assert installation.run().code == 7
    [kept] = [path for path in installation.kept if path != left]
    assert left.name.startswith(f"{kept.name}.")
    # It may be that of a start that goes on. When it is old, the next one that unpacks removes it.
    shutil.rmtree(kept)
    long_ago = time.time() - start.OLD_SECONDS - 1
    os.utime(left, (long_ago, long_ago))
    assert installation.run().code == 7
    assert installation.kept == [kept]


def test_ctrl_c_while_it_unpacks_leaves_nothing(installation: Installation) -> None:
    with installation.begin(LOADING_SECONDS="60") as process:
        deadline = time.monotonic() + 30
        while not any(installation.cache.glob("*/**/pydantic.*.pyc")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)  # the process that loads them begins
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "")
    assert (process.returncode, installation.kept) == (130, [])


@pytest.mark.parametrize("place", ["/dev/null", "/proc/no-such-folder"])
def test_where_nothing_can_be_kept_it_unpacks_for_each_start(
    installation: Installation, tmp_path: Path, place: str
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ended = installation.run("status", XDG_CACHE_HOME=place, TMPDIR=str(temporary))
    assert (ended.code, ended.out.endswith(" status\n")) == (7, True)
    assert ended.out.startswith(str(temporary))
    assert f": '{place}" in ended.err
    assert ended.err.endswith("Set XDG_CACHE_HOME to a folder that you can write to\n")
    assert list(temporary.iterdir()) == []


def test_a_folder_of_another_user_is_not_used(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installation.run()
    [kept] = installation.kept
    monkeypatch.setattr(start, "WHEELS", installation.folder / "wheels")
    monkeypatch.setenv("XDG_CACHE_HOME", str(installation.home / ".cache"))
    assert start.prepared() == kept
    owner = kept.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert start.prepared() != kept
    said = f"{installation.cache.parent} is of another user, or every user can write to it"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("below", "mode", "is_used"),
    [
        (".", 0o777, False),
        (".", 0o1777, True),
        ("winpool", 0o777, False),
        ("winpool/plugin", 0o1777, False),
        ("winpool/plugin", 0o775, True),
    ],
    ids=["base", "base-like-tmp", "winpool", "plugin", "plugin-of-a-group"],
)
def test_a_cache_in_which_another_user_could_replace_it_is_not_used(
    installation: Installation, tmp_path: Path, below: str, mode: int, is_used: bool
) -> None:
    """Before the first start, which would unpack there, and after it."""
    shared = tmp_path / "shared"
    (shared / "winpool" / "plugin").mkdir(parents=True)
    (shared / below).chmod(mode)
    for _ in range(2):
        ended = installation.run(XDG_CACHE_HOME=str(shared))
        assert (ended.code, ended.out.startswith(str(shared))) == (7, is_used)
        assert (f"{shared / below} is of another user" in ended.err) is not is_used


def test_what_a_link_of_another_user_leads_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert start.is_ours(tmp_path / "link")
    own = Path.lstat

    def of_another(path: Path) -> os.stat_result:
        return os.stat_result([*own(path)[:4], os.getuid() + 1, *own(path)[5:]])

    monkeypatch.setattr(Path, "lstat", of_another)
    assert not start.is_ours(tmp_path / "link")


def test_no_one_else_can_write_to_the_folders_that_it_makes(installation: Installation) -> None:
    before = os.umask(0)
    try:
        assert installation.run().err == ""
    finally:
        os.umask(before)
    made = (*installation.cache.parents[:2], installation.cache, *installation.kept)
    assert {each.stat().st_mode & 0o777 for each in made} == {0o700}


def test_what_another_start_has_left_and_is_gone_again_is_passed_over(installation: Installation) -> None:
    installation.run()
    [kept] = installation.kept
    shutil.rmtree(kept)
    (installation.cache / f"{kept.name}.gone").symlink_to("nowhere")
    ended = installation.run()
    assert (ended.out, ended.err) == (f"{kept}\n", "")


def test_without_any_place_it_says_so_in_one_sentence(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "WHEELS", installation.folder / "wheels")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setattr("tempfile.tempdir", "/proc/no-such-folder")
    with pytest.raises(
        start.LauncherError, match=r"no place for its packages .* Set XDG_CACHE_HOME to a folder"
    ):
        start.prepared()


@pytest.mark.parametrize("name", ["winpool-1-py3-none-any.whl", "index.json"])
def test_a_byte_that_is_not_what_was_released_is_not_run(installation: Installation, name: str) -> None:
    path = installation.folder / "wheels" / name
    path.write_bytes(path.read_bytes().replace(b"winpool", b"wInpool", 1))
    ended = installation.run()
    assert (ended.code, ended.out, installation.kept) == (1, "", [])
    assert (
        ended.err
        == f"{CANNOT_START}the installation is damaged ({path} is not what was released). Install it again\n"
    )


def test_a_package_that_is_gone_is_named(installation: Installation) -> None:
    path = installation.folder / "wheels" / "winpool-1-py3-none-any.whl"
    path.unlink()
    ended = installation.run()
    assert (ended.code, ended.err.count("\n"), str(path) in ended.err) == (1, 1, True)


def test_packages_of_another_system_are_not_kept(tmp_path: Path) -> None:
    broken = install(tmp_path, packages={**PACKAGES, "msgspec.py": "raise ImportError('wrong ELF class')"})
    ended = broken.run()
    assert (ended.code, ended.out, broken.kept) == (1, "", [])
    assert ended.err.startswith(f"{CANNOT_START}its packages do not load with ")
    assert "wrong ELF class" in ended.err


def test_the_first_python_that_there_are_packages_for_is_used(installation: Installation) -> None:
    (installation.path / "python3").rename(installation.path / f"python3.{THIS}")
    old = installation.path / "python3"
    old.write_text("#!/bin/sh\necho I am too old >&2\nexit 1\n")
    old.chmod(0o755)
    ended = installation.run()
    assert (ended.code, ended.err) == (7, "")


def test_without_a_python_it_says_which_ones_would_do(tmp_path: Path) -> None:
    other = install(tmp_path, minors=(THIS + 1, THIS + 2))
    ended = other.run(PATH=f"{other.path}:{tmp_path}")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        f"kubectl winpool needs Python 3.{THIS + 1} to 3.{THIS + 2} on the PATH, as python3 for example: "
        "install it, and try again\n"
    )


def test_a_python_without_packages_that_starts_it_directly_gets_a_sentence(tmp_path: Path) -> None:
    other = install(tmp_path, minors=(THIS + 1,))
    (other.folder / "start.py").write_text(
        f"#!{sys.executable}\n{(other.folder / 'start.py').read_text()}", encoding="utf-8"
    )
    (other.folder / "start.py").chmod(0o755)
    ended = other.run("kubectl-winpool", command=other.folder / "start.py")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert ended.err.startswith(f"{CANNOT_START}it has packages for Python 3.{THIS + 1}, and ")


@pytest.mark.parametrize("target", ["../store/v1/kubectl-winpool", None], ids=["relative", "absolute"])
def test_it_finds_itself_behind_a_link_as_krew_makes_it(
    installation: Installation, tmp_path: Path, target: str | None
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / "first").symlink_to(target or installation.folder / "kubectl-winpool")
    (links / "kubectl-winpool").symlink_to("first")
    assert installation.run(command=links / "kubectl-winpool").code == 7


def test_by_its_other_name_it_completes_command_lines(installation: Installation) -> None:
    ended = installation.run("sta", command=installation.folder / "kubectl_complete-winpool")
    assert (ended.code, ended.out) == (0, "completed\n")


def test_no_variable_and_no_package_of_the_user_changes_what_runs(
    installation: Installation, tmp_path: Path
) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('of the user')")
    (tmp_path / "shutil.py").write_text("raise SystemExit('of the user')")
    ended = installation.run(PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    assert (ended.code, ended.err) == (7, "")


def test_a_start_from_the_cache_loads_nothing_that_only_unpacking_needs(tmp_path: Path) -> None:
    looking = (
        "import sys\n"
        "def main():\n"
        "    needed = {'compileall', 'hashlib', 'json', 'shutil', 'subprocess', 'tempfile', 'zipfile'}\n"
        "    print(*sorted(needed & set(sys.modules)))\n"
    )
    watched = install(tmp_path, packages={**PACKAGES, "winpool/cli/__main__.py": looking})
    assert watched.run().out.split() == [
        *("compileall", "hashlib", "json", "shutil", "subprocess", "tempfile", "zipfile")
    ]
    assert watched.run().out == "\n"
