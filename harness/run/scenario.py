"""A scenario: a cluster, steps and an expectation, as data that can be saved and played again."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kchaos.checkers.availability import bounds_of
from kchaos.checkers.errors import RunDirectoryError, ScenarioDataError
from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.checkers.json_form import ShapeError, from_json
from kchaos.checkers.opening import bounded_json, read_bounded
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.spec import ClusterSpec
from kchaos.faults import FAULTS
from kchaos.faults.api import Fault, NeedsPoints
from kchaos.harness.errors import ScenarioError, UsageError
from kchaos.harness.run.own_parts import (
    OwnParts,
    carried_parts,
    installed_parts,
    left_out,
    parts_behind,
)
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.scenario_steps import STEPS, Inject, Step

FORMAT = 1
_EXPECTED = {"safe", "findings", "witness", "source", "availability"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario as it is played.

    Attributes:
        entry: The catalogue's name for it, or a name of the caller's.
        case: Which case of the entry.
        title: One line for people.
        release: The Kafka that was asked for: a release, or a path.
        steps: Performed in order; whatever fault still acts at the end is healed, then settled.
        seed: Recorded; whoever generated the steps from it can do so again.
        expectation: What the judge compares with: {"safe", "findings", "witness", "source",
            "availability"}, or None to take the model's answer. See `checkers.verdict`.
    """

    entry: str
    case: str
    release: str
    cluster: ClusterSpec
    steps: tuple[Step, ...]
    seed: int = 0
    title: str = ""
    expectation: Mapping[str, Any] | None = None

    @property
    def own_parts(self) -> tuple[OwnParts, ...]:
        """The files and packages that define steps and faults of it which are not kchaos's."""
        return parts_behind(_classes_of(self.steps))

    def to_json(self) -> dict[str, Any]:
        """Return the scenario as plain JSON values, including the user's own steps and faults."""
        parts = [part.to_json() for part in self.own_parts]
        return (
            {"format": FORMAT}
            | _values(self)
            | {
                "cluster": self.cluster.to_json(),
                "steps": [step_to_json(step) for step in self.steps],
            }
            | ({"parts": parts} if parts else {})
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, trusted: bool = False) -> "Scenario":
        """Return the scenario that `to_json` wrote.

        A `trusted` scenario may run the code that it carries.

        Raises:
            ScenarioError: It has another shape; the message says where. Or it carries code, and is
                not trusted.
        """
        if not isinstance(data, Mapping):
            raise ScenarioError("it is no object, as a scenario is")
        written = data.get("format", FORMAT)
        if not isinstance(written, int) or not 1 <= written <= FORMAT:
            raise ScenarioError(
                f"it has format {written!r}, and this kchaos reads up to {FORMAT}: run it with "
                "the kchaos that wrote it, or a newer one"
            )
        try:
            _require_fields(data)
            cluster = ClusterSpec.from_json(data["cluster"])
            parts = carried_parts(data.get("parts", ()), trusted=trusted)
            steps = tuple(_steps(data["steps"], parts))
            fields = {name: data[name] for name in data if name not in ("format", "parts")}
            scenario = cls(**{**fields, "cluster": cluster, "steps": steps})
        except (ReleaseError, UsageError) as error:
            raise ScenarioError(f"not a scenario: {error}") from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ScenarioError(f"not a scenario: {error!r}") from error
        _require_shape(scenario)
        return scenario


def _require_fields(data: Mapping[str, Any]) -> None:
    fields = dataclasses.fields(Scenario)
    known = [field.name for field in fields]
    if more := sorted(data.keys() - {*known, "format", "parts"}):
        raise ScenarioError(f"it has no field {', '.join(more)}{_meant(more[0], known)}")
    always = [field.name for field in fields if field.default is dataclasses.MISSING]
    if lacking := [name for name in always if name not in data]:
        raise ScenarioError(f"{', '.join(lacking)} missing")


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def _classes_of(steps: Iterable[Step]) -> Iterator[type[Any]]:
    for step in steps:
        done = step.do if isinstance(step, IfPossible) else step
        yield type(done)
        if isinstance(done, Inject):
            yield type(done.fault)


def _steps(data: Iterable[Any], parts: Sequence[OwnParts]) -> Iterator[Step]:
    for number, step in enumerate(data):
        try:
            yield step_from_json(step, parts)
        except ScenarioError as error:
            raise ScenarioError(f"steps[{number}]: {error}") from error


def _require_shape(scenario: Scenario) -> None:
    """Refuse a shape that a constructor takes, but playing or judging would not."""
    for name in ("entry", "case", "title", "release"):
        value = getattr(scenario, name)
        if not isinstance(value, str):
            raise ScenarioError(f"{name} is {value!r}; it must be a text")
    for name in ("entry", "case"):
        value = getattr(scenario, name)
        if "/" in value or value.startswith(".") or not (value.isprintable()):
            raise ScenarioError(f"{name} {value!r} cannot be part of a folder's name")
    if not isinstance(scenario.seed, int):
        raise ScenarioError(f"seed is {scenario.seed!r}; it must be a whole number")
    expected = scenario.expectation
    if expected is not None:
        unknown = expected.keys() - _EXPECTED if isinstance(expected, Mapping) else {"no object"}
        try:
            bounds = bounds_of(expected)
        except ScenarioDataError as error:
            raise ScenarioError(str(error)) from error
        if bounds is not None and set(expected) == {"availability"}:
            return
        if unknown or not isinstance(expected.get("safe"), bool):
            raise ScenarioError(
                f"the expectation has {', '.join(sorted(unknown)) or 'no answer to safe'}; it has "
                f"{', '.join(sorted(_EXPECTED))}, and safe is true or false"
            )


