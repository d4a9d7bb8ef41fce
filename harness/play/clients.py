"""The clients of a scenario: each produce is one request from a thread of its own."""

import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any

from kchaos.checkers.evidence.history import LineType
from kchaos.checkers.formats.error_codes import DOES_NOT_LEAD, appended_nothing, error_name
from kchaos.checkers.model import events
from kchaos.clusters.api import Broker, Cluster
from kchaos.clusters.ask.client import Produced, codec_sent, produce, why_not_compressed
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.harness.errors import ScenarioError
from kchaos.harness.play.recorder import Recorder

_PAUSE_S = 0.01


@dataclass(slots=True)
class Clients:
    """Produces that were sent, and their answers.

    Attributes:
        pending: The thread of each operation, also when it has ended.
        answers: What came back for each operation so far.
    """

    cluster: Cluster
    recorder: Recorder
    pending: dict[str, threading.Thread] = field(default_factory=dict)
    answers: dict[str, Produced | Exception] = field(default_factory=dict)

    def produce(
        self,
        action: events.Produce,
        *,
        timeout_s: float,
        is_probe: bool = False,
        header_bytes: int = 0,
    ) -> None:
        """Start a ProduceRequest and return at once; `answers` receives its outcome.

        The history says whether it `is_probe`: a probe's acknowledgement says nothing about the
        scenario. For `header_bytes` see `Produce`.

        Raises:
            ScenarioError: There is no such broker, or nothing here compresses so.
        """
        broker = self.cluster.brokers.get(action.broker)
        if broker is None:
            raise ScenarioError(f"produce {action.operation}: there is no broker {action.broker}")
        why_not = why_not_compressed(action.codec, magic_of(broker))
        if why_not:
            raise ScenarioError(f"produce {action.operation}: {why_not}")
        timestamp_ms = int(time.time() * 1000)
        if action.codec != "none":
            sent = codec_sent(
                [record.encode() for record in action.records],
                [key.encode() for key in action.keys],
                magic=magic_of(broker),
                codec=action.codec,
                timestamp_ms=timestamp_ms,
            )
            action = replace(action, codec=sent)
        detail: dict[str, Any] = {
            "function": "produce",
            "broker": action.broker,
            "topic": action.topic,
            "partition": action.partition,
            "acks": action.acks,
            "probe": is_probe,
        }
        self.recorder.history(
            action.operation,
            "invoke",
            **detail,
            timestamp_ms=timestamp_ms,
            records=action.records,
            keys=action.keys,
            zxid=self.cluster.metadata.position(),
            step=self.recorder.step,
            codec=action.codec,
            **({"has_headers": True} if header_bytes else {}),
        )

        def send() -> None:
            try:
                answer = self._produced(action, timestamp_ms, timeout_s, header_bytes)
                self._write_answer(action, answer, detail)
            except Exception as error:  # noqa: BLE001 - raised at the gate that awaits the answer
                answer = error
            self.answers[action.operation] = answer

        thread = threading.Thread(target=send, name=f"produce {action.operation}", daemon=True)
        self.pending[action.operation] = thread
        thread.start()

    def join(self, timeout_s: float = 10.0) -> None:
        """Wait until no client writes to the history any more; brokers must be gone.

        Raises:
            ScenarioError: One still does.
        """
        for operation, thread in self.pending.items():
            thread.join(timeout_s)
            if thread.is_alive():
                raise ScenarioError(f"produce {operation} does not end, though no broker runs")

    def _produced(
        self, action: events.Produce, timestamp_ms: int, timeout_s: float, header_bytes: int
    ) -> Produced | Exception:
        """Return the response; repeat a request whose refusal appended nothing, within the time.

        A broker that leads answers so until it has handled UpdateMetadata. If the partition's
        leader changes meanwhile, the refusal is the answer. Without links nobody could say then
        before which decision records were appended, and the answer is a ScenarioError.
        """
        broker = self.cluster.brokers[action.broker]
        metadata = self.cluster.metadata
        deadline = time.monotonic() + timeout_s
        before = metadata.state(action.topic, action.partition)
        while True:
            try:
                answer = produce(
                    broker.client_address,
                    topic=action.topic,
                    partition=action.partition,
                    values=[record.encode() for record in action.records],
                    keys=[key.encode() for key in action.keys],
                    acks=action.acks,
                    magic=magic_of(broker),
                    codec=action.codec,
                    header_bytes=header_bytes,
                    timestamp_ms=timestamp_ms,
                    timeout_s=timeout_s,
                )
            except (NoAnswer, NotSent) as error:
                return error
            if answer.error_code not in DOES_NOT_LEAD or time.monotonic() > deadline:
                return answer
            time.sleep(_PAUSE_S)
            now = metadata.state(action.topic, action.partition)
            if before is None or now is None or now.term != before.term:
                if self.cluster.links is not None:
                    return answer
                return ScenarioError(
                    f"{action.topic}-{action.partition} went from {before} to {now} while broker "
                    f"{action.broker} refused produce {action.operation}"
                )

    def _write_answer(
        self, action: events.Produce, answer: Produced | Exception, detail: dict[str, Any]
    ) -> None:
        kind: LineType
        more: dict[str, Any]
        if isinstance(answer, Produced) and answer.error_code == 0:
            kind, more = "ok", {"base_offset": answer.base_offset, "promised": action.acks == -1}
        elif isinstance(answer, Produced):
            kind = "fail" if appended_nothing(answer.error_code, acks=action.acks) else "info"
            more = {"error": error_name(answer.error_code), "error_code": answer.error_code}
        else:
            # A leader that is deposed while acks=all is waited for refuses what it has appended.
            has_refused = isinstance(answer, ScenarioError) and action.acks != -1
            kind = "fail" if has_refused or isinstance(answer, NotSent) else "info"
            more = {"error": str(answer), "error_code": 0}
        self.recorder.history(action.operation, kind, **detail, **more)


def magic_of(broker: Broker) -> int:
    """Return the newest message format that clients of this broker's release use."""
    return 1 if broker.release.startswith("0.10.") else 2
