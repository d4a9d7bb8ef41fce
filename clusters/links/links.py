"""The links of one cluster: listening sockets, rules, records."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from ipaddress import IPv4Network, ip_address
from typing import Self

from kchaos.checkers import acts
from kchaos.checkers.acts import Direction, ForgeAnswers
from kchaos.checkers.formats.link_record import LinkRecord
from kchaos.clusters.errors import LinkError, RuleRefused
from kchaos.clusters.links.client_talk import ClientJournal, ClientSink, ClientTalk
from kchaos.clusters.links.conversation import Conversation, Endpoint, RelayContext
from kchaos.clusters.links.details import TopicNames
from kchaos.clusters.links.fetches import Fetches
from kchaos.clusters.links.records import LinkCounts, LinkJournal, LinkKey
from kchaos.clusters.links.relay import Connection
from kchaos.clusters.links.rules import Cut, Disturbance, Forgery, Hold, Match, Rule, Rules
from kchaos.clusters.system.standstill import awake_s

_BARRIER_S = 1.0
"""So long a rule waits for what passes already, by a clock that stands with a slow machine."""
_LOOK_S = 0.1
_CLOSE_S = 15.0
_CLIENTS_HOST = "127.0.0.1"
_NICER_BY = 10


class Links:
    """TCP relays in front of the brokers' internal listeners, and of ZooKeeper or the controllers.

    They listen on ``host``, an address of this machine that the brokers reach. Connections that
    do not come from ``guests`` are closed at once; None takes all.

    Every method may be called from any thread. When a method that installs a rule has returned,
    no message that it matches passes any more. Rules: cuts first, then holds in the order in which
    they were installed; the first that matches decides.

    The pumps are threads of this process: one that computes beside them without a pause delays each
    message by up to the interpreter's switch interval (5 ms). Where the process may, as root may,
    they get a processor before other threads do.
    """

    def __init__(self, *, host: str = "127.0.0.1", guests: IPv4Network | None = None) -> None:
        self._host = host
        self._guests = guests
        self._rules = Rules()
        self._topics = TopicNames()
        self._journal = LinkJournal()
        self._context = RelayContext(rules=self._rules, journal=self._journal, topics=self._topics)
        self._client_journal = ClientJournal(lambda: self._journal.next_sequence)
        self._client_context = RelayContext(
            rules=Rules(), journal=self._journal, topics=self._topics
        )
        self._lock = threading.Lock()
        self._listeners: list[socket.socket] = []
        self._acceptors: list[threading.Thread] = []
        self._connections: set[Connection] = set()
        self._last_number = 0
        self._brokers: dict[int, tuple[str, int]] = {}
        self._clients: dict[int, tuple[str, int]] = {}
        self._zookeeper_sources: set[int] = set()
        self._is_closed = False

    # --- making links

    def add_broker(self, broker_id: int, target: tuple[str, int]) -> tuple[str, int]:
        """Listen in front of a broker's internal listener; return (host, port) to advertise.

        The target need not be up: while it refuses connections, those made here are reset.
        Raises LinkError when the broker has a link already.
        """
        if broker_id in self._brokers:
            raise LinkError(f"broker {broker_id} has a link already: {self._brokers[broker_id]}")
        address = self._listen(Endpoint(target=broker_id, source=None, address=target))
        self._brokers[broker_id] = address
        return address

    def add_clients(self, broker_id: int, target: tuple[str, int]) -> tuple[str, int]:
        """Listen in front of a broker's client listener; return (host, port) to advertise.

        Clients of this machine alone reach it. What they are answered goes to the sink of
        `set_client_sink`, in one order with the records of the brokers' links. No rule of the
        brokers' links concerns it.
        """
        endpoint = Endpoint(target=broker_id, source=None, address=target, is_for_clients=True)
        address = self._clients[broker_id] = self._listen(endpoint)
        return address

    @property
    def client_addresses(self) -> dict[int, tuple[str, int]]:
        """Where the links for clients listen, by broker; empty without any."""
        return dict(self._clients)

    def set_client_sink(self, sink: ClientSink) -> None:
        """Hand each decisive message of a client and its answer to the sink, from now on."""
        self._client_journal.set_sink(sink)

    def topic_named(self, topic: str | bytes) -> str | None:
        """Return the name of a topic by its 16-byte id, or None if no message had it."""
        return self._topics.name_of(topic)

    def ask_for_topics(self, ask: Callable[[str], str | None]) -> None:
        """Have the name of each topic id that is not known asked for; see ``TopicNames``."""
        self._topics.ask = ask

    def add_controller(
        self, controller_id: int, target: tuple[str, int], *, is_broker: bool = False
    ) -> tuple[str, int]:
        """Listen in front of a KRaft controller; return (host, port) for all its peers.

        Every node names it in ``controller.quorum.voters``, and the controller advertises it from
        3.9 on: there a new leader tells where it listens. Its rules name controllers by their ids,
        as they do brokers: those of a combined node, which `is_broker`, concern both of its roles.
        """
        if not is_broker:
            return self.add_broker(controller_id, target)
        return self._listen(Endpoint(target=controller_id, source=None, address=target))

    def address_of(self, broker_id: int) -> tuple[str, int]:
        """Return the address of the link in front of a broker."""
        self._check_brokers(broker_id)
        return self._brokers[broker_id]

    def add_zookeeper(self, broker_id: int, target: tuple[str, int]) -> tuple[str, int]:
        """Listen for one broker's connections to one ZooKeeper member; return (host, port)."""
        self._zookeeper_sources.add(broker_id)
        return self._listen(Endpoint(target=None, source=broker_id, address=target))

    def set_sink(
        self, sink: Callable[[LinkRecord], None] | None, *, since: int | None = None
    ) -> None:
        """Replace the sink; records from now on go there. A failure of the old one is forgotten.

        It is called with each record, in order, and should be quick. If it raises, the records
        that follow do not reach it, and `check`, `await_record` and `close` raise LinkError.

        With ``since`` the sink first gets the kept records from that sequence number on, and none
        comes twice, is missed or out of order; what it raises then is raised here.
        """
        self._journal.set_sink(sink, since)

    def close(self) -> None:
        """End every connection and listener and wait for their threads. Safe to call twice.

        Raises LinkError when a thread does not end, or when the sink has failed.
        """
        with self._lock:
            self._is_closed = True
            listeners, self._listeners = self._listeners, []
            connections = list(self._connections)
        for listener in listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in connections:
            connection.reset()
        deadline = time.monotonic() + _CLOSE_S
        for thread in self._acceptors:
            thread.join(max(0.0, deadline - time.monotonic()))
        stuck = [
            connection.number
            for connection in connections
            if not connection.join(max(0.0, deadline - time.monotonic()))
        ]
        if stuck:
            raise LinkError(f"links {stuck} did not end in {_CLOSE_S} s; report this as a bug")
        self._journal.check()
        self._client_journal.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- rules

    def cut(self, act: acts.CutLink | acts.CutZooKeeper) -> Cut:
        """Cut two brokers from each other, or a broker from every ZooKeeper member.

        Raises RuleRefused for a broker without such a link, and for a name that a cut has already.
        """
        if isinstance(act, acts.CutLink):
            self._check_brokers(act.source, act.target)
        elif act.broker not in self._zookeeper_sources:
            known = sorted(self._zookeeper_sources)
            raise RuleRefused(f"broker {act.broker} has no ZooKeeper link; these have: {known}")
        if act.name in self.cuts:
            raise RuleRefused(f"a cut named {act.name!r} lasts already: name this one otherwise")
        cut = Cut(rules=self._rules, act=act)
        with self._installing(cut):
            if act.style != "silent":
                self._reset_covered(cut)
            return cut

    def hold(self, what: acts.Hold | Match) -> Hold:
        """Hold every message that matches until released.

        Raises RuleRefused for unknown brokers or APIs, and for a name that a hold has already.
        """
        act, match = (None, what) if isinstance(what, Match) else (what, Match.of(what))
        self._check_brokers(match.source, match.target)
        if act is not None and act.name in self.holds:
            raise RuleRefused(f"a hold named {act.name!r} lasts already: name this one otherwise")
        hold = Hold(rules=self._rules, match=match, act=act)
        with self._installing(hold):
            return hold

    @property
    def cuts(self) -> dict[str, acts.CutLink | acts.CutZooKeeper]:
        """The cuts that last, by name."""
        return {cut.act.name: cut.act for cut in self._rules.cuts}

    @property
    def holds(self) -> dict[str, acts.Hold]:
        """The named holds that last, by name."""
        rules = [rule.act for rule in self._rules.holds]
        return {act.name: act for act in rules if act is not None}

    def forge(self, act: ForgeAnswers) -> Forgery:
        """Replace a leader's answers to one broker's OffsetForLeaderEpoch by an error until ended.

        Raises RuleRefused for unknown brokers or errors, and for a name that a forgery has already.
        """
        self._check_brokers(act.source, act.target)
        if act.name in self.forgeries:
            raise RuleRefused(
                f"a forgery named {act.name!r} lasts already: name this one otherwise"
            )
        forgery = Forgery(rules=self._rules, act=act)
        with self._installing(forgery):
            return forgery

    @property
    def forgeries(self) -> dict[str, ForgeAnswers]:
        """The forgeries that last, by name."""
        return {forgery.act.name: forgery.act for forgery in self._rules.forgeries}

    def disturb(self, act: acts.DisturbClients) -> Disturbance:
        """Disturb clients until ended.

        Raises RuleRefused where there are no links for clients, for an unknown broker, and as
        `Disturbance` does.
        """
        if not self._clients or act.broker not in (None, *self._clients):
            raise RuleRefused(f"links for clients lead to the brokers {sorted(self._clients)}")
        rules = self._client_context.rules
        disturbance = Disturbance(rules=rules, act=act)
        with self._installing(disturbance, rules):
            return disturbance

    @property
    def disturbances(self) -> dict[str, acts.DisturbClients]:
        """The disturbances that last, by name."""
        return {each.act.name: each.act for each in self._client_context.rules.disturbances}

    def may_keep_back(self, source: int, target: int | None) -> bool:
        """Return whether a cut, hold or forgery may affect requests or responses of this pair.

        Without a target: what it asks of ZooKeeper.
        """
        directions: tuple[Direction, ...] = ("request", "response")
        return (
            any(
                cut.covers(source, target, direction)
                for cut in self._rules.cuts
                for direction in directions
            )
            or any(
                rule.match.source in (None, source) and rule.match.target in (None, target)
                for rule in self._rules.holds
                if target is not None
            )
            or any(
                (forgery.act.source, forgery.act.target) == (source, target)
                for forgery in self._rules.forgeries
            )
        )

    # --- records

    def counts(self) -> dict[LinkKey, LinkCounts]:
        """Return the numbers of messages by kind: passed, held, undecided or unread."""
        return self._journal.counts()

    @property
    def accepted(self) -> int:
        """Number of connections that came in, over all links."""
        return self._last_number

    @property
    def broken_streams(self) -> int:
        """Number of broker connections that stopped to speak Kafka's protocol; their bytes pass."""
        return self._journal.broken_streams

    @property
    def next_sequence(self) -> int:
        """The sequence number of the record to come: take it before an action, see `log`."""
        return self._journal.next_sequence

    def log(self, since: int = 0, *api_keys: int) -> list[LinkRecord]:
        """Return the records of these APIs, or of all, from ``since`` on (inclusive), oldest first.

        Fetches that say nothing new (no records, no error, the same offsets and high watermark as
        before on their connection) are counted and not recorded. The newest 50 000 of each API are
        kept; the sink gets them all.

        Raises LinkError when some of these records are no longer kept.
        """
        return self._journal.log(since, *api_keys)

    @property
    def fetches(self) -> Fetches:
        """The last fetches of each partition, however long ago they passed."""
        return self._journal.fetches

    def check(self) -> None:
        """Raise LinkError when a sink has failed."""
        self._journal.check()
        self._client_journal.check()

    def await_record(
        self,
        predicate: Callable[[LinkRecord], bool],
        timeout_s: float,
        waiting_for: str,
        *,
        since: int | None = None,
        abort: Callable[[], None] | None = None,
        api_keys: Collection[int] = (),
    ) -> LinkRecord:
        """Return the first record of these APIs, or of any, that fulfils the predicate.

        Looks at records from sequence number ``since`` on, without it at those after this call.
        Raises LinkError when some of them are no longer kept.
        ``abort`` is called several times a second and may raise (for instance BrokerExited).
        Raises AwaitTimeout when there is no such record within ``timeout_s`` seconds.
        """
        return self._journal.await_record(
            predicate,
            timeout_s=timeout_s,
            waiting_for=waiting_for,
            since=since,
            abort=abort,
            api_keys=api_keys,
        )

    # --- inside

    def _check_brokers(self, *broker_ids: int | None) -> None:
        for broker_id in broker_ids:
            if broker_id is not None and broker_id not in self._brokers:
                raise RuleRefused(
                    f"broker {broker_id} has no link; these have: {sorted(self._brokers)}"
                )

    def _reset_covered(self, cut: Cut) -> None:
        with self._lock:
            connections = list(self._connections)
        doomed = [
            connection
            for connection in connections
            if any(
                cut.covers(connection.source, connection.endpoint.target, flow.direction)
                for flow in connection.flows
            )
        ]
        for connection in doomed:
            connection.reset()
        deadline = awake_s() + _BARRIER_S
        for connection in doomed:
            _by(deadline, connection.join)

    @contextlib.contextmanager
    def _installing(self, rule: Rule, rules: Rules | None = None) -> Iterator[None]:
        """Install the rule, which stays after the block; remove it if the block raises.

        Ctrl-C may come before the caller has the rule in hand: then nobody else could remove it.
        """
        rules = rules or self._rules
        rules.install(rule)
        try:
            self._await_senders()
            yield
        except BaseException:
            rules.remove(rule)
            raise

    def _await_senders(self) -> None:
        # A pump decides and sends under its flow's lock. Having had each lock once, every message
        # that was let through before is on its way, and the next ones see the new rule. A sender
        # that a stopped process keeps waiting is not waited for: its message is on the wire.
        deadline = awake_s() + _BARRIER_S
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            for flow in connection.flows:
                if _by(deadline, partial(flow.lock.acquire, True)):
                    flow.lock.release()

    def _listen(self, endpoint: Endpoint) -> tuple[str, int]:
        host = _CLIENTS_HOST if endpoint.is_for_clients else self._host
        listener = socket.create_server((host, 0), backlog=128)
        with self._lock:
            if self._is_closed:
                listener.close()
                raise LinkError("the links are closed; make new ones")
            self._listeners.append(listener)
        target = "zookeeper" if endpoint.target is None else f"broker-{endpoint.target}"
        of_clients = "clients-" if endpoint.is_for_clients else ""
        thread = threading.Thread(
            target=self._accept,
            args=(listener, endpoint),
            name=f"link-{of_clients}{target}-accept",
            daemon=True,
        )
        self._acceptors.append(thread)
        thread.start()
        host, number = listener.getsockname()[:2]
        return str(host), int(number)

    def _accept(self, listener: socket.socket, endpoint: Endpoint) -> None:
        _run_before_others()
        while True:
            try:
                client, (host, port) = listener.accept()
            except ConnectionAbortedError:
                continue
            except OSError:
                if self._is_closed:
                    return
                raise
            guests = None if endpoint.is_for_clients else self._guests
            if guests is not None and ip_address(host) not in guests:
                # A gateway's address is reached from every network of this machine.
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._is_closed:
                    client.close()
                    return
                self._last_number += 1
                connection = self._connection(endpoint, client, (host, port))
                self._connections.add(connection)
                connection.start()

    def _connection(
        self, endpoint: Endpoint, client: socket.socket, address: tuple[str, int]
    ) -> Connection:
        talk: Conversation | ClientTalk
        context = self._client_context if endpoint.is_for_clients else self._context
        if endpoint.is_for_clients:
            talk = ClientTalk(
                number=self._last_number,
                endpoint=endpoint,
                journal=self._client_journal,
                address=address,
                name_of=self._topics.name_of,
            )
        else:
            talk = Conversation(number=self._last_number, endpoint=endpoint, context=context)
        return Connection(
            number=self._last_number,
            endpoint=endpoint,
            client=client,
            context=context,
            talk=talk,
            on_end=self._forget,
        )

    def _forget(self, connection: Connection) -> None:
        with self._lock:
            self._connections.discard(connection)


def _by(deadline: float, wait: Callable[[float], bool]) -> bool:
    """Return whether `wait`, which takes seconds, returned True before `deadline` of `awake_s`."""
    while True:
        left_s = deadline - awake_s()
        if wait(max(0.0, min(left_s, _LOOK_S))):
            return True
        if left_s <= 0:
            return False


def _run_before_others() -> None:
    """Raise the priority of this thread, and so of those that it starts, where the process may."""
    thread = threading.get_native_id()
    niceness = os.getpriority(os.PRIO_PROCESS, thread) - _NICER_BY
    # Without the right to it messages wait for a processor as those of any other program do.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, thread, niceness)
