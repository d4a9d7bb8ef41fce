"""A rule: one difference between releases, whole, with its source and what it changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from kchaos.checkers.acts import Mode
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases.generation import Generation, Versions
from kchaos.checkers.model.releases.versions import (
    WITHOUT_ZOOKEEPER,
    ReleaseRange,
    Since,
    parse_protocol,
    parse_version,
)

Followed = Literal["elsewhere", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One difference between releases.

    Rules are composed by first release, the later one wins. `checkers.model.releases.every_rule`
    finds them in the modules of `rules`.

    Attributes:
        name: The KIP or Jira that made it; where there is none, what it is.
        since: The first release of each line that has it, oldest first, backports among them.
        until: The first release of each line that has it no more.
        is_of_zookeeper: Whether it is about the controller that ZooKeeper elects, or about what
            that one sends; such a rule ends with ZooKeeper, in 4.0.
        mode: The only mode of a cluster in which it is followed; None for both.
        protocol: The inter-broker protocol from which on it is followed, such as "2.7-IV1"; None
            for any.
        source: The class of Kafka that has it, and a release in which that class was read, such
            as "kafka.cluster.Partition, 2.0.0".
        meaning: A sentence or two, for the page of rules.
        change: A generation to the same one with the decision points that the rule replaces; None
            where no decision point has it.
        followed: How a rule without `change` is predicted: "elsewhere", the releases differ by
            other means; "always", as if all releases had it; "never", as if none had. None as long
            as nobody has found out.
        is_for_old_formats: Whether only message formats below 0.11 follow it.
        after: Names of rules that it comes after, where first releases do not say so.
        releases: From `since` and `until`; they are about the binary alone.

    Raises:
        ModelError: A rule that says no releases, none that was published, or no source or meaning;
            or one that says both what it changes and how it is predicted without.
    """

    name: str
    since: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    is_of_zookeeper: bool = False
    mode: Mode | None = None
    protocol: str | None = None
    source: str = ""
    meaning: str = ""
    change: Callable[[Generation], Generation] | None = None
    followed: Followed | None = None
    is_for_old_formats: bool = False
    after: tuple[str, ...] = ()
    releases: ReleaseRange = field(init=False)

    def __post_init__(self) -> None:
        """Take the releases together, and refuse a rule that does not say everything."""
        missing = [field for field in ("since", "source", "meaning") if not getattr(self, field)]
        if missing:
            raise ModelError(f"the rule {self.name!r} does not say its {', '.join(missing)}")
        if self.change is not None and self.followed is not None:
            raise ModelError(f"the rule {self.name!r} has a change, and says followed besides")
        try:
            ended = (*self.until, *([WITHOUT_ZOOKEEPER] if self.is_of_zookeeper else []))
            until = Since(*ended) if ended else None
            releases = ReleaseRange(Since(*self.since), until=until)
            was_read_in = releases.includes(parse_version(self.source.partition(", ")[2]))
            if self.protocol is not None:
                parse_protocol(self.protocol)
        except ModelError as error:
            raise ModelError(f"the rule {self.name!r}: {error}") from error
        if not releases.released():
            raise ModelError(f"the rule {self.name!r} is in no release: {self.since}")
        if not was_read_in:
            raise ModelError(f"the rule {self.name!r} is in {releases}, not in {self.source}")
        object.__setattr__(self, "releases", releases)

    def applies(self, versions: Versions) -> bool:
        """Return whether a broker of these versions follows it."""
        if not self.releases.includes(versions.release):
            return False
        if self.mode not in (None, versions.mode):
            return False
        if self.is_for_old_formats and versions.magic >= 2:
            return False
        return self.protocol is None or versions.inter_broker_protocol >= parse_protocol(
            self.protocol
        )
