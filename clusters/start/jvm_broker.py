"""One broker as a JVM, the same for every driver; where it runs is its place's business."""

import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.clusters.agent.byteman import Agent, Life, complaints
from kchaos.clusters.agent.gate import Gate
from kchaos.clusters.api import Injectable, Stage, Wire
from kchaos.clusters.ask.probe import answers, known_brokers
from kchaos.clusters.disk.mounting import Disk
from kchaos.clusters.errors import (
    AwaitTimeout,
    BrokerExited,
    ClusterError,
    MachineError,
    MetadataUnavailable,
)
from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.metadata.api import ClusterMetadata
from kchaos.clusters.releases import release_of
from kchaos.clusters.start.configuration import java_command, log4j_text, properties_text
from kchaos.clusters.start.log_directories import present
from kchaos.clusters.system.log_tail import why_it_ended
from kchaos.clusters.system.ports import ReservedPort, is_free
from kchaos.clusters.system.processes import Process
from kchaos.clusters.system.waiting import await_until

_METADATA_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPlace:
    """Where one broker lives and what the cluster decided for it.

    ``directory`` is its folder; ``client_port`` is where clients on this machine reach it and
    ``ports`` are all ports of 127.0.0.1 that it needs; ``distribution_of`` and ``java_of`` find
    the jars and the Java of a Kafka; ``base_properties`` returns its configuration before its own
    properties, for the Kafka and the stage it is started with; ``metadata`` is its cluster's;
    ``jvm_flags_of`` returns the flags for a Kafka that runs in a folder; ``spawn`` starts a
    command line, its console output appended to a file; ``wire`` is its network where the driver
    can take that away; ``agent`` is loaded into its JVM, None for no agent; ``disk`` is its own
    where that can be slow; ``gate`` is where both report; ``prepare`` makes its storage what a
    start with KRaft needs.
    """

    id: int
    directory: Path
    client_port: ReservedPort
    ports: tuple[ReservedPort, ...]
    capabilities: frozenset[type]
    heap_mib: int
    distribution_of: Callable[[str], Distribution]
    java_of: Callable[[Distribution], Path]
    base_properties: Callable[[Distribution, Stage], dict[str, str]]
    metadata: Callable[[], ClusterMetadata]
    jvm_flags_of: Callable[[Distribution, Path], Sequence[str]]
    spawn: Callable[[Sequence[str], Distribution, Path, Sequence[Path]], Process]
    wire: Wire | None = None
    agent: Agent | None = None
    disk: Disk | None = None
    gate: Gate | None = None
    role: Literal["broker", "controller"] = "broker"
    prepare: Callable[[], None] = lambda: None


