"""Starting a broker again: how every fault that ends a process heals."""

from collections.abc import Mapping

from clusters.api import Broker, Cluster
from faults.api import Journal
from faults.observation import await_registered, await_unregistered


def start_again(
    cluster: Cluster,
    journal: Journal,
    broker: Broker,
    *,
    above_czxid: int,
    kafka: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Starts the broker and returns once it is registered with a greater czxid and answers.

    Releases before 2.2 refuse to start while the znode of their former life exists, so this
    waits for it to go away first.

    Raises:
        BrokerExited: The new process ended.
        AwaitTimeout: It did not register.
    """
    if broker.is_running:
        return
    await_unregistered(cluster, broker.id)
    with journal.acting("start-broker", broker=broker.id):
        broker.start(kafka, properties)
    broker.await_ready()
    after = await_registered(cluster, broker.id, above_czxid=above_czxid)
    journal.observed("broker-started", **after.to_json())
