"""Starting a broker again: how every fault that ends a process heals."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kchaos.checkers import observations
from kchaos.checkers.acts import StartBroker, StopBroker
from kchaos.clusters.api import Broker, Cluster, Stage
from kchaos.faults.api import Injection, Journal
from kchaos.faults.errors import NoEffect
from kchaos.faults.observation import await_registered, await_unregistered, observe_broker
from kchaos.faults.zookeeper.expire_session import end_registered_session

_RECOVERY = re.compile(r"[Rr]ecover|[Tt]runcat|[Rr]ebuil|corrupt|epoch cache| (WARN|ERROR) ")
_MOST_LINES = 40


@contextlib.contextmanager
def down(
    cluster: Cluster,
    journal: Journal,
    broker: Broker,
    *,
    fault: str,
    act: StopBroker,
    end: Callable[[], None],
    end_session: bool,
    await_return: bool = True,
) -> Iterator[Injection]:
    """End the broker's process, yield once its registration is gone, start it on leaving.

    Args:
        cluster: The broker's cluster.
        journal: Where acts and observations go.
        broker: It runs.
        fault: The name of the fault that does this.
        act: What ends it.
        end: Ends the process, and returns once it is gone.
        end_session: Whether to end the session too that it leaves behind.
        await_return: Whether leaving waits for the broker to be ready, and not for its start alone.
    """
    before = observe_broker(cluster, broker.id)
    is_injected = False
    try:
        with journal.acting(act):
            end()
        gone = observations.BrokerGone(broker=broker.id, exit_code=broker.exit_code)
        journal.observed(gone)
        if end_session:
            end_registered_session(cluster, journal, before)
        effect = await_unregistered(cluster, broker.id)
        is_injected = True
        yield Injection(
            fault=fault,
            before=before.to_json(),
            effect={"exit_code": broker.exit_code, **effect.to_json()},
        )
    finally:
        heal = start_again if is_injected else undo_unfinished
        above = before.czxid or 0
        heal(cluster, journal, broker, above_czxid=above, await_return=await_return)


def start_again(
    cluster: Cluster,
    journal: Journal,
    broker: Broker,
    *,
    above_czxid: int,
    kafka: str | None = None,
    properties: Mapping[str, str] | None = None,
    judged_as: str | None = None,
    stage: Stage | None = None,
    await_return: bool = True,
) -> None:
    """Start the broker, and wait until it answers with a greater czxid.

    Does nothing if it runs: somebody else has started it. Releases before 2.2 refuse to start
    while the znode of their former life exists, so this waits for it to go away first.

    Raises:
        BrokerExited: The new process ended.
        AwaitTimeout: It did not register.
    """
    if broker.is_running:
        return
    await_unregistered(cluster, broker.id)
    broker.configure(kafka, properties, judged_as=judged_as, stage=stage)
    log = Path(broker.server_log)
    logged = log.stat().st_size if log.is_file() else 0
    with journal.acting(start_of(broker)):
        broker.start()
    if not await_return:
        return
    broker.await_ready()
    if broker.id in cluster.controllers:
        after = observe_broker(cluster, broker.id)
    else:
        after = await_registered(cluster, broker.id, above_czxid=above_czxid)
    journal.observed(
        observations.BrokerStarted(
            **after.to_json(),
            release=broker.release,
            build=broker.build,
            recovery=_recovery(log, logged),
        )
    )


def _recovery(log: Path, logged: int) -> tuple[str, ...]:
    """Return the log lines of a start about recovery, up to `_MOST_LINES`."""
    if not log.is_file():
        return ()
    with log.open("rb") as file:
        file.seek(logged)
        lines = file.read().decode("utf-8", "replace").splitlines()
    return tuple(line for line in lines if _RECOVERY.search(line))[:_MOST_LINES]


def undo_unfinished(
    cluster: Cluster,
    journal: Journal,
    broker: Broker,
    *,
    above_czxid: int,
    await_return: bool = True,
) -> None:
    """Restore the broker after an interrupted injection.

    Its process may run, be about to end on a signal that is on its way, or be stuck in its
    shutdown. Which of them cannot be told, so it is ended for good and started again.
    """
    if broker.is_running:
        with journal.acting(StopBroker(broker=broker.id, clean=False)):
            broker.kill()
    # If the session cannot be ended it still expires, which the new start waits for.
    with contextlib.suppress(NoEffect):
        end_registered_session(cluster, journal, observe_broker(cluster, broker.id))
    start_again(cluster, journal, broker, above_czxid=above_czxid, await_return=await_return)


def start_of(broker: Broker) -> StartBroker:
    """Return a start of this broker with its present release and configuration."""
    properties = broker.properties
    return StartBroker(
        broker=broker.id,
        release=broker.judged_as,
        inter_broker_protocol=properties.get("inter.broker.protocol.version"),
        message_format=properties.get("log.message.format.version"),
        unclean_leader_election=properties.get("unclean.leader.election.enable") == "true",
        min_insync_replicas=int(properties.get("min.insync.replicas", "1")),
        replica_fetchers=int(properties.get("num.replica.fetchers", "1")),
    )
