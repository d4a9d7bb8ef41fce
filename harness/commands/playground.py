"""`kchaos up`: a cluster to try until Ctrl-C, or to judge beside a command of one's own."""

import contextlib
import math
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kchaos.checkers.children import dying_with_parent
from kchaos.checkers.results import Results
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.front.drivers import make_cluster
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.system.interrupts import interrupts_at_gates
from kchaos.clusters.system.leftovers import work_directory
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.campaign.control import VARIABLE, Control
from kchaos.harness.campaign.live import Chaos
from kchaos.harness.catalogue.settings import QUICK, QUICK_KRAFT
from kchaos.harness.errors import UsageError
from kchaos.harness.play.workload import BOOTSTRAP, cannot_run
from kchaos.harness.player.free import FreeRun, faults_beside, require_free
from kchaos.harness.run.ending import ends_run
from kchaos.harness.run.own_topics import MOST_REPLICAS, topic_on
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.run.settings import check_settings
from kchaos.harness.run.steps_checked import check_steps
from kchaos.harness.seeds import seed_text
from kchaos.harness.steps.scenario_steps import CreateTopic, Heal, Inject, Step

_A_DAY_S = 24 * 3600.0
_ENDING_S = 10.0
_PROGRESS_S = 60.0
_NEVER: tuple[float, Step | None] = (math.inf, None)


