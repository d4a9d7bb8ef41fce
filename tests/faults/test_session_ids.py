"""KIP-380's rejected alternative: the session's id in place of the registration's czxid."""

import pytest

import kchaos as k
from kchaos.checkers.model.releases.rules.kip_380 import is_for_an_earlier_generation, is_higher
from kchaos.checkers.observations import BrokerSeen
from kchaos.clusters.start.jvm_cluster import JvmCluster
from kchaos.faults.observation import observe_broker
from tests.support.drivers import cluster_of

pytestmark = pytest.mark.cluster


def registered_at(cluster: JvmCluster, member: int) -> BrokerSeen:
    """How broker 1 is registered once it has reconnected to this server of the ensemble alone."""
    host, port = cluster.zookeeper_addresses[member]
    fault = k.RollBroker(broker=1, properties=(("zookeeper.connect", f"{host}:{port}"),))
    with fault.inject(cluster, k.MemoryJournal()):
        return observe_broker(cluster, 1)


def test_a_session_id_falls_where_the_czxid_grows_so_that_no_fence_could_stand_on_it(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
):
    spec = k.ClusterSpec(brokers=k.brokers_of("2.2.2", (0, 1)), zookeepers=3)
    with cluster_of(spec, work_directory=tmp_path_factory.mktemp("ensemble")) as cluster:
        third, first = registered_at(cluster, 2), registered_at(cluster, 0)
    assert third.session_id is not None
    assert first.session_id is not None
    assert third.czxid is not None
    assert first.czxid is not None
    # The highest byte is the server's own number (SessionTrackerImpl.initializeNextSession).
    assert (third.session_id >> 56, first.session_id >> 56) == (3, 1)
    assert first.session_id < third.session_id
    assert first.czxid > third.czxid

    def fences(earlier: int, present: int) -> tuple[bool, bool]:
        """Whether the bounce is seen, and a request to the earlier generation refused."""
        return is_higher(earlier, present), is_for_an_earlier_generation(earlier, present)

    assert fences(third.czxid, first.czxid) == (True, True)
    assert fences(third.session_id, first.session_id) == (False, False)
    with capsys.disabled():
        print(f" session 0x{third.session_id:x} to 0x{first.session_id:x}, ", end="")
        print(f"czxid {third.czxid} to {first.czxid}", end=" ")
