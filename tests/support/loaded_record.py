"""A record of brokers under load as links and clients would show it, drawn from a seed.

The machine itself plays it: three brokers lead the partitions in turn, a client has one request in
flight to each of them, and each follower fetches in a session. Links leave out what they leave out
of a run: a Fetch that repeats the one before, and an answer that says nothing new.
"""

from dataclasses import dataclass, field, replace
from random import Random

import tests.support.model as m
from kchaos.checkers.model.broker import exchange, leader
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.settle.predict import left_alone_after

BROKERS = (0, 1, 2)
_STEP_S = 0.0001


def loaded_record(produces: int, *, partitions: int = 6, seed: int = 0) -> Record:
    """Return a record of so many produces, each of one batch of one to five records."""
    beginning = _beginning(partitions)
    load = _Load(state=_begun(beginning), partitions=partitions, draw=Random(seed))
    load.seen += beginning.seen
    load.play(produces)
    return replace(beginning, seen=tuple(load.seen), behind=load.behind)


def _beginning(partitions: int) -> Record:
    """Return how three brokers start and hear of a topic with replicas on each of them."""
    decided: list[m.Decided] = []
    seen: list[m.Seen] = []

    def decide(
        what: m.BrokerRegistered | m.ControllerElected | m.TopicCreated | m.PartitionState,
    ) -> None:
        time = 0.01 * (len(decided) + 1)
        decided.append(m.Decided(what=replace(what, zxid=len(decided) + 1), time=time))

    for broker in BROKERS:
        started = m.StartBroker(broker=broker, release="3.9.1")
        seen.append(m.Seen(what=started, time=0.001, zxid=0, source=f"actions.jsonl:{broker + 1}"))
        decide(m.BrokerRegistered(broker=broker, czxid=broker + 1))
    decide(m.ControllerElected(broker=0))
    replicas = [BROKERS[number % 3 :] + BROKERS[: number % 3] for number in range(partitions)]
    decide(m.TopicCreated(topic="t", assignment=tuple(replicas)))
    states = tuple(
        m.PartitionState(
            topic="t",
            partition=number,
            leader=replicas[number][0],
            leader_epoch=0,
            isr=BROKERS,
            controller_epoch=1,
            version=0,
        )
        for number in range(partitions)
    )
    for state in states:
        decide(state)
    told = frozenset(m.TopicPartition("t", number) for number in range(partitions))
    for broker in BROKERS:
        for correlation, api in enumerate(("UpdateMetadata", "LeaderAndIsr")):
            number = (broker + 1, correlation)
            is_last = api == "LeaderAndIsr"
            what = m.ControlSent(
                number=number,
                api=api,
                controller=0,
                controller_epoch=1,
                broker=broker,
                broker_epoch=broker + 1,
                states=states if is_last else (),
                new=told if is_last else frozenset(),
                live=None if is_last else frozenset(BROKERS),
                told=told,
            )
            answered = m.ControlAnswered(
                number=number,
                api=api,
                broker=broker,
                error_code=0,
                errors=dict.fromkeys(told, 0) if is_last else {},
            )
            seen += [m.Seen(what=each, time=1 + 0.01 * len(seen)) for each in (what, answered)]
    return Record(seen=tuple(seen), decided=tuple(decided), lag_s=600.0, fetch_timeout_s=600.0)


def _begun(beginning: Record) -> m.State:
    """Return the state in which all have heard of the topic and nobody has fetched."""
    state = m.EMPTY
    started = [item.what for item in beginning.seen if isinstance(item.what, m.StartBroker)]
    for event in (*started, *(decided.what for decided in beginning.decided)):
        state, _ = left_alone_after(state, event, {})
    world = m.World(state)
    for follower in BROKERS:
        for source in world.leaders(follower):
            thread = world.thread(follower, source)
            assert thread is not None
            world.put_thread(follower, source, replace(thread, session=None))
            world.put_exchanges(follower, source, ())
    return world.state(state)