@dataclass(slots=True)
class JvmBroker:
    """A broker of a JvmCluster; see ``clusters.api.Broker`` for what each name promises."""

    place: BrokerPlace
    kafka: str
    own_properties: dict[str, str]
    wanted_judged_as: str | None = None
    stage: Stage = "zookeeper"
    jvm_flags: tuple[str, ...] = ()
    _process: Process | None = None
    _distribution: Distribution | None = field(default=None, repr=False)
    _czxid_before: int = -1
    _lives: int = 0

    @property
    def id(self) -> int:
        """Its broker.id."""
        return self.place.id

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"{self.place.role} {self.id}"

    @property
    def distribution(self) -> Distribution:
        """The Kafka that it runs."""
        if self._distribution is None:
            self._distribution = self.place.distribution_of(self.kafka)
        return self._distribution

    @property
    def release(self) -> str:
        """The release that it runs."""
        return self.distribution.release

    @property
    def judged_as(self) -> str:
        """The release whose rules it is judged by."""
        return self.wanted_judged_as or release_of(self.release).judged_as

    @property
    def build(self) -> str:
        """Which build it runs, as ``Distribution.build`` has it, and the bugs planted in it."""
        planted = sorted(point for point in self.points if point.startswith(PLANTED))
        return "; ".join(filter(None, (self.distribution.build, *planted)))

    @property
    def pid(self) -> int | None:
        """Its process, None while there is none."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def client_address(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self.place.client_port.number}"

    @property
    def log_directory(self) -> Path:
        """Kafka's log.dir, or where its files are read without being slow."""
        disk = self.place.disk
        return Path(self.properties["log.dir"]) if disk is None else disk.files

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """Kafka's log.dirs, in their order, each where its files are now."""
        listed = self.properties.get("log.dirs")
        directories = map(Path, listed.split(",")) if listed else [self.log_directory]
        return tuple(present(directory) for directory in directories)

    @property
    def server_log(self) -> Path:
        """Its log lines, over all its starts."""
        return self.place.directory / "server.log"

    @property
    def console_log(self) -> Path:
        """File with its JVM's output to the terminal, over all its starts."""
        return self.place.directory / "console.log"

    @property
    def properties(self) -> Mapping[str, str]:
        """The whole configuration that it is started with."""
        return {**self.place.base_properties(self.distribution, self.stage), **self.own_properties}

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self._process is not None and self._process.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """Exit code of its last process."""
        return None if self._process is None else self._process.exit_code

    @property
    def cause_of_death(self) -> str:
        """Cause that ended its last process from outside Kafka, where that is known."""
        return "" if self._process is None else self._process.cause_of_death

    @property
    def capabilities(self) -> frozenset[type]:
        """Capabilities of the broker."""
        return self.place.capabilities | ({Injectable} if self.points else frozenset())

    @property
    def points(self) -> frozenset[str]:
        """The points at which its threads can be held; see ``clusters.api.Injectable``."""
        served = (self.place.agent, self.place.disk)
        return frozenset(
            point for answer in served if answer is not None for point in answer.points
        )

    def configure(
        self,
        kafka: str | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        judged_as: str | None = None,
        stage: Stage | None = None,
    ) -> None:
        """Change what it is started with; see ``clusters.api.Restartable``."""
        self._check_stopped()
        self.stage = stage or self.stage
        if kafka is not None and kafka != self.kafka:
            self._distribution = self.place.distribution_of(kafka)
            self.kafka = kafka
            self.wanted_judged_as = None
        if judged_as is not None:
            self.wanted_judged_as = judged_as
        if properties:
            self.own_properties = {**self.own_properties, **properties}

    def start(self) -> None:
        """Start the process and return at once; see ``clusters.api.Restartable``."""
        self._check_stopped()
        self._check_ports()
        self._czxid_before = -1 if self._process is None else self._registered_czxid()
        self._spawn()

    def _check_stopped(self) -> None:
        if self.is_running:
            raise ClusterError(f"{self.name} runs already (pid {self.pid}); stop it first")

    def _check_ports(self) -> None:
        for port in self.place.ports:
            if not is_free(port.number):
                raise MachineError(
                    f"{self.name} cannot listen at 127.0.0.1:{port.number}: another process "
                    "took the port; stop that one, or start the cluster anew"
                )

    def _spawn(self) -> None:
        directory = self.place.directory
        (directory / "tmp").mkdir(parents=True, exist_ok=True)
        configuration = directory / "server.properties"
        configuration.write_text(properties_text(self.properties), encoding="utf-8")
        log4j = directory / "log4j.properties"
        log4j.write_text(log4j_text(self.server_log), encoding="utf-8")
        self._lives += 1
        if self.place.disk is not None:
            self.place.disk.check()
            self.place.disk.begin_life(self._lives)
        if "process.roles" in self.properties:
            self.place.prepare()
        agent = self.place.agent
        flags = [*self.place.jvm_flags_of(self.distribution, directory), *self.jvm_flags]
        if agent is not None:
            life = Life(broker=self.id, number=self._lives)
            flags += agent.flags(release_of(self.release), life, directory)
        command = java_command(
            self.place.java_of(self.distribution),
            flags=flags,
            heap_mib=self.place.heap_mib,
            class_path=self.distribution.class_path,
            log4j=log4j,
            temporary=directory / "tmp",
            arguments=["kafka.Kafka", str(configuration)],
        )
        reads = () if agent is None else (agent.jar,)
        self._process = self.place.spawn(command, self.distribution, self.console_log, reads)

    def check_running(self) -> None:
        """Raise BrokerExited if its process has ended."""
        code = self.exit_code
        if code is not None and self._process is not None:
            raise BrokerExited(
                name=self.name,
                exit_code=code,
                last_lines=why_it_ended(self.server_log, [self.console_log]),
                log=str(self.server_log),
                cause=self.cause_of_death,
            )

    def await_ready(self, timeout_s: float = 60) -> None:
        """Return once it is registered anew and answers; see ``clusters.api.Restartable``."""
        seen = {"registration": "not looked at", "port": "not asked"}

        def ready() -> bool:
            czxid = self._registered_czxid()
            seen["registration"] = "none" if czxid < 0 else f"broker epoch {czxid}"
            if czxid <= self._czxid_before:
                return False
            is_answering = answers(self.place.client_port.number)
            seen["port"] = "answers" if is_answering else "no answer"
            return is_answering

        if self._process is None:
            raise ClusterError(f"{self.name} was never started")
        try:
            await_until(
                ready,
                timeout_s=timeout_s,
                waiting_for=f"broker {self.id} ({self.release}) to register with a broker epoch "
                f"above {self._czxid_before} and to answer at {self.client_address}",
                last_seen=lambda: (
                    f"registration {seen['registration']}, client port {seen['port']}"
                ),
                remedy=f"see {self.server_log}, and its threads in {self.console_log}",
                abort=self.check_running,
            )
        except AwaitTimeout:
            self._write_threads()
            raise
        self._check_agent()

    def _write_threads(self) -> None:
        """Let the JVM write the stacks of its threads to its console: they show where it hangs."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGQUIT)

    def _check_agent(self) -> None:
        """Raise ClusterError if the agent has not reported, which it does before Kafka begins."""
        gate = self.place.gate
        if self.place.agent is None or gate is None or gate.has_greeted(self.id, self._lives):
            return
        raise ClusterError(
            f"the agent of {self.name} did not report at {gate.address}: it could not attach, "
            "or its greeting was not taken. The agent's last lines in "
            f"{self.console_log}: {complaints(self.console_log)[-3:]}"
        )

    def _registered_czxid(self) -> int:
        """Return the czxid of its registration, -1 while there is none or nobody can tell."""
        try:
            registration = self.place.metadata().registration(self.id, timeout_s=_METADATA_S)
        except MetadataUnavailable:
            return -1
        return -1 if registration is None else registration.czxid

    def known_brokers(self) -> int:
        """Return how many live brokers it knows of, itself included; 0 while it is away."""
        return known_brokers(self.place.client_port.number)

    def kill(self) -> None:
        """End the process with SIGKILL and return once it is gone."""
        if self._process is not None:
            self._process.kill()

    def give_back_ports(self) -> None:
        """Give its ports back; it cannot be started afterwards."""
        for port in self.place.ports:
            port.release()

    def stop(self, timeout_s: float = 60) -> None:
        """Shut down in order (SIGTERM) and return once the process is gone."""
        if self._process is not None:
            self._process.stop(timeout_s)

    @property
    def is_paused(self) -> bool:
        """Whether its process is frozen."""
        return self._process is not None and self._process.is_paused

    def pause(self) -> None:
        """Freeze the process."""
        self._running("pause").pause()

    def resume(self) -> None:
        """Let the process go on."""
        self._running("resume").resume()

    def _running(self, what: str) -> Process:
        if self._process is None or not self.is_running:
            raise ClusterError(f"{self.name} has no process to {what}")
        return self._process

    @property
    def is_connected(self) -> bool:
        """Whether it is on its network; see ``clusters.api.Disconnectable``."""
        return self.place.wire is None or self.place.wire.is_connected

    def disconnect(self) -> None:
        """Take its network away; see ``clusters.api.Disconnectable``."""
        self._wire().disconnect()

    def reconnect(self) -> None:
        """Give its network back; see ``clusters.api.Disconnectable``."""
        self._wire().reconnect()

    def _wire(self) -> Wire:
        if self.place.wire is None:
            raise ClusterError(f"broker {self.id} has no network of its own to be taken away")
        return self.place.wire
