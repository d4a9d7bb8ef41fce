"""Liveness during a run: a follower that is refused the same offset again and again."""

from collections.abc import Iterator
from dataclasses import dataclass

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.follow.observations import Fate, FetchAnswered, ResponseSeen
from kchaos.checkers.observations import Healed, Injected

ANSWERS = 100
"""So many answers in a row, all of them the same refusal, are a loop."""


@dataclass(slots=True)
class _Refused:
    """Answers in a row by which a leader refused a follower's offset, with their times.

    Attributes:
        is_over: Whether the leader told the follower since where to truncate.
    """

    first: float
    last: float
    answers: int = 1
    is_over: bool = False


def fetch_loops(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield each follower that received OFFSET_OUT_OF_RANGE too often in a row.

    A follower that is out of range asks where the leader's log begins and ends, and fetches from
    there; once or twice is usual. What is answered while a fault acts is not counted: a fault may
    keep the answer to that question. An answer without that error ends a loop.

    **Verifies**: the answers to Fetch at the links, of every partition that is judged.
    **Does not verify**: a run without links.
    """
    acting = _Acting(evidence)
    refused: dict[tuple[int, int, TopicPartition], _Refused] = {}
    for message in evidence.links or ():
        said, time = message.said, message.wall_time_s
        if not isinstance(said, ResponseSeen) or said.fate is not Fate.ARRIVES:
            continue
        if acting.is_anything(time):
            yield from _ended(refused, until="until a fault acted")
            continue
        for partition, answer in said.partitions.items():
            key = (said.follower, said.leader, partition)
            if not isinstance(answer, FetchAnswered):
                continue
            if answer.diverging is not None:
                # A leader that was sent a record knows its leader epoch again.
                if key in refused:
                    refused[key].is_over = True
            elif answer.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                is_record = answer.last_offset is not None
                own = {key: refused.pop(key)} if key in refused else {}
                yield from _ended(own, until="until a record was written" if is_record else "")
            elif key in refused:
                refused[key].last = time
                refused[key].answers += 1
            else:
                refused[key] = _Refused(first=time, last=time)
    for key in [key for key, loop in refused.items() if loop.is_over]:
        yield from _ended({key: refused.pop(key)}, until="")
    yield from _ended(refused, until="to the end of the run")


class _Acting:
    """Which lasting faults act, as time goes on."""

    def __init__(self, evidence: RunEvidence) -> None:
        changes: list[tuple[float, Injected | Healed]] = [
            *((line.time, fault) for line, fault in lines_of(evidence.observed, Injected)),
            *((line.time, fault) for line, fault in lines_of(evidence.observed, Healed)),
        ]
        self._changes = sorted(changes, key=lambda change: change[0], reverse=True)
        self._acting: set[str] = set()

    def is_anything(self, time: float) -> bool:
        """Return whether a fault acts at a time, which is no earlier than the one before."""
        while self._changes and self._changes[-1][0] <= time:
            _, change = self._changes.pop()
            if isinstance(change, Healed):
                self._acting.discard(change.name)
            elif change.lasting:
                self._acting.add(change.name)
        return bool(self._acting)


def _ended(
    refused: dict[tuple[int, int, TopicPartition], _Refused], *, until: str
) -> Iterator[Finding]:
    """Yield the refusals that were loops, and forget all of them."""
    for (follower, leader, partition), loop in refused.items():
        if loop.answers < ANSWERS:
            continue
        seconds = loop.last - loop.first
        until = until or f"for {seconds:.1f} s"
        yield Finding(
            kind="fetch-loop",
            topic=partition.topic,
            partition=partition.partition,
            brokers=(follower,),
            message=f"broker {leader} answered {loop.answers} fetches of broker {follower} in a "
            f"row with OFFSET_OUT_OF_RANGE, {loop.answers / max(seconds, 0.001):.0f} a second, "
            f"{until}",
            evidence={
                "leader": leader,
                "answers": loop.answers,
                "from": loop.first,
                "to": loop.last,
                "until": until,
            },
        )
    refused.clear()
