"""run.json, scenario.json and outcome.json: what was played, on what, and how it ended."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import RunDirectoryError, ScenarioDataError
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.forms import check_step
from kchaos.checkers.findings import KINDS
from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.checkers.json_form import SOMETIMES, ShapeError
from kchaos.checkers.observations import SettleOutcome

RUN, SCENARIO, OUTCOME = "run.json", "scenario.json", "outcome.json"


_RELEASE = re.compile(r"\d+(\.\d+)+")
_DIGITS, _WHOLE = 8, 64
_DIGEST = re.compile(f"sha256:[0-9a-f]{{{_WHOLE}}}")


def is_release(kafka: str) -> bool:
    """Return whether a Kafka is named by its release, not by its path."""
    return _RELEASE.fullmatch(kafka) is not None


def short_build(build: str) -> str:
    """Return the builds with the first digits of their digests."""
    return _DIGEST.sub(lambda match: match[0][: -(_WHOLE - _DIGITS)], build)


def marked(release: str, build: str) -> str:
    """Return a release for tables, with the first digits of its builds and with planted bugs."""
    marks = [
        build_name
        if build_name.startswith(PLANTED)
        else build_name.rpartition(" sha256:")[2][:_DIGITS]
        for build_name in build.split("; ")
        if build_name
    ]
    return f"{release} ({', '.join(marks)})" if marks else release


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAbout:
    """One broker of run.json: what it ran, and whose rules it is judged by.

    Attributes:
        build: Which build of its release: path and digest. Empty for what Apache published.
    """

    release: str = ""
    judged_as: str = ""
    build: str = field(default="", metadata=SOMETIMES)

    @property
    def name(self) -> str:
        """Its release for people, with the build if it is one of somebody's own."""
        return f"{self.release} ({short_build(self.build)})" if self.build else self.release


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAbout:
    """Content of run.json.

    Attributes:
        started_at: Seconds since the epoch, or None.
        replay: The command that plays it again; `command` is the one that played it.
        unlinked: Why there were no links although the scenario asked for them, or "".
        format: Of the run directory; see `checkers.run_directory`.
        name: The run's own, wherever a copy of it lies; "" if nobody gave it one.
        jars: The SHA-256 of each jar by its name, of each Kafka; no jars of one from an image.
    """

    format: int
    entry: str = ""
    case: str = ""
    release: str = ""
    driver: str = ""
    seed: int = 0
    started_at: float | None = None
    unlinked: Any = None
    brokers: Mapping[int, BrokerAbout] = field(default_factory=dict)
    jars: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    kchaos: Any = None
    name: str = field(default="", metadata=SOMETIMES)
    title: str = field(default="", metadata=SOMETIMES)
    command: str = field(default="", metadata=SOMETIMES)
    replay: str = field(default="", metadata=SOMETIMES)
    engine: Any = field(default=None, metadata=SOMETIMES)
    images: Any = field(default=None, metadata=SOMETIMES)
    python: Any = field(default=None, metadata=SOMETIMES)
    platform: Any = field(default=None, metadata=SOMETIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAsked:
    """One broker of scenario.json; `clusters.spec.BrokerSpec` says what the fields mean."""

    id: int
    kafka: str
    properties: Mapping[str, str] = field(default_factory=dict)
    judged_as: str | None = field(default=None, metadata=SOMETIMES)
    log_directories: int = field(default=1, metadata=SOMETIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAsked:
    """The cluster of scenario.json; `clusters.spec.ClusterSpec` says what the fields mean."""

    brokers: tuple[BrokerAsked, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    linked: bool = False
    client_links: bool = field(default=False, metadata=SOMETIMES)
    tiered: bool = False
    mode: str | None = field(default=None, metadata=SOMETIMES)
    combined: bool = field(default=False, metadata=SOMETIMES)
    migrates: bool = field(default=False, metadata=SOMETIMES)

    def properties_of(self, broker: BrokerAsked) -> dict[str, str]:
        """Return the properties that the scenario sets for a broker."""
        return {**self.properties, **broker.properties}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsAbout:
    """Steps and faults that are not kchaos's: where they come from, and the names of all.

    Attributes:
        name: Of a file, whose text the scenario carries, or of a package.
    """

    name: str
    defines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioAbout:
    """Content of scenario.json, as far as judging and showing go.

    Attributes:
        cluster: One without brokers in a scenario that has none.
        steps: As data, whose types `forms` has checked.
        expectation: None to take the model's answer; `checkers.verdict` says what may be there,
            and refuses what may not.
        parts: Where its steps and faults come from, if not from kchaos.
    """

    entry: str = ""
    case: str = ""
    release: str = ""
    seed: int = 0
    title: str = ""
    cluster: ClusterAsked = ClusterAsked()
    steps: tuple[Mapping[str, Any], ...] = ()
    expectation: Any = field(default=None, metadata=SOMETIMES)
    parts: tuple[PartsAbout, ...] = field(default=(), metadata=SOMETIMES)

    def __post_init__(self) -> None:
        """Check the types of the steps."""
        for number, step in enumerate(self.steps):
            try:
                check_step(step)
            except ShapeError as error:
                raise ShapeError(f"steps[{number}]: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """End of a run.

    Attributes:
        finished: Whether it came to its end.
        unknown: Why nothing that was seen can be relied upon, or None.
        ended_early: Why the steps did not come to their end: a gate that did not hold, a refusal.
            The cluster was healed, settled and was copied all the same, as far as it could be.
        traceback: Of what failed in kchaos, or None.
        seconds: How long it took, its cluster's start included; None if it never ended.
        waited_s: How much of that went into waiting for observed conditions.
        settle: None if it never settled.
    """

    finished: bool = False
    unknown: str | None = field(default=None, metadata=SOMETIMES)
    ended_early: str = field(default="", metadata=SOMETIMES)
    traceback: str | None = field(default=None, metadata=SOMETIMES)
    seconds: float | None = None
    waited_s: float | None = field(default=None, metadata=SOMETIMES)
    settle: SettleOutcome | None = field(default=None, metadata=SOMETIMES)

    def gives_reason(self, broker: int, partition: TopicPartition | None) -> bool:
        """Return whether settling explains why the partition, or the broker, is not at rest."""
        reasons = () if self.settle is None else self.settle.reasons
        if partition is None:
            return any(reason["broker"] == broker for reason in reasons)
        return any(
            (reason.get("topic"), reason.get("partition")) == partition for reason in reasons
        )


def number_in(properties: Mapping[str, str], name: str) -> int | None:
    """Return the integer value of a setting, or None if it is not set.

    Raises:
        ScenarioDataError: It is no whole number.
    """
    text = properties.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text):
        raise ScenarioDataError(f"{SCENARIO}: {name} is {text!r}, which is no whole number")
    return int(text)


def read_outcome(files: EvidenceFiles) -> Outcome:
    """Return the content of outcome.json, or an unfinished outcome if the run did not write it.

    Raises:
        RunDirectoryError: It cannot be read, or a field that judging needs is not there.
    """
    if not files.has(OUTCOME):
        return Outcome()
    outcome = files.value(Outcome, OUTCOME)
    for reason in outcome.settle.reasons if outcome.settle is not None else ():
        place = f"{files.place(OUTCOME)}: settle: reasons"
        if reason.get("kind") not in KINDS:
            raise RunDirectoryError(f"{place}: no finding is named {reason.get('kind')!r}")
        if type(reason.get("broker")) is not int:
            raise RunDirectoryError(f"{place}: {dict(reason)} names no broker")
    return outcome
