"""The page about helm: every command works as written, in the order written, and nothing is left."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import yaml

from chart.helm import Helm
from chart.site import Site
from harness.documents import ROOT, WITH_HELM, commands_of

(PAGE,) = WITH_HELM
TEXT: Final = (ROOT / PAGE).read_text()


def test_the_commands_of_the_page_install_upgrade_and_remove_winpool(helm: Helm, tmp_path: Path) -> None:
    commands = [*commands_of(TEXT)]
    assert [each.split()[1] for each in commands if each.startswith("helm")] == [
        *("install", "upgrade", "uninstall"),
    ]
    with Site.up(tmp_path / "site", helm=helm) as site:
        for command in commands:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-ec", command],
                cwd=ROOT,
                env=site.helm.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=240,
                check=False,
            )
            assert done.returncode == 0, f"$ {command}\n{done.stdout}"
            if command.startswith("helm install"):
                assert len(site.names()) > 1
        assert site.names() == set()


def test_the_values_of_the_page_are_accepted(helm: Helm, tmp_path: Path) -> None:
    (example,) = (block.partition("```")[0] for block in TEXT.split("```yaml\n")[1:])
    file = tmp_path / "my-values.yaml"
    file.write_text(example)
    rendered = helm.template("--values", str(file))
    assert "PodMonitor" in {each["kind"] for each in rendered}
    assert yaml.safe_load(example)["image"]["repository"] in yaml.safe_dump_all(rendered)
