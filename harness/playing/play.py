"""What a step has in its hands while it is performed: the cluster, the evidence, the gates."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from checkers.model import events
from checkers.run_directory import RunDirectory
from clusters.api import Cluster
from harness.playing.clients import Clients
from harness.playing.fault_stack import FaultStack
from harness.playing.observer import Observer
from harness.playing.recorder import Recorder


@dataclass(slots=True)
class Play:
    """One scenario while it is played; also the journal that faults write to.

    Every act is written as the model's action together with the last zxid before it, so that
    the timeline can put acts and ZooKeeper's transactions into one order.
    """

    cluster: Cluster
    run: RunDirectory
    say: Callable[[str], None]
    recorder: Recorder = field(init=False)
    observer: Observer = field(init=False)
    clients: Clients = field(init=False)
    faults: FaultStack = field(init=False)

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.run)
        self.observer = Observer(self.cluster)
        self.clients = Clients(self.cluster, self.recorder)
        self.faults = FaultStack(self.cluster, self)

    def observed(self, what: str, **detail: Any) -> None:
        """Appends one observation."""
        self.recorder.observed(what, **detail)

    def action(self, event: events.Action) -> None:
        """Appends one action of the model's that is taken now."""
        self.recorder.action(event, self.last_zxid())

    @contextlib.contextmanager
    def acting(self, act: str, **detail: Any) -> Iterator[None]:
        """A fault's primitive; see `faults.api.ACTS`. Written when it is done."""
        zxid = self.last_zxid()
        self.observed("act", act=act, zxid=zxid, **detail)
        if act == "start-broker":
            self.observer.remember_start(detail["broker"])
        yield
        event = self._model_action(act, detail)
        if event is not None:
            self.recorder.action(event, zxid)

    def last_zxid(self) -> int:
        """The newest zxid that ZooKeeper has, as a read through the shared client shows it."""
        return self.cluster.metadata.position()

    def _model_action(self, act: str, detail: dict[str, Any]) -> events.Action | None:
        match act:
            case "start-broker":
                return self.start_action(detail["broker"])
            case "kill-broker" | "stop-broker":
                return events.StopBroker(
                    broker=detail["broker"],
                    clean=act == "stop-broker",
                    checkpointed=self._checkpointed(detail["broker"]),
                )
            case "pause-broker":
                return events.PauseBroker(broker=detail["broker"])
            case "resume-broker":
                return events.ResumeBroker(broker=detail["broker"])
            case "lose-tail":
                return events.LoseTail(**detail)
            case "cut-link":
                return events.CutLink(**detail)
            case "heal-link":
                return events.HealLink(**detail)
            case "hold":
                return events.Hold(**detail)
            case "release":
                return events.ReleaseHold(**detail)
            case _:
                # The rest acts on ZooKeeper, whose own log shows what came of it.
                return None

    def start_action(self, broker: int) -> events.StartBroker:
        """The model's action for a start of this broker with its present configuration."""
        found = self.cluster.brokers[broker]
        properties = found.properties
        return events.StartBroker(
            broker=broker,
            release=found.judged_as,
            inter_broker_protocol=properties.get("inter.broker.protocol.version"),
            message_format=properties.get("log.message.format.version"),
            unclean_leader_election=properties.get("unclean.leader.election.enable") == "true",
            min_insync_replicas=int(properties.get("min.insync.replicas", "1")),
        )

    def _checkpointed(self, broker: int) -> tuple[tuple[str, int, int], ...]:
        offsets = self.observer.checkpointed(broker)
        return tuple((topic, partition, offset) for (topic, partition), offset in offsets.items())