@dataclass(slots=True)
class _Load:
    """Brokers and a client as they go on, with what links and the client saw."""

    state: m.State
    partitions: int
    draw: Random
    time: float = 2.0
    seen: list[m.Seen] = field(default_factory=list)
    behind: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sequences: dict[m.TopicPartition, int] = field(default_factory=dict)
    last: dict[int, str] = field(default_factory=dict)
    waiting: dict[str, m.Produce] = field(default_factory=dict)
    unread: list[m.Produce] = field(default_factory=list)
    asked: dict[tuple[int, int, m.TopicPartition], m.FetchAsked] = field(default_factory=dict)
    told: dict[tuple[int, int, m.TopicPartition], int] = field(default_factory=dict)
    sent: dict[tuple[int, int], int] = field(default_factory=dict)

    def play(self, produces: int) -> None:
        leaders = BROKERS[: self.partitions]
        pairs = [(follower, source) for source in leaders for follower in BROKERS]
        pairs = [pair for pair in pairs if pair[0] != pair[1]]
        left = produces
        while left or self.waiting:
            idle = [broker for broker in leaders if self.last.get(broker) not in self.waiting]
            if left and idle and self.draw.random() < 0.3:
                self._produce(self.draw.choice(idle))
                left -= 1
            elif self.unread and self.draw.random() < 0.5:
                world = m.World(self.state)
                leader.produce(world, self.unread.pop(0))
                self._after(world)
            else:
                self._fetcher(*self.draw.choice(pairs))

    def _see(self, what: m.Produce | m.ClientAnswered | m.RequestSeen | m.ResponseSeen) -> None:
        self.time += _STEP_S
        source = f"line:{len(self.seen) + 1}"
        self.seen.append(m.Seen(what=what, time=self.time, source=source))

    def _produce(self, broker: int) -> None:
        led = range(broker, self.partitions, len(BROKERS))
        partition = m.TopicPartition("t", self.draw.choice(led))
        operation, records = f"produce-{len(self.seen)}", self.draw.randint(1, 5)
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + records
        produce = m.Produce(
            operation=operation,
            broker=broker,
            topic="t",
            partition=partition.partition,
            records=tuple(f"{sequence + index:016x}" for index in range(records)),
            acks=-1,
            is_digested=True,
            producer=m.ProducerMark(producer_id=7, producer_epoch=0, base_sequence=sequence),
        )
        if broker in self.last:
            self.behind[operation] = (self.last[broker],)
        self.last[broker], self.waiting[operation] = operation, produce
        self.unread.append(produce)
        world = m.World(self.state)
        world.answer(m.PredictedProduce(operation=operation, acknowledged=None, base_offset=-1))
        self.state = world.state(self.state)
        self._see(produce)

    def _fetcher(self, follower: int, source: int) -> None:
        """Let a fetcher's request take its next step."""
        world = m.World(self.state)
        request = exchange.awaited(world, follower, source)
        if request is None:
            self._ask(world, follower, source)
        elif request.stage is m.Stage.ARRIVED:
            exchange.read(world, follower, source, request)
        elif request.stage is m.Stage.WAITING:
            after = exchange.answer_waiting(world, follower, source, request)
            if not any(self._is_news(follower, source, *answer) for answer in after.answers):
                return
        elif request.stage is m.Stage.ANSWERED:
            self._answer(world, follower, source, request)
        elif request.stage is m.Stage.DELIVERED:
            exchange.handle(world, follower, source, request)
        self._after(world)

    def _ask(self, world: m.World, follower: int, source: int) -> None:
        question = exchange.question(world, follower, source, exchange.FETCH)
        assert question is not None
        correlation = self.sent.get((follower, source), 0)
        named: dict[m.TopicPartition, m.FetchAsked] = {}
        for partition, asks in question.asked:
            asked = m.FetchAsked(
                fetch_offset=asks.fetch_offset,
                leader_epoch=asks.leader_epoch,
                last_fetched_epoch=asks.requested_epoch,
                log_start_offset=0,
            )
            if self.asked.get((follower, source, partition)) != asked:
                named[partition] = self.asked[follower, source, partition] = asked
        self.sent[follower, source] = correlation + 1
        number = (10 + 3 * source + follower, correlation)
        exchange.send(
            world, follower, source, replace(question, number=number, stage=m.Stage.ARRIVED)
        )
        if named:
            self._see(
                m.RequestSeen(
                    number=number,
                    fate=m.Fate.ARRIVES,
                    api=exchange.FETCH,
                    follower=follower,
                    leader=source,
                    partitions=named,
                    is_full=correlation == 0,
                    version=17,
                )
            )

    def _is_news(
        self, follower: int, source: int, partition: m.TopicPartition, answer: object
    ) -> bool:
        assert isinstance(answer, m.FetchAnswer)
        told = self.told.get((follower, source, partition))
        return bool(answer.batches) or answer.high_watermark != told

    def _answer(self, world: m.World, follower: int, source: int, request: m.Exchange) -> None:
        news: dict[m.TopicPartition, m.FetchAnswered] = {}
        for partition, answer in request.answers:
            if self._is_news(follower, source, partition, answer):
                assert isinstance(answer, m.FetchAnswer)
                self.told[follower, source, partition] = answer.high_watermark
                batches = answer.batches
                news[partition] = m.FetchAnswered(
                    error_code=0,
                    high_watermark=answer.high_watermark,
                    base_offset=batches[0].base_offset if batches else None,
                    last_offset=batches[-1].last_offset if batches else None,
                    first_leader_epoch=batches[0].leader_epoch if batches else None,
                    last_leader_epoch=batches[-1].leader_epoch if batches else None,
                    log_start_offset=0,
                )
        exchange.change(world, follower, source, request, replace(request, stage=m.Stage.DELIVERED))
        if news:
            assert request.number is not None
            self._see(
                m.ResponseSeen(
                    number=request.number,
                    fate=m.Fate.ARRIVES,
                    api=exchange.FETCH,
                    follower=follower,
                    leader=source,
                    partitions=news,
                    has_room=True,
                )
            )

    def _after(self, world: m.World) -> None:
        """Take a step over, and answer the clients whose records are replicated by it."""
        done = [
            note.operation
            for note in world.notes
            if isinstance(note, m.PredictedProduce) and note.acknowledged
        ]
        for note in world.notes:
            if isinstance(note, m.PredictedProduce) and note.acknowledged:
                world.put(("answer", note.operation), None)
                self._see(
                    m.ClientAnswered(
                        operation=note.operation,
                        outcome="ok",
                        base_offset=note.base_offset,
                        error="",
                    )
                )
        for operation in done:
            del self.waiting[operation]
        self.state = world.state(self.state)
