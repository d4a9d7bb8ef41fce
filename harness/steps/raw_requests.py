"""A step that fetches as clients of other times do, and keeps what came back as it came."""

import base64
from dataclasses import dataclass

from kchaos.checkers.formats.batches import entries
from kchaos.clusters.ask.client import fetch_raw
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAs:
    """One Fetch of each version, as a consumer of that time sends it.

    Fetch before version 2 is for message format magic 0, before version 4 for magic 1. What the
    broker answers is kept whole, and judged.

    Attributes:
        operation: Names the operations, followed by the version; must be new in the scenario.
        versions: Of FetchRequest, each from 0 to 4.
        offset: The first to read, inclusive.
        high_watermark: The gate is that the broker gives consumers what lies below this.
    """

    operation: str
    topic: str
    partition: int
    broker: int
    high_watermark: int
    versions: tuple[int, ...] = (0, 1, 2, 3)
    offset: int = 0
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Ask in each version, and record the responses.

        Raises:
            AwaitTimeout: The high watermark did not get so far.
            NoAnswer: A version was not answered; NotSent likewise.
        """
        asked = play.cluster.brokers[self.broker]
        await_until(
            lambda: self._answer(play, 4)[1] >= self.high_watermark,
            timeout_s=self.timeout_s,
            waiting_for=f"the high watermark {self.high_watermark} on broker {self.broker}",
            last_seen=lambda: self._answer(play, 4)[:2],
            remedy=f"see {asked.server_log}",
            abort=gates.no_exit(play),
        )
        for version in self.versions:
            operation = f"{self.operation}-v{version}"
            detail = {
                "function": "fetch",
                "broker": self.broker,
                "topic": self.topic,
                "partition": self.partition,
                "fetch_version": version,
            }
            play.recorder.history(operation, "invoke", **detail)
            error_code, high_watermark, records = self._answer(play, version)
            play.recorder.history(
                operation,
                "ok" if error_code == 0 else "fail",
                **detail,
                error_code=error_code,
                readable=max(0, high_watermark - self.offset),
                magics=[entry.magic for entry in entries(memoryview(records), len(records))],
                answer=base64.b64encode(records).decode(),
            )

    def _answer(self, play: Play, version: int) -> tuple[int, int, bytes]:
        return fetch_raw(
            play.cluster.brokers[self.broker].client_address,
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            version=version,
        )