def with_points(cluster: ClusterSpec, steps: Iterable[Step]) -> ClusterSpec:
    """Return the cluster with its own points and those of all faults in the steps.

    Only brokers that need one run with an agent.
    """
    wanted: dict[int, dict[str, None]] = {
        broker.id: dict.fromkeys(broker.points) for broker in cluster.brokers
    }
    for step in steps:
        done = step.do if isinstance(step, IfPossible) else step
        if isinstance(done, Inject) and isinstance(done.fault, NeedsPoints):
            for broker, points in done.fault.needs.items():
                wanted.get(broker, {}).update(dict.fromkeys(points))
    brokers = tuple(
        dataclasses.replace(broker, points=tuple(wanted[broker.id])) for broker in cluster.brokers
    )
    return dataclasses.replace(cluster, brokers=brokers)


def case_planted(case: str, planted: str) -> str:
    """Return the name of a case with a planted bug, "" for none."""
    return f"{case}-planted-{planted}" if planted else case


def cluster_planted(cluster: ClusterSpec, planted: str) -> ClusterSpec:
    """Return the cluster with a bug planted in every broker, "" for none."""
    if not planted:
        return cluster
    brokers = tuple(
        dataclasses.replace(broker, points=(*broker.points, PLANTED + planted))
        for broker in cluster.brokers
    )
    return dataclasses.replace(cluster, brokers=brokers)


def with_planted(scenario: Scenario, planted: str) -> Scenario:
    """Return the scenario with a bug planted in every broker, "" for none."""
    return dataclasses.replace(
        scenario,
        case=case_planted(scenario.case, planted),
        cluster=cluster_planted(scenario.cluster, planted),
    )


_STEPS_THEMSELVES = {"do", "fault"}
"""Fields that hold a step or a fault."""


def read_scenario(file: Path, *, trusted: bool = False) -> Scenario:
    """Return the scenario in a JSON file.

    A `trusted` scenario may run the code that it carries.

    Raises:
        ScenarioError: The file is missing, a link, a pipe or a device, too large, is no JSON or
            nested too deep, or is no scenario; the message names it.
    """
    if file.is_symlink():
        raise ScenarioError(
            f"{file} cannot be read as a scenario: it is a link; name the file to which it leads"
        )
    try:
        data = bounded_json(read_bounded(file))
    except (OSError, RunDirectoryError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ScenarioError(f"{file} cannot be read as a scenario: {why}") from error
    try:
        return Scenario.from_json(data, trusted=trusted)
    except ScenarioError as error:
        raise ScenarioError(f"{file}: {error}") from error


def step_to_json(step: Step) -> dict[str, Any]:
    """Return the step as plain JSON values.

    Raises:
        ScenarioError: A field of it, or of its fault, is none.
    """
    values = {"step": type(step).__name__} | _plain_values(step)
    if isinstance(step, IfPossible):
        values["do"] = step_to_json(step.do)
    if isinstance(step, Inject):
        values["fault"] = {"fault": type(step.fault).__name__} | _plain_values(step.fault)
    return values


def step_from_json(data: Mapping[str, Any], parts: Sequence[OwnParts] = ()) -> Step:
    """Return the step that `step_to_json` wrote.

    `parts` are searched for steps and faults that neither kchaos nor a package has.

    Raises:
        ScenarioError: No such step or fault, or fields that it does not have, or of another type.
    """
    if not isinstance(data, Mapping):
        raise ScenarioError(f"{data!r} is no step; one is an object with its name in 'step'")
    given: dict[str, Any] = {}
    if "fault" in data:
        if not isinstance(data["fault"], Mapping):
            raise ScenarioError(f"{data['fault']!r} is no fault; one is an object")
        own = [part.faults for part in parts]
        given["fault"] = _made(FAULTS, own, data["fault"], "fault", {})
    if "do" in data:
        given["do"] = step_from_json(data["do"], parts)
    step: Step = _made(STEPS, [part.steps for part in parts], data, "step", given)
    return step


def _made(
    known: Mapping[str, type[Any]],
    own: Iterable[Mapping[str, type[Any]]],
    data: Mapping[str, Any],
    key: str,
    given: Mapping[str, Any],
) -> Any:
    name = data.get(key)
    table = {named: kind for kinds in (*own, known) for named, kind in kinds.items()}
    if isinstance(name, str) and name not in table:
        for part in installed_parts():
            table |= part.steps if known is STEPS else part.faults
    if not isinstance(name, str) or name not in table:
        meant = _meant(name, table) if isinstance(name, str) else ""
        raise ScenarioError(
            f"nothing is named {name!r}{meant or ';'} known: {', '.join(known)}. One's own comes "
            f"with the run of a file (kchaos reproduce FILE), or from a package that is installed "
            f"here{left_out()}"
        )
    fields = {field: value for field, value in data.items() if field != key}
    fields_known = [field.name for field in dataclasses.fields(table[name])]
    if more := sorted(fields.keys() - {*fields_known}):
        raise ScenarioError(f"{name} has no field {', '.join(more)}{_meant(more[0], fields_known)}")
    try:
        return from_json(table[name], fields, **given)
    except (ShapeError, TypeError) as error:
        raise ScenarioError(f"{name}: {error}") from error


def _values(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _plain_values(part: Step | Fault) -> dict[str, Any]:
    fields = _values(part)
    for name in fields.keys() - _STEPS_THEMSELVES:
        try:
            json.dumps(fields[name])
        except (TypeError, ValueError):
            raise ScenarioError(
                f"{type(part).__name__}.{name} is {fields[name]!r}: a field is a plain JSON value, "
                "and what is alike for all values is a ClassVar"
            ) from None
    return fields
