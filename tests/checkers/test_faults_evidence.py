"""Each injection has its own healing, however often a schedule uses a name."""

from kchaos.checkers import acts, observations
from kchaos.checkers.evidence.faults import acted_faults
from kchaos.checkers.evidence.observed import Observed
from kchaos.checkers.observations import Act, Healed, Injected, Observation


def line(time: float, what: Observation, step: int) -> Observed:
    return Observed(time=time, what=what, step=step)


def act(what: acts.Act) -> Act:
    return Act(act=what, zxid=0)


def injected(name: str, fault: str, *, lasting: bool = True) -> Injected:
    return Injected(name=name, fault=fault, lasting=lasting, before={}, effect={})


def start(broker: int) -> Act:
    return act(acts.StartBroker(broker=broker, release="1.1.1"))


def stop(broker: int) -> Act:
    return act(acts.StopBroker(broker=broker, clean=False))


# As a random schedule on 1.1.1 had them; times are seconds of its report.
NAMES_USED_TWICE = [
    line(26.20, act(acts.CutLink(source=0, target=1, name="link-0-1")), 1),
    line(26.26, injected("link-0-1", "CutLink"), 1),
    line(26.40, stop(1), 2),
    line(26.48, injected("down-1", "KillBroker"), 2),
    line(26.95, Healed(name="link-0-1"), 3),
    line(27.60, act(acts.CutLink(source=0, target=1, name="link-0-1")), 4),
    line(27.61, injected("link-0-1", "CutLink"), 4),
    line(27.62, Healed(name="link-0-1"), 5),
    line(27.68, start(1), 6),
    line(38.19, Healed(name="down-1"), 6),
    line(40.00, act(acts.ExpireSession(broker=0)), 7),
    line(40.50, injected("down-1", "ExpireSession", lasting=False), 7),
    line(42.50, stop(1), 8),
    line(42.55, injected("down-1", "StopBroker"), 8),
]


def test_a_name_that_is_used_again_is_another_fault_with_its_own_healing():
    spans = acted_faults(NAMES_USED_TWICE)

    assert [(span.injected.fault, span.began, span.healed) for span in spans] == [
        ("CutLink", 26.20, 26.95),
        ("KillBroker", 26.40, 38.19),
        ("CutLink", 27.60, 27.62),
        ("ExpireSession", 40.00, None),
        ("StopBroker", 42.50, None),
    ]


def test_a_fault_of_a_process_ends_when_the_process_is_started_and_not_with_its_recovery():
    _, kill, _, expiry, stopped = acted_faults(NAMES_USED_TWICE)

    assert (kill.ended, kill.healed) == (27.68, 38.19)
    assert kill.acted_at(27.0)
    assert not kill.acted_at(37.283), "broker 1 led then"
    assert expiry.ended == expiry.seen == 40.50
    assert stopped.ended is None
    assert stopped.acted_at(1000.0)


def test_a_broker_that_somebody_else_starts_is_down_no_longer():
    spans = acted_faults(
        [
            line(1.0, stop(2), 0),
            line(2.0, injected("down", "KillBroker"), 0),
            line(3.0, start(2), 1),
            line(4.0, stop(2), 2),
            line(5.0, injected("again", "StopBroker"), 2),
            line(6.0, Healed(name="down"), 3),
            line(7.0, start(2), 4),
            line(8.0, Healed(name="again"), 4),
        ]
    )
    assert [(span.ended, span.healed) for span in spans] == [(3.0, 6.0), (7.0, 8.0)]


def test_a_bounce_leaves_nothing_and_faults_outside_of_steps_begin_with_their_own_act():
    spans = acted_faults(
        [
            line(1.0, stop(2), -1),
            line(2.0, start(2), -1),
            line(3.0, injected("bounce", "FastBounce", lasting=False), -1),
            line(4.0, act(acts.PauseBroker(broker=1)), -1),
            line(5.0, injected("pause", "PauseBroker"), -1),
            line(6.0, act(acts.ResumeBroker(broker=1)), -1),
            line(6.5, observations.BrokerGone(broker=9, exit_code=1), -1),
            line(7.0, Healed(name="pause"), -1),
        ]
    )
    assert [(span.began, span.ended, span.healed) for span in spans] == [
        (1.0, 3.0, None),
        (4.0, 6.0, 7.0),
    ]
