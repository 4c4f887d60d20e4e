"""``python -m winpool``: the operator's command line."""

from __future__ import annotations

import gc
import os
import signal

if __name__ == "__main__":
    # What is imported stays: looking for garbage in it takes a tenth of the time. The operator begins with
    # ``app.collect_rarely``.
    gc.disable()
    # Before the other imports, which take a second or two. The first process of a container gets no signal
    # that it has no handler for: a SIGTERM in that time would be lost, and the Pod would end only after its
    # grace period. Nothing has begun yet that has to be ended in order. The operator replaces this handler.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Final

from pydantic import ValidationError

try:
    from pydantic_settings import (
        BaseSettings,
        CliApp,
        CliSettingsSource,
        CliSubCommand,
        SettingsConfigDict,
        get_subcommand,
    )
except ModuleNotFoundError:
    sys.exit(
        "winpool: the operator needs more packages than kubectl winpool: pip install 'winpool[operator]'"
    )

from winpool import __version__
from winpool.settings import Settings

_USAGE: Final = 2
"""The exit code for an invalid command line, as in argparse."""


class Run(Settings):
    """Run the operator until SIGTERM or SIGINT."""

    def execute(self) -> int:
        """Run; return the exit code."""
        from winpool import app, logs

        app.collect_rarely()
        logs.configure(self)
        return asyncio.run(app.run(self))


class Crd(BaseSettings):
    """Print the CustomResourceDefinition, as in crds/."""

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
        cli_use_class_docs_for_groups=True,
    )

    run: CliSubCommand[Run]
    crd: CliSubCommand[Crd]
    version: CliSubCommand[Version]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Omits a default of null: where there is no value, the description says what that means."""

    def _get_help_string(self, action: argparse.Action) -> str:
        return (action.help or "").replace(" (default: null)", "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command named in ``arguments`` (default: those of the process); return the exit code.

    2 where a flag or an environment variable has a value that cannot be used, or there is no command.
    """
    source: CliSettingsSource[argparse.ArgumentParser] = CliSettingsSource(
        Winpool, formatter_class=HelpFormatter
    )
    try:
        given = CliApp.run(
            Winpool,
            cli_args=list(arguments) if arguments is not None else None,
            cli_settings_source=source,
        )
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            name = str(fault["loc"][-1])
            variable = f"{Settings.model_config['env_prefix']}{name.upper()}"
            given_as = "not set" if fault["input"] is None else repr(fault["input"])
            sys.stderr.write(
                f"winpool: --{name.replace('_', '-')} (or {variable}) is {given_as}: {fault['msg']}\n"
            )
        return _USAGE
    command = get_subcommand(given, is_required=False)
    if command is None:
        sys.stderr.write(
            "winpool: a command is required: run, crd or version; see python -m winpool --help\n"
        )
        return _USAGE
    assert isinstance(command, Run | Crd | Version)
    return command.execute()


if __name__ == "__main__":
    sys.exit(main())
