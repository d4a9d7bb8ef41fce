"""`kchaos up`: a cluster to play with until Ctrl-C."""

from collections.abc import Callable

from kchaos.clusters.drivers import make_cluster
from kchaos.clusters.leftovers import work_directory
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.waiting import await_until

_A_DAY_S = 24 * 3600.0


def playground(
    spec: ClusterSpec,
    *,
    driver: str,
    offline: bool,
    say: Callable[[str], None],
    write: Callable[[str], None],
) -> None:
    """Starts the cluster, says how to reach it, and stops it on Ctrl-C.

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
