"""``python -m winpool``: the operator's command line."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_settings import BaseSettings, CliApp, CliSubCommand, SettingsConfigDict, get_subcommand

from winpool import __version__
from winpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence


class Run(Settings):
    """Run the operator until SIGTERM or SIGINT."""

    def execute(self) -> int:
        """Run; return the exit code."""
        from winpool import app, logs

        logs.configure(self)
        return asyncio.run(app.run(self))


class Crd(BaseSettings):
    """Print the CustomResourceDefinition, as it stands in crds/."""

    def execute(self) -> int:
        """Print; return the exit code."""
        from winpool.api.crd import render

        sys.stdout.write(render())
        return 0


class Version(BaseSettings):
    """Print the version."""

    def execute(self) -> int:
        """Print; return the exit code."""
        sys.stdout.write(f"winpool {__version__}\n")
        return 0


class Winpool(BaseSettings):
    """The Kubernetes operator for the lifecycle of Windows node pools."""

    model_config = SettingsConfigDict(
        cli_prog_name="winpool",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_enforce_required=True,
        cli_hide_none_type=True,
    )

    run: CliSubCommand[Run]
    crd: CliSubCommand[Crd]
    version: CliSubCommand[Version]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command named in ``arguments`` (default: those of the process); return the exit code.

    2 where a flag or an environment variable has a value that cannot be used.
    """
    try:
        given = CliApp.run(Winpool, cli_args=list(arguments) if arguments is not None else None)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            name = str(fault["loc"][-1])
            variable = f"{Settings.model_config['env_prefix']}{name.upper()}"
            sys.stderr.write(
                f"winpool: --{name.replace('_', '-')} (or {variable}) is {fault['input']!r}: {fault['msg']}\n"
            )
        return 2
    command = get_subcommand(given)
    assert isinstance(command, Run | Crd | Version)
    return command.execute()


if __name__ == "__main__":
    sys.exit(main())
