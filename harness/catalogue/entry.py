"""Type of a catalogue entry: story, cases, releases, expectations and witnesses."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kchaos.checkers.witness import misspelt_witness
from kchaos.clusters.spec import ClusterSpec
from kchaos.harness.steps.scenario_steps import Step

ExpectedFinding = tuple[str, tuple[int, ...], int, int] | tuple[str, tuple[int, ...], int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The entry's expectation for one case on one range of releases.

    Attributes:
        safe: Whether safety holds.
        findings: (kind, brokers, first offset, last offset) of every safety finding, and its topic
            where the scenario has several; with KRaft also of those about conformance.
        witness: What shows that the mechanism ran, at least one, as `checkers.verdict` reads it:
            {"round": …}, {"log": …}, {"link": …}, {"hit": …}, {"observed": …}, {"epochs": …} or
            {"magics": …}.
        source: Where it is written or measured; that of the entry if empty.

    Raises:
        ValueError: It has no witness, so that nobody could say what a run has shown, or a witness
            of no documented form.
    """

    safe: bool
    findings: tuple[ExpectedFinding, ...] = ()
    witness: tuple[Mapping[str, Any], ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse what no run could show."""
        if not self.witness:
            raise ValueError("an expectation needs a witness that the mechanism ran")
        for witness in self.witness:
            if why := misspelt_witness(witness):
                raise ValueError(why)

    @property
    def is_green(self) -> bool:
        """Whether the bug does not show."""
        return self.safe and not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return the expectation as the judge reads it."""
        names = ("kind", "brokers", "first_offset", "last_offset", "topic")
        findings = [dict(zip(names, finding, strict=False)) for finding in self.findings]
        return asdict(self) | {"findings": findings}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One known bug.

    Attributes:
        name: What `kchaos reproduce` takes.
        title: One line.
        story: What happens, in plain words, and where document and shipped code differ.
        source: KIP, Jira, and where the steps come from.
        cases: Name and one line of each case.
        cluster: The cluster for a Kafka (a release or a path).
        case_clusters: In place of `cluster`, for cases that need another protocol, or several
            releases.
        steps: The steps of a case.
        cannot_show: (case, release) to why that release cannot show the case, and which one can;
            "" where it can.
        expectations: (case, release) to what is known; missing means: the model's answer.
        default_releases: What is played without `--kafka`; all `releases` if empty.
        measured_only: Cases that are long; `kchaos measure` plays them, the test suite does not.
        releases: The releases that the entry makes a statement about, for the list.
    """

    name: str
    title: str
    story: str
    source: str
    cases: Mapping[str, str]
    cluster: Callable[[str], ClusterSpec]
    case_clusters: Mapping[str, Callable[[str], ClusterSpec]] = field(default_factory=dict)
    steps: Callable[[str], tuple[Step, ...]]
    cannot_show: Callable[[str, str], str] = lambda _case, _release: ""
    expectations: Mapping[tuple[str, str], Expectation] = field(default_factory=dict)
    default_releases: tuple[str, ...] = ()
    measured_only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Fill in what it says once for all."""
        expectations = {
            key: replace(expectation, source=expectation.source or self.source)
            for key, expectation in self.expectations.items()
        }
        object.__setattr__(self, "expectations", expectations)
        object.__setattr__(self, "default_releases", self.default_releases or self.releases)
        if not self.default_releases:
            raise ValueError(f"{self.name}: no expectation names a release: say default_releases")
        if not self.cases:
            raise ValueError(f"{self.name}: it has no cases: name one, in a line")

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases for which some case has an expectation, in order of first mention."""
        return tuple(dict.fromkeys(release for _, release in self.expectations))

    def has(self, words: Iterable[str]) -> bool:
        """Return whether name, title, story, source or findings have each word, in either case."""
        kinds = {found[0] for expected in self.expectations.values() for found in expected.findings}
        text = " ".join([self.name, self.title, self.story, self.source, *kinds]).lower()
        return all(word.lower() in text for word in words)
