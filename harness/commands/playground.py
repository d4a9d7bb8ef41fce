"""`kchaos up`: a cluster to play with until Ctrl-C, or to judge beside a command of one's own."""

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kchaos.checkers.children import dying_with_parent
from kchaos.checkers.results import Results
from kchaos.clusters.front.drivers import make_cluster
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.system.interrupts import interrupts_at_gates
from kchaos.clusters.system.leftovers import work_directory
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.campaign.campaign import judged
from kchaos.harness.catalogue.settings import QUICK, QUICK_KRAFT
from kchaos.harness.errors import UsageError
from kchaos.harness.play.play import Play
from kchaos.harness.play.workload import BOOTSTRAP, cannot_run
from kchaos.harness.run.ending import ends_run, finish
from kchaos.harness.run.runner import RunOptions, begin
from kchaos.harness.run.scenario import Scenario

_A_DAY_S = 24 * 3600.0
_ENDING_S = 10.0


def playground(
    spec: ClusterSpec,
    *,
    driver: str,
    offline: bool,
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
        make_cluster(driver, spec, work_directory=work, offline=offline, say=say) as cluster,
    ):
        write(f"bootstrap servers: {','.join(cluster.bootstrap_servers)}")
        if spec.is_kraft:
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


def judged_playground(
    spec: ClusterSpec, command: Sequence[str], *, options: RunOptions, say: Callable[[str], None]
) -> tuple[Results, int]:
    """Run a command beside a cluster; return the cluster's results and the exit status.

    The command finds the brokers' addresses in `BOOTSTRAP`. They are those of links, so what its
    clients were promised is judged, whichever clients they are. A topic that they name is made,
    with a replica on each of up to three brokers.

    The `spec` gets links for clients and the needs of gates. The `command` is a program and its
    arguments, with kchaos's own output.

    Raises:
        BrokerExited, AwaitTimeout: The cluster did not come up.
        ReleaseError, MachineError: It could not be started.
        UsageError: There is no such program.
    """
    if why := cannot_run(command):
        raise UsageError(f"nothing is started: {why}")
    cluster_spec = replace(spec, client_links=True, properties=_judged_properties(spec))
    release = next(broker.kafka for broker in spec.brokers)
    scenario = Scenario(entry="up", case="", release=release, cluster=cluster_spec, steps=())
    started = time.time()
    with (
        interrupts_at_gates(),
        work_directory("up") as work,
        make_cluster(
            options.driver, cluster_spec, work_directory=work, offline=options.offline, say=say
        ) as cluster,
    ):
        play = begin(scenario, cluster, options=options, started=started, say=say)
        failure: Exception | None = None
        status = 0
        try:
            status = _run(command, cluster.bootstrap_servers, play)
        except Exception as error:
            if not ends_run(error):
                raise
            failure = error
        run = finish(play, started=started, failure=failure, settle_bound_s=options.settle_bound_s)
    return judged(run, say), status


def _judged_properties(spec: ClusterSpec) -> Mapping[str, str]:
    replicas = min(3, len(spec.brokers))
    return {
        **(QUICK_KRAFT if spec.is_kraft else QUICK),
        "replica.lag.time.max.ms": "10000",
        "auto.create.topics.enable": "true",
        "default.replication.factor": str(replicas),
        **spec.properties,
    }


def _run(command: Sequence[str], servers: Sequence[str], play: Play) -> int:
    """Run a command to its end, or to this process's, and return its exit status."""
    addresses = ",".join(servers)
    environment = {**os.environ, **dict.fromkeys(BOOTSTRAP, addresses)}
    play.say(f"{shlex.join(command)} with {BOOTSTRAP[0]}={addresses}")
    try:
        child = subprocess.Popen(command, env=environment, preexec_fn=dying_with_parent())
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be run: {error.strerror}") from error

    def check_all() -> None:
        for broker in play.cluster.brokers.values():
            broker.check_running()

    try:
        await_until(
            lambda: child.poll() is not None,
            timeout_s=_A_DAY_S,
            waiting_for=f"{command[0]} to end",
            last_seen=lambda: "it runs",
            abort=check_all,
        )
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(_ENDING_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
    code = child.returncode
    play.say(f"it was killed by signal {-code}" if code < 0 else f"it ended with {code}")
    return child.returncode