def playground(
    spec: ClusterSpec,
    *,
    options: RunOptions,
    say: Callable[[str], None],
    write: Callable[[str], None],
) -> None:
    """Start the cluster, say how to reach it, and stop it on Ctrl-C.

    Raises:
        BrokerExited: A broker or ZooKeeper ended by itself.
        ReleaseError, MachineError: It could not be started.
    """
    with (
        work_directory("up") as work,
        make_cluster(
            options.driver, spec, work_directory=work, offline=options.offline, say=say
        ) as cluster,
    ):
        write(f"bootstrap servers: {','.join(cluster.bootstrap_servers)}")
        if spec.combined:
            write("controllers: the brokers")
        elif spec.is_kraft:
            addresses = [node.client_address for node in cluster.controllers.values()]
            write(f"controllers: {','.join(addresses)}")
        else:
            zookeepers = [f"{host}:{port}" for host, port in cluster.zookeeper_addresses]
            write(f"ZooKeeper: {','.join(zookeepers)}")
        for broker in cluster.brokers.values():
            write(f"broker {broker.id}: pid {broker.pid}, log {broker.server_log}")

        def check_all() -> None:
            for node in (*cluster.controllers.values(), *cluster.brokers.values()):
                node.check_running()

        write("Ctrl-C stops it and removes its data")
        try:
            await_until(
                lambda: False,
                timeout_s=_A_DAY_S,
                waiting_for="Ctrl-C",
                last_seen=lambda: "a day went by",
                abort=check_all,
            )
        except KeyboardInterrupt:
            write("stopping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a judged cluster has beside a command.

    Attributes:
        topics: Made before the command; with faults the topic t by default.
        mix: Faults that come by the seed's clock until the command ends; "" for none.
        seed: Theirs.
        for_s: The most seconds that the command may take; then it is stopped.
    """

    topics: Sequence[CreateTopic] = ()
    mix: str = ""
    seed: int = 0
    for_s: float | None = None


def judged_playground(
    spec: ClusterSpec,
    command: Sequence[str],
    beside: Beside,
    *,
    options: RunOptions,
    say: Callable[[str], None],
) -> tuple[Results, int | None]:
    """Run a command beside a cluster; return the cluster's results and the exit status.

    The status is None for a command that was stopped because its time was over. The command finds
    the brokers' addresses in `BOOTSTRAP`. They are those of links, so what its clients were
    promised is judged, whichever clients they are. A topic that they name is made, with a replica
    on each of up to three brokers. `campaign.control.VARIABLE` has the control address.

    The `spec` gets links for clients and the needs of gates. The `command` is a program and its
    arguments, with kchaos's own output.

    Raises:
        BrokerExited, AwaitTimeout: The cluster did not come up.
        ReleaseError, MachineError: It could not be started.
        ScenarioError: A broker would refuse a setting.
        UsageError: There is no such program, or no such faults for these brokers.
        KeyboardInterrupt: Ctrl-C; everything is healed and stopped, the run stays unsealed.
    """
    if why := cannot_run(command):
        raise UsageError(f"nothing is started: {why}")
    ids = tuple(broker.id for broker in spec.brokers)
    topics = [*beside.topics] or [topic_on(ids, "t")][: bool(beside.mix)]
    distributions = {
        kafka: fetch(kafka, driver=options.driver, offline=options.offline, say=say)
        for kafka in sorted(spec.kafkas)
    }
    oldest = min((each.release for each in distributions.values()), key=release_of)
    if beside.mix:
        free = FreeRun(for_s=math.inf, workload=tuple(command))
        require_free(free, beside.mix, oldest, mode=spec.mode)
        say(f"faults: the mix {beside.mix}; --seed {seed_text(beside.seed)} repeats them")
    cluster_spec = replace(
        spec,
        client_links=True,
        properties=_judged_properties(spec),
        # Faults are drawn for a cluster whose first controller is known.
        first_broker=ids[0] if beside.mix and len(ids) > 1 and not spec.is_kraft else None,
    )
    scenario = Scenario(
        entry="up",
        case=beside.mix,
        release=spec.brokers[0].kafka,
        cluster=cluster_spec,
        steps=tuple(topics),
        seed=beside.seed,
        title=f"{shlex.join(command)} beside {beside.mix or 'no'} faults",
    )
    check_steps(scenario)
    releases = {kafka: each.release for kafka, each in distributions.items()}
    for warning in check_settings(scenario, releases):
        say(warning)
    started = time.time()
    with (
        interrupts_at_gates(),
        work_directory("up") as work,
        make_cluster(
            options.driver, cluster_spec, work_directory=work, offline=options.offline, say=say
        ) as cluster,
    ):
        chaos = Chaos(cluster, scenario, options=options, started=started, say=say)
        faults: Iterator[tuple[float, Step]] = iter(())
        if beside.mix:
            faults = faults_beside(
                beside.seed, cluster_spec, topics, mix=beside.mix, release=oldest
            )
        status: int | None = 0
        try:
            chaos.perform(*topics)
            status = _run(command, chaos, faults, for_s=beside.for_s, say=say)
        except BaseException as error:
            if not (isinstance(error, Exception) and ends_run(error)):
                chaos.abandon()
                say(f"the run stays unsealed in {chaos.path}")
                raise
            chaos.give_up(error)
        results = chaos.end()
    return results, status


def _judged_properties(spec: ClusterSpec) -> Mapping[str, str]:
    replicas = min(MOST_REPLICAS, len(spec.brokers))
    return {
        **(QUICK_KRAFT if spec.is_kraft else QUICK),
        "replica.lag.time.max.ms": "10000",
        "auto.create.topics.enable": "true",
        "default.replication.factor": str(replicas),
        **spec.properties,
    }


def _run(
    command: Sequence[str],
    chaos: Chaos,
    faults: Iterator[tuple[float, Step]],
    *,
    for_s: float | None,
    say: Callable[[str], None],
) -> int | None:
    """Run a command to its end, or to this process's, and return its exit status.

    It is None if its time was over first. Faults come at their moments, and a request at the
    control address between two of them; none begins after the command has ended.
    """
    with Control(chaos) as control:
        variables = {**dict.fromkeys(BOOTSTRAP, chaos.bootstrap), VARIABLE: control.address}
        settings = " ".join(f"{name}={variables[name]}" for name in (BOOTSTRAP[0], VARIABLE))
        say(f"{shlex.join(command)} with {settings}")
        try:
            child = subprocess.Popen(
                command,
                env=os.environ | variables,
                preexec_fn=dying_with_parent(),
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(f"{command[0]} cannot be run: {error.strerror}") from error
        try:
            is_over = _beside(child, chaos, control, faults, for_s or math.inf, say)
        finally:
            if child.poll() is None:
                _stop(child)
    code = child.returncode
    if is_over:
        say(f"{command[0]} had not ended after {for_s:g} s and was stopped; its exit code is void")
        return None
    say(f"it was killed by signal {-code}" if code < 0 else f"it ended with {code}")
    return code


def _beside(
    child: "subprocess.Popen[bytes]",
    chaos: Chaos,
    control: Control,
    faults: Iterator[tuple[float, Step]],
    for_s: float,
    say: Callable[[str], None],
) -> bool:
    """Inject, heal and answer until a command ends; return whether its time was over first."""
    began = time.monotonic()
    told_s = 0.0
    moment, fault = next(faults, _NEVER)
    while True:
        due_at = began + min(moment, for_s, told_s + _PROGRESS_S)
        await_until(
            partial(_is_due, child, control, due_at),
            timeout_s=_A_DAY_S,
            waiting_for="the command to end",
            last_seen=lambda: "it runs",
            abort=chaos.check,
        )
        after_s = time.monotonic() - began
        if child.poll() is not None:
            return False
        if after_s >= for_s:
            return True
        if control.has_requests():
            control.answer_next()
        elif after_s >= moment:
            assert fault is not None
            why_not = chaos.attempt(fault)
            say(_told(fault) + (f": not possible, {why_not}" if why_not else ""))
            moment, fault = next(faults, _NEVER)
        else:
            told_s = after_s
            left = "" if for_s == math.inf else f", and is stopped after {for_s:g} s"
            say(f"the command has run for {after_s:.0f} s{left}")


def _is_due(child: "subprocess.Popen[bytes]", control: Control, due_at: float) -> bool:
    return child.poll() is not None or control.has_requests() or time.monotonic() >= due_at


def _told(step: Step) -> str:
    """Return one line for a fault, or for its end."""
    if isinstance(step, Inject):
        return f"{step.name}: {step.fault}"
    return f"healed {step.name}" if isinstance(step, Heal) else str(step)


def _stop(child: "subprocess.Popen[bytes]") -> None:
    """End a command and what it started: asked first, and killed after a while."""

    def is_asked_in_vain() -> None:
        child.poll()
        os.killpg(child.pid, 0)

    with contextlib.suppress(ProcessLookupError):  # Nobody of the group is left.
        os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(AwaitTimeout):
            await_until(
                is_asked_in_vain,
                timeout_s=_ENDING_S,
                waiting_for="the command to end",
                last_seen=lambda: "it runs",
            )
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
