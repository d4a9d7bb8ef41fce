"""Which rules a broker follows: composed by release, inter-broker protocol and message format.

A `Generation` is what one broker does. It starts as 0.10.2 does and is changed by one `Rule` after
the other (`checkers.model.rules`, one small module per KIP or fix). In a mixed cluster each broker
has its own: a leader answers by the leader's generation, a follower asks and truncates by its own.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from checkers.errors import ModelError
from checkers.model.epoch_cache import UNDEFINED, Entries, EpochEnd

Version = tuple[int, int, int, int]

_ANY_IV = 99
"""The last field of a protocol version that names no IV: the newest of that release line."""

RELEASES = (
    "0.10.2.2",
    "0.11.0.3",
    "1.0.2",
    "1.1.1",
    "2.0.0",
    "2.0.1",
    "2.1.0",
    "2.1.1",
    "2.2.0",
    "2.2.2",
    "2.3.1",
    "2.4.1",
    "2.5.1",
    "2.6.3",
    "2.7.2",
    "2.8.2",
    "3.0.2",
    "3.3.2",
    "3.6.2",
    "3.9.1",
)
"""The releases whose source the rules were compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What a broker's generation is composed from.

    Attributes:
        release: The binary, as four numbers: 1.1.1 is (1, 1, 1, 0), 0.10.2.2 is (0, 10, 2, 2).
        inter_broker_protocol: Four numbers, the last one the IV: "2.7-IV1" is (2, 7, 0, 1).
        magic: 0, 1 or 2, from the message format.
    """

    release: Version
    inter_broker_protocol: Version
    magic: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationState:
    """What a follower does with an epoch's end: truncate to the offset, and whether that is all."""

    offset: int
    completed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerLog:
    """What a follower's truncation rule looks at.

    Attributes:
        end_of_epoch: The follower's own answer to an epoch, from its own cache.
        log_end_offset: Exclusive.
        fetch_offset: The fetcher's offset for the partition; at first the high watermark that the
            replica had when it became a follower, later where a round of truncation left it.
        high_watermark: The replica's present high watermark.
    """

    end_of_epoch: Callable[[int], EpochEnd]
    log_end_offset: int
    fetch_offset: int
    high_watermark: int


def _no_epoch_is_kept(entries: Entries, epoch: int, offset: int) -> Entries:
    return entries


def _nothing_is_known(entries: Entries, requested_epoch: int, log_end_offset: int) -> EpochEnd:
    return UNDEFINED


