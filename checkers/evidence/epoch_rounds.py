"""Questions for the end of a leader epoch and their answers, as the links saw them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.links import LinkMessage
from kchaos.checkers.model.follow import observations
from kchaos.checkers.model.values.prediction import EpochRound


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRound:
    """One question for the end of a leader epoch, with its answer if one came.

    These are OffsetForLeaderEpoch (KIP-101), and the diverging epochs in Fetch responses (KIP-595,
    used between brokers from 2.7 on).

    Attributes:
        time: When it was asked, in seconds since the epoch; None where nobody saw it asked.
        requested_epoch: -1 where the links did not see it.
        answered_epoch: None where the answer has none, or none came.
        end_offset: None while no answer reached the follower.
        error_code: Of the answer; 0 if all was well.
        fate: "", or how a link treated it: "cut", "held", "abandoned",
            "forged".
        by_fetch: Whether the answer came as a diverging epoch in a Fetch response.
    """

    time: float | None
    follower: int
    leader: int
    topic: str
    partition: int
    requested_epoch: int
    answered_epoch: int | None = None
    end_offset: int | None = None
    error_code: int = 0
    fate: str = ""
    by_fetch: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether an answer without error came."""
        return self.end_offset is not None and self.error_code == 0


@dataclass(slots=True)
class _Exchange:
    """A question of a fetcher and its answer, as far as they were seen."""

    api: str
    follower: int
    leader: int
    asked_at: float | None = None
    asked: dict[TopicPartition, observations.PartitionAsked] = field(default_factory=dict)
    answered: Mapping[TopicPartition, observations.PartitionAnswered] = field(default_factory=dict)
    answered_as: int = 0
    fate: str = ""


def asked_rounds(messages: Iterable[LinkMessage]) -> tuple[AskedRound, ...]:
    """Return every OffsetForLeaderEpoch question, in the order in which they were asked."""
    return tuple(asked for exchange in _exchanges(messages) for asked in _rounds(exchange))


def epoch_rounds(messages: Iterable[LinkMessage]) -> tuple[EpochRound, ...]:
    """Return the `asked_rounds` whose error-free response reached the follower, in order.

    A message that was held counts when it was released; an answer whose asker had hung up
    (`abandoned`) never.

    **Does not verify**: requests whose version the links could not read, and those of a sender
    that they could not tell (a consumer's, for instance).
    """
    answered = [exchange for exchange in _exchanges(messages) if exchange.answered_as]
    answered.sort(key=lambda exchange: exchange.answered_as)
    return tuple(
        EpochRound(
            **{field.name: getattr(answered_round, field.name) for field in fields(EpochRound)}
        )
        for exchange in answered
        for answered_round in _rounds(exchange)
        if answered_round.is_answered
    )


def round_in_words(round_: EpochRound) -> str:
    """Describe an OffsetForLeaderEpoch request and its response for people."""
    asked = (
        f"broker {round_.follower} asked broker {round_.leader} for epoch {round_.requested_epoch}"
    )
    if round_.by_fetch:
        asked += " in a Fetch"
    epoch = "" if round_.answered_epoch is None else f"epoch {round_.answered_epoch} and "
    return f"{asked}, answered with {epoch}end offset {round_.end_offset}"


def _exchanges(messages: Iterable[LinkMessage]) -> list[_Exchange]:
    exchanges: dict[tuple[object, str], _Exchange] = {}
    # A fetch session (KIP-227) leaves out a partition about which nothing has changed.
    sessions: dict[tuple[int, int], dict[TopicPartition, observations.PartitionAsked]] = {}
    for number, message in enumerate(messages, start=1):
        said = message.said
        if (
            not isinstance(said, observations.RequestSeen | observations.ResponseSeen)
            or said.api == "ListOffsets"
        ):
            continue
        pair = (said.follower, said.source)
        exchange = exchanges.setdefault(
            (said.number, said.api), _Exchange(said.api, said.follower, said.leader)
        )
        if isinstance(said, observations.RequestSeen):
            if exchange.asked_at is None:
                exchange.asked_at = message.wall_time_s
            known = sessions.setdefault(pair, {}) if said.api == "Fetch" else {}
            exchange.asked = {**known, **said.partitions}
            if said.fate is observations.Fate.ARRIVES:
                known.update(said.partitions)
            if message.fate not in ("passed", "released"):
                exchange.fate = exchange.fate or message.fate
        elif said.fate in (observations.Fate.ARRIVES, observations.Fate.FORGED):
            if exchange.asked_at is None and said.api == "Fetch":
                # The links do not record a Fetch that leaves everything out.
                exchange.asked = {**sessions.get(pair, {})}
            exchange.answered, exchange.answered_as = said.partitions, number
            if said.fate is observations.Fate.FORGED:
                exchange.fate = message.fate
        elif said.fate is observations.Fate.ABANDONED:
            exchange.fate = exchange.fate or message.fate
    return list(exchanges.values())


def _rounds(exchange: _Exchange) -> Iterator[AskedRound]:
    for partition in {**exchange.answered, **exchange.asked}:
        asked, answer = exchange.asked.get(partition), exchange.answered.get(partition)
        epoch, end_offset, requested = None, None, None
        if exchange.api == "Fetch":
            if not isinstance(answer, observations.FetchAnswered) or answer.diverging is None:
                continue
            epoch, end_offset = answer.diverging
        elif isinstance(answer, observations.EpochAnswered):
            epoch, end_offset = answer.leader_epoch, answer.end_offset
        if isinstance(asked, observations.FetchAsked):
            requested = asked.last_fetched_epoch
        elif isinstance(asked, observations.EpochAsked):
            requested = asked.requested_epoch
        yield AskedRound(
            time=exchange.asked_at,
            follower=exchange.follower,
            leader=exchange.leader,
            topic=partition.topic,
            partition=partition.partition,
            requested_epoch=-1 if requested is None else requested,
            answered_epoch=epoch,
            end_offset=end_offset,
            error_code=0 if answer is None else answer.error_code,
            fate=exchange.fate,
            by_fetch=exchange.api == "Fetch",
        )
