"""What the image leaves out is what is listed, and a list that does not fit any more is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slim import CUTS, Cut, SlimError, main, slim


def venv(root: Path, *files: str) -> Path:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 10)
    return root


def left(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def test_it_removes_what_a_cut_names_and_nothing_else(tmp_path: Path) -> None:
    root = venv(
        tmp_path, "a/one.py", "a/two.py", "a/two.txt", "b/tests/deep/x.py", "b/tests/y", "b/z.py", "c.py"
    )
    cuts = [Cut("a/*.py", "why", keep=("one.py",)), Cut("*/tests", "why")]
    removed = slim(root, cuts)
    assert left(root) == ["a/one.py", "a/two.txt", "b/z.py", "c.py"]
    assert not (root / "b/tests").exists()
    assert [(each.cut, each.files, each.size) for each in removed] == [(cuts[0], 1, 10), (cuts[1], 2, 20)]


def test_what_does_the_work_of_a_cut_instead_stays(tmp_path: Path) -> None:
    root = venv(tmp_path, "a/one_c.cpython-313-x86_64-linux-gnu.so", "a/one_py.py")
    slim(root, [Cut("a/one_py.py", "why", instead="a/one_c.*.so")])
    assert left(root) == ["a/one_c.cpython-313-x86_64-linux-gnu.so"]


def test_cuts_may_overlap(tmp_path: Path) -> None:
    root = venv(tmp_path, "a/x.py", "a/RECORD", "b/RECORD", "b/x.py")
    removed = slim(root, [Cut("a", "why"), Cut("*/RECORD", "why")])
    assert left(root) == ["b/x.py"]
    assert [each.files for each in removed] == [2, 1]


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    root = venv(tmp_path, "kept/x.py", "bin/tool")
    (root / "bin" / "link").symlink_to(root / "kept")
    slim(root, [Cut("bin/*", "why", keep=("tool",))])
    assert left(root) == ["bin/tool", "kept/x.py"]


@pytest.mark.parametrize(
    ("cut", "fault"),
    [
        pytest.param(Cut("gone/*.py", "why"), "gone/*.py: there is nothing to remove", id="nothing there"),
        pytest.param(
            Cut("a/*.py", "why", keep=("one.py", "two.py")),
            "a/*.py: there is nothing to remove",
            id="all kept",
        ),
        pytest.param(
            Cut("a/*.py", "why", keep=("three.py",)),
            "a/*.py: there is no three.py to keep",
            id="kept is gone",
        ),
        pytest.param(
            Cut("a/one.py", "why", instead="a/one_c.*.so"),
            "a/one.py: there is no a/one_c.*.so to do its work",
            id="instead is gone",
        ),
    ],
)
def test_a_cut_that_does_not_fit_any_more_fails_before_anything_is_removed(
    tmp_path: Path, cut: Cut, fault: str
) -> None:
    root = venv(tmp_path, "a/one.py", "a/two.py", "c.py")
    with pytest.raises(SlimError, match=re.escape(fault)):
        slim(root, [Cut("c.py", "why"), cut])
    assert left(root) == ["a/one.py", "a/two.py", "c.py"]


def test_all_faults_are_named_at_once_and_the_exit_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert [cut.pattern for cut in CUTS if cut.pattern not in said] == []
    assert "correct CUTS" in said
    assert "Traceback" not in said


def test_it_asks_for_one_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_each_cut_has_a_reason_and_is_listed_once() -> None:
    assert [cut for cut in CUTS if len(cut.reason) < 10] == []
    assert len({cut.pattern for cut in CUTS}) == len(CUTS)
