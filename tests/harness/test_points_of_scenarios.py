"""Brokers with an agent: those that a fault of the scenario needs it for."""

import kchaos as k
from kchaos.harness.run.scenario import with_points

CLUSTER = k.ClusterSpec(brokers=k.brokers_of("2.8.2", (0, 1, 2)))


def points(cluster: k.ClusterSpec) -> dict[int, tuple[str, ...]]:
    return {broker.id: broker.points for broker in cluster.brokers}


def test_a_scenario_without_such_faults_needs_no_agent():
    steps = (k.Tell(text="x"), k.Inject(name="k", fault=k.KillBroker(broker=1)))
    assert with_points(CLUSTER, steps) == CLUSTER


def test_each_broker_gets_the_points_that_the_steps_need_each_once():
    steps = (
        k.Inject(name="c", fault=k.HoldController(broker=0)),
        k.Inject(name="r", fault=k.SlowFetchReads(broker=2)),
        k.Inject(name="q", fault=k.SlowFetchReads(broker=2, readers="consumers")),
        k.IfPossible(do=k.Inject(name="l", fault=k.SlowFetchReads(broker=2, where="log"))),
        k.Inject(name="nobody", fault=k.HoldPoint(name="n", broker=7, point="registered")),
    )
    assert points(with_points(CLUSTER, steps)) == {
        0: ("controller-broker-change",),
        1: (),
        2: ("fetch-read", "log-read"),
    }


def test_a_place_that_does_not_exist_needs_no_point_and_is_refused_later():
    steps = (k.Inject(name="x", fault=k.SlowFetchReads(broker=1, where="disk")),)  # type: ignore[arg-type]
    assert with_points(CLUSTER, steps) == CLUSTER


def test_points_that_the_cluster_names_itself_stay():
    own = k.ClusterSpec(brokers=(k.BrokerSpec(id=0, kafka="2.8.2", points=("registered",)),))
    steps = (k.Inject(name="c", fault=k.HoldController(broker=0)),)
    assert points(with_points(own, steps)) == {0: ("registered", "controller-broker-change")}
