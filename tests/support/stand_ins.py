"""A cluster that only remembers, and shows what a test gives it; `play_on` makes a play of it.

Nothing here stands in for Kafka: whether a fault has its effect is shown on real clusters. Every
call into the cluster or the journal is a moment, counted before and after it takes effect, and
`interrupt_at` makes Ctrl-C come at one of them.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from kazoo.exceptions import NodeExistsError, NoNodeError

import kchaos as k
from kchaos.checkers.acts import CutLink, CutZooKeeper, DisturbClients, ForgeAnswers, Hold
from kchaos.checkers.observations import Observation
from kchaos.clusters.agent import POINTS
from kchaos.clusters.api import Injectable
from kchaos.clusters.links import ApiKey, LinkRecord
from kchaos.clusters.links.fetches import Fetches
from kchaos.clusters.links.records import LinkJournal
from kchaos.clusters.metadata.zookeeper import ZooKeeperMetadata


class Stat(NamedTuple):
    czxid: int
    ephemeralOwner: int
    version: int = 0


@dataclass
class Moments:
    """Counts; raises KeyboardInterrupt once, at the number that was asked for."""

    interrupt_at: int | None = None
    count: int = 0

    def passes(self) -> None:
        self.count += 1
        if self.count == self.interrupt_at:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        self.passes()
        yield
        self.passes()


@dataclass
class ZooKeeper:
    moments: Moments
    nodes: dict[str, tuple[bytes, Stat]] = field(default_factory=dict)
    last_zxid: int = 100

    def get(self, path: str) -> tuple[bytes, Stat]:
        with self.moments.around():
            if path not in self.nodes:
                raise NoNodeError(path)
            return self.nodes[path]

    def get_async(self, path: str) -> Any:
        return SimpleNamespace(get=lambda timeout: self.get(path))

    def exists(self, path: str) -> Stat | None:
        with self.moments.around():
            return self.nodes[path][1] if path in self.nodes else None

    def create(self, path: str, data: bytes, makepath: bool = False) -> None:
        with self.moments.around():
            if path in self.nodes:
                raise NodeExistsError(path)
            self.last_zxid += 1
            self.nodes[path] = (data, Stat(self.last_zxid, 0))

    def delete(self, path: str) -> None:
        with self.moments.around():
            if self.nodes.pop(path, None) is None:
                raise NoNodeError(path)


@dataclass
class StandInBroker:
    cluster: StandInCluster
    id: int
    process: int | None = None
    is_paused: bool = False
    exit_code: int | None = None
    starts: int = 0
    is_connected: bool = True
    capabilities: frozenset[type] = frozenset(
        {k.Killable, k.Pausable, k.Restartable, k.Collectable, k.Disconnectable, Injectable}
    )
    server_log: Path = Path("server.log")
    release: str = "2.8.2"
    judged_as: str = "2.8.2"
    build: str = ""
    log_directory: Path = Path("/nowhere")
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def log_directories(self) -> tuple[Path, ...]:
        return (self.log_directory,)

    @property
    def points(self) -> frozenset[str]:
        """Only broker 0 runs with an agent."""
        return frozenset(POINTS) if self.id == 0 else frozenset()

    @property
    def client_address(self) -> str:
        return f"127.0.0.1:{self.id}"

    @property
    def pid(self) -> int | None:
        return self.process

    @property
    def is_running(self) -> bool:
        return self.process is not None

    def configure(
        self,
        kafka: object = None,
        properties: object = None,
        *,
        judged_as: str | None = None,
        stage: str | None = None,
    ) -> None:
        assert not self.is_running
        self.properties = {**self.properties, **dict(properties or {})}  # type: ignore[call-overload]

    def start(self) -> None:
        with self.cluster.moments.around():
            assert not self.is_running
            self.starts += 1
            # Above the highest pid that Linux gives, so that there is no such process.
            self.process, self.exit_code = 2**22 + 100 * self.id + self.starts, None
            self.is_paused = False
            self.cluster.register(self.id)

    def check_running(self) -> None:
        if self.exit_code is not None:
            raise k.BrokerExited(
                name=f"broker {self.id}", exit_code=self.exit_code, last_lines=[], log="server.log"
            )

    def await_ready(self, timeout_s: float = 60) -> None:
        self.cluster.moments.passes()

    def kill(self) -> None:
        with self.cluster.moments.around():
            self._end(-signal.SIGKILL)

    def stop(self, timeout_s: float = 60) -> None:
        with self.cluster.moments.around():
            self._end(143)

    def _end(self, exit_code: int) -> None:
        self.process, self.exit_code = None, exit_code
        # The stand-in has no session timeout: a registration goes with its process.
        self.cluster.client.nodes.pop(f"/brokers/ids/{self.id}", None)

    def pause(self) -> None:
        with self.cluster.moments.around():
            self.is_paused = True

    def resume(self) -> None:
        with self.cluster.moments.around():
            self.is_paused = False

    def disconnect(self) -> None:
        with self.cluster.moments.around():
            self.is_connected = False

    def reconnect(self) -> None:
        if self.is_connected:
            return
        with self.cluster.moments.around():
            self.is_connected = True


@dataclass
class Rule:
    """A cut, a hold or a forgery; what it answers is of no account."""

    cluster: StandInCluster
    act: Any
    held: tuple[Any, ...] = ()
    waiting: tuple[Any, ...] = ()
    error_code: int = 7
    met: int = 0

    def heal(self) -> None:
        with self.cluster.moments.around():
            self.cluster.rules.discard(id(self))

    release = end = heal

    @property
    def is_healed(self) -> bool:
        return id(self) not in self.cluster.rules

    is_released = is_healed


def link_record(api: ApiKey, source: int, target: int, /, **changed: Any) -> LinkRecord:
    """A request from broker to broker that passed at once, but for what is changed."""
    fields: dict[str, Any] = {
        **{"sequence": 1, "monotonic_s": 0.0, "wall_time_s": 0.0, "connection": 1},
        **{"source": source, "target": target, "client_id": "", "correlation_id": 1},
        **{"api_key": api, "api": api.spelled, "api_version": 1, "direction": "request"},
        **{"fate": "passed", "detail": None},
    }
    return LinkRecord(**fields | changed)


@dataclass
class StandInLinks:
    """Links that have seen these records, and see no more.

    Attributes:
        kept_back: Pairs between which a rule may keep messages back.
    """

    cluster: StandInCluster
    records: Sequence[LinkRecord] = ()
    kept_back: Sequence[tuple[int, int | None]] = ()
    most_of_an_api: int = 50_000
    kept: list[Rule] = field(default_factory=list)

    def _install(self, act: Any) -> Rule:
        # Links install a rule and return it in one step, as far as a caller can tell.
        self.cluster.moments.passes()
        self.kept.append(Rule(self.cluster, act))
        self.cluster.rules.add(id(self.kept[-1]))
        return self.kept[-1]

    cut = hold = forge = disturb = _install

    def _lasting(self, *kinds: type[Any]) -> dict[str, Any]:
        lasting = [rule.act for rule in self.kept if not rule.is_healed]
        return {act.name: act for act in lasting if isinstance(act, kinds)}

    @property
    def cuts(self) -> dict[str, Any]:
        return self._lasting(CutLink, CutZooKeeper)

    @property
    def forgeries(self) -> dict[str, Any]:
        return self._lasting(ForgeAnswers)

    @property
    def disturbances(self) -> dict[str, Any]:
        return self._lasting(DisturbClients)

    @property
    def client_addresses(self) -> dict[int, tuple[str, int]]:
        return dict.fromkeys(self.cluster.brokers, ("127.0.0.1", 1))

    @property
    def holds(self) -> dict[str, Any]:
        return self._lasting(Hold)

    def counts(self) -> dict[Any, Any]:
        return {}

    @property
    def journal(self) -> LinkJournal:
        journal = LinkJournal(most_of_an_api=self.most_of_an_api)
        for record in self.records:
            journal.keep(record)
        return journal

    def log(self, since: int = 0, *api_keys: int) -> list[LinkRecord]:
        return self.journal.log(since, *api_keys)

    @property
    def fetches(self) -> Fetches:
        return self.journal.fetches

    def may_keep_back(self, source: int, target: int | None) -> bool:
        return (source, target) in self.kept_back

    def await_record(
        self, predicate: Callable[[LinkRecord], bool], *, timeout_s: float, **_: Any
    ) -> LinkRecord:
        for record in filter(predicate, self.records):
            return record
        raise k.AwaitTimeout(
            waited_for="a record", last_seen="no other", remedy="", timeout_s=timeout_s
        )


@dataclass
class StandInGate:
    links: StandInLinks

    def hold(self, act: Any) -> Rule:
        made = self.links._install(act)
        made.held = (SimpleNamespace(describe=lambda: "a thread"),)
        return made

    @property
    def holds(self) -> dict[str, Any]:
        return {rule.act.name: rule.act for rule in self.links.kept if not rule.is_healed}

    def hits(self, broker: int, point: str) -> int:
        return 0


@dataclass
class StandInJournal:
    moments: Moments

    @contextlib.contextmanager
    def acting(self, act: k.Act) -> Iterator[None]:
        with self.moments.around():
            yield

    def observed(self, what: Observation) -> None:
        self.moments.passes()


class StandInCluster:
    """Brokers, all of them up; 0 is the controller.

    Args:
        folder: Where their logs are, in the folder `broker-N`; it need not be there.
        metadata: What its metadata is asked in place of; else the nodes of `client`.
    """

    def __init__(
        self,
        *,
        brokers: Iterable[int] = (0, 1),
        linked: bool = True,
        records: Sequence[LinkRecord] = (),
        kept_back: Sequence[tuple[int, int | None]] = (),
        folder: Path = Path("/nowhere"),
        metadata: object = None,
    ) -> None:
        self.moments = Moments()
        self.client = ZooKeeper(self.moments)
        self.rules: set[int] = set()
        self.links = StandInLinks(self, records, kept_back) if linked else None
        self.gate = StandInGate(StandInLinks(self))
        self.has_given_addresses = False
        self.why_unlinked = "" if linked else "start it with linked=True"
        self.zookeeper_addresses: tuple[tuple[str, int], ...] = ()
        self.zookeeper_members: tuple[Any, ...] = ()
        self.brokers = {
            broker: StandInBroker(
                self,
                broker,
                log_directory=folder / f"broker-{broker}",
                server_log=folder / f"broker-{broker}.log",
            )
            for broker in brokers
        }
        self.spec = k.ClusterSpec(brokers=k.brokers_of("2.8.2", tuple(self.brokers) or (0,)))
        self.metadata: Any = metadata or ZooKeeperMetadata(self.client)
        self.controllers: dict[int, Any] = {}
        self.sessions = 0
        for broker in self.brokers.values():
            broker.start()
        self.moments.count = 0

    @property
    def is_kraft(self) -> bool:
        return self.spec.is_kraft

    def register(self, broker: int) -> None:
        self.sessions += 1
        self.client.last_zxid += 1
        stat = Stat(self.client.last_zxid, self.sessions)
        self.client.nodes[f"/brokers/ids/{broker}"] = (b"{}", stat)

    def end_session(self, session_id: int) -> None:
        """A live broker registers again at once; a dead one does not."""
        for broker in self.brokers.values():
            node = self.client.nodes.get(f"/brokers/ids/{broker.id}")
            if node is not None and node[1].ephemeralOwner == session_id:
                del self.client.nodes[f"/brokers/ids/{broker.id}"]
                if broker.is_running:
                    self.register(broker.id)

    def check_running(self) -> None:
        for broker in self.brokers.values():
            broker.check_running()

    def unhealed(self) -> list[str]:
        """What a healed cluster would not show."""
        problems = [f"rule {rule}" for rule in self.rules]
        for broker in self.brokers.values():
            if not broker.is_running:
                problems.append(f"broker {broker.id} is down")
            if broker.is_paused:
                problems.append(f"broker {broker.id} is paused")
            if not broker.is_connected:
                problems.append(f"broker {broker.id} is disconnected")
            if f"/brokers/ids/{broker.id}" not in self.client.nodes:
                problems.append(f"broker {broker.id} is not registered")
        return problems


def play_on(cluster: object, folder: Path) -> k.Play:
    """Return a play on a stand-in, or a cluster; its run directory is `run` in the folder."""
    run = k.RunDirectory.create(folder / "run", run={}, scenario={})
    return k.Play(cluster=cast(Any, cluster), run=run, say=print)
