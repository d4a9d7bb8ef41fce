"""The context in which a step is performed: the cluster, the evidence, the gates."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kchaos.checkers import observations
from kchaos.checkers.acts import Act, StartBroker, StopBroker
from kchaos.checkers.model import events
from kchaos.checkers.observations import Observation
from kchaos.checkers.run_directory import RunDirectory
from kchaos.clusters.api import Cluster
from kchaos.clusters.system.standstill import StandstillWatch
from kchaos.faults.process.restart import start_of
from kchaos.harness.errors import ScenarioError
from kchaos.harness.play.client_lines import ClientLines
from kchaos.harness.play.clients import Clients
from kchaos.harness.play.fault_stack import FaultStack
from kchaos.harness.play.free_clients import FreeClients
from kchaos.harness.play.observer import Observer
from kchaos.harness.play.recorder import Recorder
from kchaos.harness.play.workload import Workload


@dataclass(slots=True)
class Play:
    """One scenario while it is played; also the journal that faults write to.

    Every act upon which the model acts is written together with the last zxid before it, so that
    the timeline can put acts and ZooKeeper's transactions into one order.

    Attributes:
        is_offline: Whether nothing may be fetched.
        waited_s: How long steps that only wait, and settling, have taken so far, in seconds.
        client_lines: What links in front of brokers saw of others' clients; None without them.
        free_clients: Clients that run beside the steps, by name.
        watch: Notes when the machine let nothing run.
        slow_producers: Producer id and epoch of those that do not know that their time is over, by
            transactional id.
        why_not: Why the last `IfPossible` was not possible; "" if it was.
        has_failed_heal: Whether a fault of a live run could not be healed at once, as while another
            fault kept its broker from the controllers.
    """

    cluster: Cluster
    run: RunDirectory
    say: Callable[[str], None]
    is_offline: bool = False
    waited_s: float = 0.0
    client_lines: ClientLines | None = None
    free_clients: dict[str, FreeClients | Workload] = field(default_factory=dict)
    slow_producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    why_not: str = ""
    has_failed_heal: bool = False
    watch: StandstillWatch = field(init=False)
    recorder: Recorder = field(init=False)
    observer: Observer = field(init=False)
    clients: Clients = field(init=False)
    faults: FaultStack = field(init=False)

    def __post_init__(self) -> None:
        self.watch = StandstillWatch(pids=self._pids)
        self.recorder = Recorder(self.run)
        self.observer = Observer(self.cluster)
        self.clients = Clients(self.cluster, self.recorder)
        self.faults = FaultStack(self.cluster, self)

    def _pids(self) -> Iterator[int]:
        """Yield the processes that decide, lead or follow."""
        nodes = (*self.cluster.brokers.values(), *self.cluster.controllers.values())
        return (node.pid for node in nodes if node.pid is not None)

    def observed(self, what: Observation) -> None:
        """Append one observation; your own step records `Noted`."""
        self.recorder.observed(what)

    def action(self, event: events.Action) -> None:
        """Append one action of the model that happens now."""
        self.recorder.action(event, self.last_zxid())

    @contextlib.contextmanager
    def acting(self, act: Act) -> Iterator[None]:
        """Record an act of a fault as "act" before the block, and the model's action after it.

        The rest acts on ZooKeeper or on controllers alone, whose own logs show what came of it.
        """
        controllers = self.cluster.controllers.keys() - self.cluster.brokers.keys()
        is_of_broker = getattr(act, "broker", None) not in controllers
        zxid = self.last_zxid()
        self.observed(observations.Act(act=act, zxid=zxid))
        if isinstance(act, StartBroker) and is_of_broker:
            self.observer.remember_start(act.broker)
        began = time.time()
        yield
        done = self._done(act) if is_of_broker else act
        if isinstance(done, events.Action) and is_of_broker:
            self.recorder.action(done, zxid, began=began)

    def running_clients(self, name: str) -> FreeClients | Workload:
        """Return the clients of that name.

        Raises:
            ScenarioError: None run under it.
        """
        if name not in self.free_clients:
            raise ScenarioError(
                f"no clients named {name!r} run; those that do: {[*self.free_clients]}"
            )
        return self.free_clients[name]

    def stop_clients(self, *names: str) -> None:
        """Stop the clients of these names, by default all, and record their reports.

        Raises:
            ScenarioError: Some failed; all have ended all the same.
        """
        failures = []
        for name in names or tuple(self.free_clients):
            clients = self.free_clients.pop(name)
            try:
                told = clients.stop()
            except ScenarioError as error:
                failures.append(str(error))
            else:
                self.observed(
                    observations.FreeClientsStopped(
                        name=name,
                        topic=clients.topic,
                        clients=tuple(told["clients"]),
                        waits=tuple(observations.Wait(**wait) for wait in told["waits"]),
                        not_ended=tuple(told["not_ended"]),
                    )
                )
        if failures:
            raise ScenarioError("; ".join(failures))

    def kill_clients(self) -> None:
        """Kill all clients at once, without a report."""
        for name in tuple(self.free_clients):
            self.free_clients.pop(name).child.kill()

    def last_zxid(self) -> int:
        """Return ZooKeeper's newest zxid, as a read through the shared client shows it."""
        return self.cluster.metadata.position()

    def _done(self, act: Act) -> Act:
        """Return the act with its outcome: the configuration, or the content left on disk."""
        match act:
            case StartBroker():
                broker = self.cluster.brokers[act.broker]
                return replace(start_of(broker), placed=self.observer.placed(act.broker))
            case StopBroker():
                return replace(act, checkpointed=self._checkpointed(act.broker))
            case _:
                return act

    def _checkpointed(self, broker: int) -> tuple[tuple[str, int, int], ...]:
        offsets = self.observer.checkpointed(broker)
        return tuple((topic, partition, offset) for (topic, partition), offset in offsets.items())
