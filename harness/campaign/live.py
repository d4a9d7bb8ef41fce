"""A live run: a test, or a command's faults, take steps one by one, and the verdict comes last."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any, Literal, Self

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.results import Results
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.segments.batch import Record, payload_digest
from kchaos.clusters.errors import MetadataUnavailable
from kchaos.clusters.metadata.api import ClusterMetadata, LeaderAndIsr
from kchaos.clusters.start.jvm_cluster import JvmCluster
from kchaos.faults.api import Fault, Injection
from kchaos.harness.campaign.campaign import judged
from kchaos.harness.errors import HarnessError, RunUnknown, ScenarioError
from kchaos.harness.gates.gates import check_causes_of_death
from kchaos.harness.gates.replication import log_ends
from kchaos.harness.play.client_lines import short_text
from kchaos.harness.run.ending import PLANNED, finish
from kchaos.harness.run.runner import RunOptions, begin, perform
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.run.settings import unread_now
from kchaos.harness.run.steps_checked import check_steps
from kchaos.harness.steps.clients import AwaitAnswer, Produce, Read
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.scenario_steps import CreateTopic, Heal, Inject, Step


class Chaos:
    """One live run on a running cluster.

    Every call is performed as a scenario's step is, waits at the same gate, and is written into
    the run directory; `kchaos replay RUN` plays the same steps again. What its user, a test or
    `kchaos up`, does to the cluster in other ways is not in the model's prediction. A step that
    fails raises, and makes the run unknown.

    Attributes:
        cluster: The cluster; stopped by `verdict`.
        seed: Recorded in the run.
        random: A generator seeded by it, for whatever its user draws.
    """

    def __init__(
        self,
        cluster: JvmCluster,
        scenario: Scenario,
        *,
        options: RunOptions,
        started: float,
        say: Callable[[str], None],
    ) -> None:
        self.cluster = cluster
        self.seed = scenario.seed
        self.random = random.Random(self.seed)
        self._scenario = replace(scenario, cluster=cluster.spec, steps=())
        self._started = started
        self._settle_bound_s = options.settle_bound_s
        self._play = begin(self._scenario, cluster, options=options, started=started, say=say)
        self._failure: Exception | None = None
        self._failed_step = 0
        self._results: Results | None = None
        self._is_over = False
        # The cluster's start has told of what it starts with.
        self._unread = unread_now(cluster)
        self._names: dict[str, int] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses for clients of one's own, as their setting `bootstrap.servers` wants them.

        They go through links: what such a client is acknowledged and reads is judged.
        """
        return ",".join(self.cluster.bootstrap_servers)

    # -- steps ------------------------------------------------------------------------------

    def perform(self, *steps: Step) -> None:
        """Perform steps, one after another; see `harness.steps.scenario_steps` for all kinds.

        Raises:
            AwaitTimeout: A gate did not hold in time.
            ClusterError, FaultError, HarnessError: It could not be done.
        """
        for step in steps:
            self._perform(step)

    def _perform(self, step: Step) -> None:
        if self._is_over:
            raise ScenarioError(
                f"the run has ended (verdict() ends it); {type(step).__name__} comes too late"
            )
        index = len(self._scenario.steps)
        scenario = replace(self._scenario, steps=(*self._scenario.steps, step))
        # Before it is performed: the run that a step kills can be replayed as well.
        self._play.run.write("scenario.json", scenario.to_json(), replace=True)
        self._scenario = scenario
        try:
            perform(self._play, index, step)
        except PLANNED as error:
            self._fail(index, error)
            raise
        except Exception as error:
            self._fail(index, HarnessError(f"{step}: {error!r}"))
            raise
        finally:
            self._tell_unread()

    def attempt(self, step: Step) -> str:
        """Perform a step if it is possible; return why it was not, or "".

        One that turns out to be impossible is noted, and leaves the run as it was.

        Raises:
            ScenarioError: No cluster of this kind could take such a step; nothing is noted.
            AwaitTimeout, ClusterError, FaultError, HarnessError: The run is unknown from now on.
        """
        tried = IfPossible(do=step)
        check_steps(replace(self._scenario, steps=(tried,)))
        self.perform(tried)
        if self._play.why_not and isinstance(step, Heal):
            self._play.has_failed_heal = True
        return self._play.why_not

    def _tell_unread(self) -> None:
        """Report brokers that others cannot read after a roll."""
        before, self._unread = self._unread, unread_now(self.cluster)
        if self._unread not in ("", before):
            self._play.say(self._unread)

    def give_up(self, error: Exception) -> None:
        """Record what went wrong after the last step; the run is unknown from now on."""
        self._fail(len(self._scenario.steps) - 1, error)

    def _fail(self, index: int, error: Exception) -> None:
        """Record the first failure, which makes the run unknown even if it is caught."""
        if self._failure is None:
            self._failure, self._failed_step = error, index

    def create_topic(
        self,
        topic: str,
        *,
        replicas: Sequence[int] | Sequence[Sequence[int]],
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic with this assignment; return when every replica is in sync.

        `replicas` are broker ids, preferred replica first, or such a list for each partition.

        Raises:
            ScenarioError: A broker does not exist.
        """
        assignment = _assignment(replicas)
        strangers = {broker for ids in assignment for broker in ids} - set(self.cluster.brokers)
        if strangers or not all(assignment) or not assignment:
            raise ScenarioError(
                f"topic {topic!r} cannot have the replicas {replicas}: the brokers are "
                f"{sorted(self.cluster.brokers)}"
            )
        settings = tuple((name, str(value)) for name, value in (configuration or {}).items())
        self.perform(CreateTopic(topic=topic, assignment=assignment, configuration=settings))

    def produce(
        self,
        topic: str,
        *,
        partition: int = 0,
        records: int = 1,
        acks: int | str = "all",
        broker: int | None = None,
        operation: str | None = None,
        **more: Any,
    ) -> str:
        """Write one batch of known records; return the operation's name once it is acknowledged.

        `acks` is 1 or "all". `broker` is by default the leader. `operation` is a new name in this
        run, by default a number. `more` has fields of `steps.clients.Produce`, such as
        `await_answer=False`.

        Raises:
            ScenarioError: It was answered with an error, or there is no leader.
            AwaitTimeout: It was not answered in time.
        """
        name = operation or self.new_name("produce")
        self.perform(
            Produce(
                operation=name,
                topic=topic,
                partition=partition,
                records=records,
                acks=_acks(acks),
                broker=broker,
                **more,
            )
        )
        return name

    def await_answer(self, operation: str, *, accept_error: bool = False) -> None:
        """Wait for the response to a produce with `await_answer=False`."""
        self.perform(AwaitAnswer(operation=operation, accept_error=accept_error))

    def read(
        self,
        topic: str,
        *,
        partition: int = 0,
        records: int = 1,
        offset: int = 0,
        broker: int | None = None,
        operation: str | None = None,
        value: bytes | str | EllipsisType | None = ...,
        key: bytes | str | None = None,
        client: str = "",
        at: float | None = None,
    ) -> str:
        """Read at least this many records with a consumer; return the operation's name.

        What a consumer has read is promised from then on, however it was acknowledged.

        With `value` nobody is asked: the caller says that a consumer of its own read that record at
        that offset. `key`, `client` and `at` are as those of `acknowledged`.

        `offset` is the first to read, inclusive. `broker` is by default the leader. `operation` is
        a new name in this run, by default a number.

        Raises:
            AwaitTimeout: So many were not below the high watermark in time.
            ScenarioError: The caller says what no consumer can have read, or half of it.
        """
        if not isinstance(value, EllipsisType):
            if records != 1 or broker is not None or operation is not None:
                raise ScenarioError(
                    "read: with a value the test says what its own consumer read, one record each "
                    "time, and records, broker and operation mean nothing"
                )
            return self._say("read", topic, partition, offset, value, key, 1, client, at)
        if key is not None or client or at is not None:
            raise ScenarioError("read: key, client and at need the value that was read")
        name = operation or self.new_name("read")
        self.perform(
            Read(
                operation=name,
                topic=topic,
                partition=partition,
                records=records,
                offset=offset,
                broker=broker,
            )
        )
        return name

    def acknowledged(
        self,
        topic: str,
        *,
        partition: int = 0,
        offset: int,
        value: bytes | str | None,
        key: bytes | str | None = None,
        acks: int | str = "all",
        client: str = "",
        at: float | None = None,
    ) -> str:
        """Record that one's own client had a record acknowledged; return the operation's name.

        It is for clients that links cannot see: encrypted ones, those of a newer version than
        kchaos knows, or all with `client_links=False`. The record is promised from then on, as one
        that a link saw. What nobody says is not judged; a record on disk of which nobody says
        anything leaves the run unknown, and so does what links saw otherwise.

        `value` and `key` are as sent: text in UTF-8, None for null. `acks` is 1 or "all". `client`
        is a name for reports. `at` is the time of the response, as `time.time()`; without it each
        unclean election and each disk fault is assumed to have come later.

        Raises:
            ScenarioError: It is nothing that a client can have been answered.
        """
        return self._say("produce", topic, partition, offset, value, key, _acks(acks), client, at)

    def _say(
        self,
        function: Literal["produce", "read"],
        topic: str,
        partition: int,
        offset: int,
        value: bytes | str | None,
        key: bytes | str | None,
        acks: int,
        client: str,
        at: float | None,
    ) -> str:
        """Record the caller's statement on its own client."""
        if self._is_over:
            raise ScenarioError("the run has ended (verdict() ends it): say it before that")
        name = self.new_name("acknowledged" if function == "produce" else "told-read")
        _refuse_what_no_client_is_told(name, topic, partition, offset, value, key, client)
        now = time.time()
        if at is not None and not self._started - 1 <= at <= now + 1:
            raise ScenarioError(
                f"{name}: {at} is not between the beginning of the run ({self._started}) and now "
                f"({now}); `at` is what time.time() said when the answer came"
            )
        content, named = _bytes_of(value), _bytes_of(key)
        record = Record(offset=offset, timestamp=-1, key=named, value=content)
        text = short_text(content)
        self._play.recorder.history(
            name,
            "said",
            function=function,
            topic=topic,
            partition=partition,
            acks=acks,
            base_offset=offset,
            payloads=(payload_digest([record]),),
            keys=() if named is None else (named.decode(errors="backslashreplace"),),
            values=() if text is None else (text,),
            client=client,
            answered_at=at,
        )
        return name

    def inject(self, fault: Fault, *, name: str | None = None) -> "ActingFault":
        """Inject at once; return when the fault's effect is observed.

        As a context manager it heals on leaving; otherwise it acts until `heal` or the end.
        """
        called = name or self.new_name(type(fault).__name__)
        self.perform(Inject(name=called, fault=fault))
        return ActingFault(self, called, self._play.faults.injections[called])

    def heal(self, name: str) -> None:
        """Heal the fault with that name; return when the recovery is observed.

        Raises:
            ScenarioError: Nothing acts under that name.
        """
        self.perform(Heal(name=name))

    def is_acting(self, name: str) -> bool:
        """Return whether a fault of that name acts; none does after the run."""
        return not self._is_over and name in self._play.faults.acting

    # -- what is so now ---------------------------------------------------------------------

    def state(self, topic: str, partition: int = 0) -> LeaderAndIsr | None:
        """Return the last decided leader, leader epoch and ISR, or None without the partition.

        It is read from ZooKeeper, or from the controllers' log: a broker may not know of it yet.

        Raises:
            ScenarioError: The run is over, and with it the cluster.
            MetadataUnavailable: Nobody answers.
        """
        return self._metadata().state(topic, partition)

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Return the leader's id, or None without a leader. Raises as `state`."""
        state = self.state(topic, partition)
        return None if state is None or state.leader < 0 else state.leader

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """Return the ISR, ascending; empty without the partition. Raises as `state`."""
        state = self.state(topic, partition)
        return () if state is None else tuple(sorted(state.isr))

    def ends(self, topic: str, partition: int = 0) -> dict[int, int]:
        """Return each replica's log end offset on disk by broker, exclusive. Raises as `state`."""
        self._metadata()
        ends = log_ends(self._play, TopicPartition(topic, partition))
        return {int(broker): end for broker, end in ends.items()}

    @property
    def registered(self) -> tuple[int, ...]:
        """The brokers that are registered and not fenced, ascending. Raises as `state`."""
        return tuple(sorted(self._metadata().registered()))

    @property
    def controller(self) -> int | None:
        """The controller's id; None while there is none. Raises as `state`."""
        return self._metadata().controller()

    @property
    def acting(self) -> tuple[str, ...]:
        """The names of the faults that act, the oldest first."""
        return () if self._is_over else tuple(self._play.faults.acting)

    @property
    def has_failed(self) -> bool:
        """Whether a step has made the run unknown."""
        return self._failure is not None

    def injection(self, name: str) -> Injection:
        """Return what was observed of the last fault that was injected under that name."""
        return self._play.faults.injections[name]

    def check(self) -> None:
        """Check that nothing outside Kafka has ended a broker.

        Raises:
            BrokerExited: One was.
        """
        check_causes_of_death(self._play)

    def topics(self) -> Mapping[str, Sequence[int]]:
        """Return the partitions of each topic, Kafka's own ones left out. Raises as `state`."""
        metadata = self._metadata()
        named = (topic for topic in metadata.topics() if not is_internal(topic))
        return {topic: sorted(metadata.assignment(topic)) for topic in sorted(named)}

    def _metadata(self) -> ClusterMetadata:
        if self._is_over:
            raise ScenarioError("the run has ended, and its cluster was stopped: ask before that")
        return self.cluster.metadata

    def __str__(self) -> str:
        """Describe the current state, a line each: brokers, controller, faults and partitions."""
        if self._is_over:
            return f"run {self.path}, which has ended"
        try:
            return "\n".join(self._lines())
        except MetadataUnavailable as error:
            return f"run {self.path}; nobody says what is decided: {error}"

    def _lines(self) -> Iterator[str]:
        running = [broker.id for broker in self.cluster.brokers.values() if broker.is_running]
        yield f"run {self.path}"
        yield f"brokers: {_ids(running)} run, {_ids(self.registered)} are registered"
        controller = self.controller
        yield f"controller: {'none' if controller is None else controller}"
        yield f"faults: {', '.join(self.acting) or 'none act'}"
        for topic in self._metadata().topics():
            for partition in self._metadata().assignment(topic):
                ends = self.ends(topic, partition).items()
                told = ", ".join(f"{broker} at {end}" for broker, end in ends)
                yield f"{topic}-{partition}: {self.state(topic, partition)}, logs end: {told}"

    # -- the end ----------------------------------------------------------------------------

    def verdict(self) -> Results:
        """End the run, stop the cluster and judge, once; return the results.

        Whatever still acts is healed, replicas settle, every log is collected, the run is sealed
        and judged, and the report is written.

        Raises:
            RunUnknown: Nobody can say whether it is safe; the message says why. Unknown is never
                a pass, so a test cannot take it for "not safe".
        """
        results = self.end()
        if results.safe is None:
            raise RunUnknown(f"{results.unknown or results.reason}; see {self.path}")
        return results

    def end(self) -> Results:
        """Return the results as `verdict`, unknown ones too."""
        if self._results is None:
            if self._is_over:
                raise RunUnknown(f"the run {self.path} could not be ended")
            self._is_over = True
            if self._failure is not None:
                self._play.recorder.step = self._failed_step
            run = finish(
                self._play,
                started=self._started,
                failure=self._failure,
                settle_bound_s=self._settle_bound_s,
            )
            self._results = judged(run, self._play.say)
        return self._results

    def abandon(self) -> None:
        """Heal acting faults and leave the run unsealed, unless it has ended."""
        if not self._is_over:
            self._is_over = True
            self._play.watch.stop()
            self._play.kill_clients()
            self._play.run.let_go()
            self._play.faults.heal_all()

    @property
    def results(self) -> Results | None:
        """The results once the run was judged."""
        return self._results

    @property
    def run(self) -> RunDirectory:
        """The run directory."""
        return self._play.run

    @property
    def path(self) -> Path:
        """Where the run directory is."""
        return self._play.run.path

    def new_name(self, kind: str) -> str:
        """Return the kind with its next number in this run."""
        self._names[kind] = self._names.get(kind, 0) + 1
        return f"{kind}-{self._names[kind]}"


class ActingFault:
    """A fault that acts.

    Attributes:
        name: What it is healed by.
        injection: What was observed before, and what showed that it took effect.
    """

    def __init__(self, chaos: Chaos, name: str, injection: Injection) -> None:
        self._chaos = chaos
        self.name = name
        self.injection = injection

    def heal(self) -> None:
        """Heal the fault, unless it is healed; return when the recovery is observed."""
        if self._chaos.is_acting(self.name):
            self._chaos.heal(self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


def _ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _assignment(replicas: Sequence[int] | Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    lists = [replicas] if replicas and isinstance(replicas[0], int) else replicas
    return tuple(tuple(ids) for ids in lists)  # type: ignore[arg-type]


def _refuse_what_no_client_is_told(
    name: str, topic: object, partition: object, offset: object, *texts: object
) -> None:
    """Refuse a topic, a partition, an offset, or a value, key and client's name that none can be.

    Raises:
        ScenarioError: The message names it.
    """
    if not isinstance(topic, str) or not topic:
        raise ScenarioError(f"{name}: a topic is a text that is not empty, not {topic!r}")
    if is_internal(topic):
        raise ScenarioError(f"{name}: {topic!r} is a topic of Kafka's own, which is not judged")
    for what, number in (("partition", partition), ("offset", offset)):
        if type(number) is not int or number < 0:
            raise ScenarioError(f"{name}: {what} is a whole number from 0 on, not {number!r}")
    for what, text in zip(("value", "key", "client"), texts, strict=True):
        if not isinstance(text, bytes | str) and (text is not None or what == "client"):
            raise ScenarioError(f"{name}: {what} is bytes, a text or None, not {text!r}")


def _bytes_of(text: bytes | str | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _acks(acks: int | str) -> int:
    known = {"all": -1, "-1": -1, -1: -1, "1": 1, 1: 1}
    if acks not in known:
        raise ScenarioError(f'acks must be 1 or "all", not {acks!r}')
    return known[acks]