def _high_watermark(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
    return TruncationState(offset=follower.high_watermark, completed=True)


def _leader_is_the_same(same_leader: bool, known_epoch: int, new_epoch: int) -> bool:
    return same_leader


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What one broker does, one field a rule; the defaults are what 0.10.2 does.

    Attributes:
        name: Release, then what differs from that release's own protocol and format.
        versions: What it was composed from.
        rules: Names of the rules that changed it, in the order in which they did.
        keeps_epochs: Whether the replicas have a leader epoch cache at all.
        assign_epoch: (entries, epoch, offset) to the entries with that epoch's start.
        assigns_epoch_on_election: Whether a new leader notes its epoch before any append.
        clears_cache_on_old_format: Whether appending magic 0 or 1 empties the cache.
        recovers_epoch_zero: Whether epoch 0 comes back from the batches after an unclean stop.
        truncates_cache_at_log_end: Whether a truncation to the log end offset or beyond still
            drops cached epochs from there on.
        answer_epoch: (entries, requested epoch, log end offset) to the leader's answer.
        answers_with_epoch: Whether the leader can tell the epoch in its answer (version 1).
        checks_leader_epoch: Whether the leader compares a request's current leader epoch.
        isr_needs_epoch_start: Whether a follower must have reached the start of the leader's epoch
            to join the ISR.
        truncates_on_become_follower: Whether the log is cut at the high watermark at once.
        epoch_request_version: Version of OffsetForLeaderEpoch that the follower sends, None if it
            sends none.
        asks_without_epoch: Whether a follower with an empty cache asks for epoch -1.
        sends_leader_epoch: Whether Fetch carries the current leader epoch (version 9 and later).
        truncates_on_fetch: Whether truncation follows from the Fetch response.
        truncate: (answer, follower) to what the follower does with the leader's answer.
        skips_known_leader: (same leader, known epoch, new epoch) to whether a LeaderAndIsr leaves
            the follower as it is.
        checks_epoch_of_answer: Whether an answer that was asked under another leader epoch is
            ignored.
        fails_partition_only: Whether a failing append stops one partition, not the thread.
        exits_on_shorter_leader: Whether a broker ends itself when a leader's log is shorter and
            unclean elections are off.
        lowers_high_watermark: Whether a truncation takes the high watermark down with the log.
        sees_bounces: Whether a controller tells a restarted broker from one that never left.
    """

    name: str
    versions: Versions
    rules: tuple[str, ...] = ()
    keeps_epochs: bool = False
    assign_epoch: Callable[[Entries, int, int], Entries] = _no_epoch_is_kept
    assigns_epoch_on_election: bool = False
    clears_cache_on_old_format: bool = False
    recovers_epoch_zero: bool = False
    truncates_cache_at_log_end: bool = False
    answer_epoch: Callable[[Entries, int, int], EpochEnd] = _nothing_is_known
    answers_with_epoch: bool = False
    checks_leader_epoch: bool = False
    isr_needs_epoch_start: bool = False
    truncates_on_become_follower: bool = True
    epoch_request_version: int | None = None
    asks_without_epoch: bool = False
    sends_leader_epoch: bool = False
    truncates_on_fetch: bool = False
    truncate: Callable[[EpochEnd, FollowerLog], TruncationState] = _high_watermark
    skips_known_leader: Callable[[bool, int, int], bool] = _leader_is_the_same
    checks_epoch_of_answer: bool = False
    fails_partition_only: bool = False
    exits_on_shorter_leader: bool = True
    lowers_high_watermark: bool = False
    sees_bounces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One change of the protocol.

    Attributes:
        name: The KIP or Jira that made it.
        applies: Whether a broker of these versions follows it.
        changes: The fields of `Generation` that it sets.
    """

    name: str
    applies: Callable[[Versions], bool]
    changes: Mapping[str, object] = field(default_factory=dict)


def generation_for(
    release: str,
    *,
    inter_broker_protocol: str | None = None,
    message_format: str | None = None,
    without: Collection[str] = (),
    also: Collection[str] = (),
) -> Generation:
    """Return what a broker of that release does under that protocol and message format.

    Args:
        release: Such as "1.1.1", or one of the variants in `rules.VARIANTS`, such as "KIP-279".
        inter_broker_protocol: Such as "1.1" or "2.7-IV1"; the release's own when None.
        message_format: Such as "0.10.2"; the release's own when None.
        without: Names of rules to leave out.
        also: Names of rules to follow although the versions do not ask for them.

    Raises:
        ModelError: A version that cannot be read, or a rule that does not exist.
    """
    from checkers.model.rules.order import RULES

    unknown = {*without, *also} - {rule.name for rule in RULES}
    if unknown:
        raise ModelError(
            f"no rule is named {', '.join(sorted(unknown))}; "
            f"known: {', '.join(rule.name for rule in RULES)}"
        )
    versions = versions_of(release, inter_broker_protocol, message_format)
    generation = Generation(
        name=_name(release, inter_broker_protocol, message_format, without, also),
        versions=versions,
    )
    for rule in RULES:
        if rule.name in also or (rule.applies(versions) and rule.name not in without):
            changes: dict[str, object] = {**rule.changes, "rules": (*generation.rules, rule.name)}
            generation = replace(generation, **changes)  # type: ignore[arg-type]
    return generation


def versions_of(
    release: str, inter_broker_protocol: str | None = None, message_format: str | None = None
) -> Versions:
    """Return the versions as numbers; from protocol 3.0 on the message format is ignored (KIP-724).

    Raises:
        ModelError: A version that cannot be read.
    """
    binary = parse_version(release)
    own = (*binary[:3], _ANY_IV) if binary[0] == 0 else (binary[0], binary[1], 0, _ANY_IV)
    protocol = parse_protocol(inter_broker_protocol) if inter_broker_protocol else own
    written = parse_protocol(message_format) if message_format else own
    if protocol >= (3, 0, 0, 0):
        written = protocol
    magic = 2 if written >= (0, 11, 0, 0) else 1 if written >= (0, 10, 0, 0) else 0
    return Versions(release=binary, inter_broker_protocol=protocol, magic=magic)


def parse_version(text: str) -> Version:
    """Return a release as four numbers.

    Raises:
        ModelError: It is none.
    """
    parts = text.split(".")
    if not 2 <= len(parts) <= 4 or not all(part.isdecimal() for part in parts):
        raise ModelError(f"{text!r} is not a Kafka release; write it like 1.1.1 or 0.10.2.2")
    numbers = [int(part) for part in parts] + [0] * (4 - len(parts))
    return numbers[0], numbers[1], numbers[2], numbers[3]


def parse_protocol(text: str) -> Version:
    """Return a value of `inter.broker.protocol.version` as four numbers, its IV the last one.

    Raises:
        ModelError: It is none.
    """
    version, _, iv = text.partition("-IV")
    if "-IV" in text and not iv.isdecimal():
        raise ModelError(f"{text!r} is not a protocol version; write it like 1.1 or 2.7-IV1")
    numbers = parse_version(version)
    own = int(iv) if iv else _ANY_IV
    if numbers[0] == 0:
        return numbers[0], numbers[1], numbers[2], own
    return numbers[0], numbers[1], 0, own


def _name(
    release: str,
    inter_broker_protocol: str | None,
    message_format: str | None,
    without: Collection[str],
    also: Collection[str],
) -> str:
    parts = [release]
    if inter_broker_protocol:
        parts.append(f"protocol {inter_broker_protocol}")
    if message_format:
        parts.append(f"format {message_format}")
    parts += [f"without {name}" for name in sorted(without)]
    parts += [f"with {name}" for name in sorted(also)]
    return " ".join(parts)
