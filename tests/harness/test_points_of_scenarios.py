"""Brokers with an agent: those that a fault of the scenario needs it for."""

from kchaos.clusters.spec import BrokerSpec, ClusterSpec, brokers_of
from kchaos.faults import HoldController, HoldPoint, KillBroker, SlowFetchReads
from kchaos.harness.run.scenario import with_points
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.scenario_steps import Inject, Tell

CLUSTER = ClusterSpec(brokers=brokers_of("2.8.2", (0, 1, 2)))


def points(cluster: ClusterSpec) -> dict[int, tuple[str, ...]]:
    return {broker.id: broker.points for broker in cluster.brokers}


def test_a_scenario_without_such_faults_needs_no_agent():
    steps = (Tell(text="x"), Inject(name="k", fault=KillBroker(broker=1)))
    assert with_points(CLUSTER, steps) == CLUSTER


def test_each_broker_gets_the_points_that_the_steps_need_each_once():
    steps = (
        Inject(name="c", fault=HoldController(broker=0)),
        Inject(name="r", fault=SlowFetchReads(broker=2)),
        Inject(name="q", fault=SlowFetchReads(broker=2, readers="consumers")),
        IfPossible(do=Inject(name="l", fault=SlowFetchReads(broker=2, where="log"))),
        Inject(name="nobody", fault=HoldPoint(name="n", broker=7, point="registered")),
    )
    assert points(with_points(CLUSTER, steps)) == {
        0: ("controller-broker-change",),
        1: (),
        2: ("fetch-read", "log-read"),
    }


def test_a_place_that_does_not_exist_needs_no_point_and_is_refused_later():
    steps = (Inject(name="x", fault=SlowFetchReads(broker=1, where="disk")),)  # type: ignore[arg-type]
    assert with_points(CLUSTER, steps) == CLUSTER


def test_points_that_the_cluster_names_itself_stay():
    own = ClusterSpec(brokers=(BrokerSpec(id=0, kafka="2.8.2", points=("registered",)),))
    steps = (Inject(name="c", fault=HoldController(broker=0)),)
    assert points(with_points(own, steps)) == {0: ("registered", "controller-broker-change")}
