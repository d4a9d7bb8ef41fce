"""A step that a client does which believes what a broker tells it about the cluster."""

import time
from dataclasses import dataclass

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.clusters.ask.client import PartitionMetadata, Produced, fetch_raw, tell
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.interrupts import check_interrupt
from kchaos.harness.gates.probe import write_record
from kchaos.harness.play.play import Play

_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteWhereTold:
    """A client asks one broker who leads a partition, and reads and writes there.

    If it is refused it asks the same broker again, as clients do whose other brokers are away. What
    it is told and what it is answered each time is observed as "told", and how it ends as
    "wrote-where-told"; to be refused every time is no failure of the step.

    Attributes:
        operation: Names the writes, followed by the number of the try; must be new in the scenario.
        ask: The broker that is asked.
        tries: How often at most.
        refused_s: How long a broker that says that it does not lead is asked again to write.
    """

    operation: str
    topic: str
    partition: int
    ask: int
    tries: int = 20
    refused_s: float = 1.0

    def perform(self, play: Play) -> None:
        """Write until a write is acknowledged, or raise with the last refusal."""
        began = time.monotonic()
        acknowledged = False
        for number in range(1, self.tries + 1):
            check_interrupt()
            told = self._told(play)
            fetch = produce = None
            if told is not None and told.leader in play.cluster.brokers:
                fetch = self._read(play, told.leader)
                produce = self._write(play, told.leader, number)
                acknowledged = produce == 0
            play.observed(
                observations.LeaderTold(
                    operation=self.operation,
                    number=number,
                    by=self.ask,
                    leader=None if told is None else told.leader,
                    brokers=() if told is None else tuple(told.brokers),
                    error_code=None if told is None else told.error_code,
                    fetch_error_code=fetch,
                    produce_error_code=produce,
                )
            )
            if acknowledged:
                break
            time.sleep(_PAUSE_S)
        play.observed(
            observations.WroteWhereTold(
                operation=self.operation,
                acknowledged=acknowledged,
                tries=number,
                seconds=round(time.monotonic() - began, 1),
            )
        )

    def _told(self, play: Play) -> PartitionMetadata | None:
        try:
            return tell(
                play.cluster.brokers[self.ask].client_address,
                topic=self.topic,
                partition=self.partition,
            )
        except (NoAnswer, NotSent):
            return None

    def _read(self, play: Play, leader: int) -> int | None:
        """Return the error code of a consumer's Fetch, or None without a response."""
        try:
            return fetch_raw(
                play.cluster.brokers[leader].client_address,
                topic=self.topic,
                partition=self.partition,
                offset=0,
                version=2,
            )[0]
        except (NoAnswer, NotSent):
            return None

    def _write(self, play: Play, leader: int, number: int) -> int | None:
        """Return the error code of a write with acks=1, or None without a response."""
        answer = write_record(
            play,
            TopicPartition(self.topic, self.partition),
            leader,
            f"{self.operation}-{number}",
            acks=1,
            timeout_s=self.refused_s,
        )
        return answer.error_code if isinstance(answer, Produced) else None
