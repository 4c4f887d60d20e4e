"""Scenario files: what happens to simulated nodes, and when.

.. code-block:: yaml

    seed: 7
    steps:
      - at: 5s
        stop: {nodes: 10%}
      - at: 1m
        spread: 20s
        start: {nodes: all}

Every step has a time since the beginning, and one verb with its arguments (``testbed.winsim.verbs``).
With ``spread``, its nodes are not acted on together but each at a moment of its own within that time.
Which nodes and which moments is drawn by the seed: the same file does the same again.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from testbed.errors import TestbedError
from testbed.winsim.durations import Seconds
from testbed.winsim.mistakes import sentences
from testbed.winsim.verbs import VERBS, SelectingVerb, Verb

Model = TypeVar("Model", bound=BaseModel)


class _Frame(BaseModel):
    """A step without its verb."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: Seconds = Field(description="a length of time since the beginning, such as 5s or 1m30s")
    spread: Seconds = Field(default=0.0, description="a length of time")
    name: str = Field(default="", description="text to print with the step")


class _File(BaseModel):
    """A scenario whose steps have not been looked at."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int | str = Field(default=0, description="a number or a text")
    steps: list[Any] = Field(min_length=1, description="a list of steps")


class Step(BaseModel):
    """One thing to do. ``arguments`` are those of the verb, checked, as they were written."""

    model_config = ConfigDict(frozen=True)

    number: int
    at: float
    spread: float
    name: str
    verb: str
    arguments: dict[str, Any]


class Scenario(BaseModel):
    """Steps in the order of their times."""

    model_config = ConfigDict(frozen=True)

    seed: int | str
    steps: tuple[Step, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a scenario file.

        Raises:
            TestbedError: there is none, or it has mistakes; one line for each, all at once.

        """
        try:
            text = path.read_text()
        except OSError as error:
            raise TestbedError(f"cannot read the scenario {path}: {error.strerror}") from error
        return cls.parse(text, where=str(path))

    @classmethod
    def parse(cls, text: str, *, where: str) -> Self:
        """Read a scenario from YAML; ``where`` is put before every mistake.

        Raises:
            TestbedError: it has mistakes; one line for each, all at once.

        """
        try:
            content = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 a SafeLoader that refuses more
        except yaml.YAMLError as error:
            raise TestbedError(f"{where}: not YAML: {' '.join(str(error).split())}") from error
        try:
            file = _File.model_validate(content)
        except ValidationError as error:
            raise TestbedError("\n".join(sentences(error, model=_File, where=where))) from error
        mistakes: list[str] = []
        steps = [
            step
            for number, given in enumerate(file.steps, start=1)
            if (step := _step(given, number=number, seed=file.seed, where=where, mistakes=mistakes))
        ]
        if mistakes:
            raise TestbedError("\n".join(mistakes))
        return cls(seed=file.seed, steps=tuple(sorted(steps, key=lambda step: step.at)))


FRAME_FIELDS: Final = tuple(_Frame.model_fields)


def _step(given: Any, *, number: int, seed: int | str, where: str, mistakes: list[str]) -> Step | None:
    here = f"{where}: step {number}"
    allowed = f"a step has at, spread, name, and one verb of: {', '.join(VERBS)}"
    if not isinstance(given, Mapping):
        mistakes.append(f"{here}: {given!r} is not a step; {allowed}")
        return None
    named = [key for key in given if key not in FRAME_FIELDS]
    before = len(mistakes)
    mistakes.extend(f"{here}: there is no verb {key!r}; {allowed}" for key in named if key not in VERBS)
    verbs = [key for key in named if key in VERBS]
    if len(verbs) > 1 or (not verbs and len(mistakes) == before):
        mistakes.append(f"{here}: {' and '.join(verbs) or 'no verb'}; {allowed}")
    frame = _valid(_Frame, {k: v for k, v in given.items() if k in FRAME_FIELDS}, here, mistakes)
    if frame is not None and frame.spread and any("nodes" not in VERBS[v].model_fields for v in verbs):
        mistakes.append(f"{here}: spread: {verbs[0]} chooses no nodes, so that nothing can be spread")
    for verb in verbs:
        arguments = _with_seed(VERBS[verb], given[verb], seed=f"{seed}/{number}")
        model = _valid(VERBS[verb], arguments, f"{here}: {verb}", mistakes)
        if model is not None and frame is not None and len(mistakes) == before:
            return Step(number=number, verb=verb, arguments=arguments, **frame.model_dump())
    return None


def _with_seed(model: type[Verb], arguments: Any, *, seed: str) -> Any:
    """Let every step draw by a seed of its own, unless it names one."""
    if issubclass(model, SelectingVerb) and isinstance(arguments, Mapping):
        return {"seed": seed, **arguments}
    return arguments


def _valid(model: type[Model], given: Any, where: str, mistakes: list[str]) -> Model | None:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        mistakes.extend(sentences(error, model=model, where=where))
        return None


class _StrictLoader(yaml.SafeLoader):
    """YAML in which no key may stand twice: the first would be lost without a word."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> Iterator[dict[Any, Any]]:
    found: dict[Any, Any] = {}
    yield found
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in found:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} stands twice", key_node.start_mark
            )
        found[key] = loader.construct_object(value_node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
