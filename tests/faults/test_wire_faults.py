import pytest

from kchaos.clusters.system.waiting import await_until
from kchaos.faults import CutLink, HoldRequests, IsolateBroker
from kchaos.faults.errors import NotAvailable

pytestmark = pytest.mark.cluster

REQUEST_TIMED_OUT = 7


def refused(fault, cluster, journal):
    return fault.inject(cluster, journal).__enter__()


@pytest.mark.parametrize("style", ["silent", "reset"])
def test_what_a_cut_link_keeps_back_is_replicated_after_healing(cluster, journal, topic, style):
    replicas = topic(0, 1)
    assert replicas.produce(0, acks=-1).base_offset == 0
    replicas.await_log_ends(1)
    with CutLink(source=0, target=1, style=style).inject(cluster, journal) as injection:
        assert injection.effect["is_cut"]
        # The leader itself says that it waited for its follower in vain.
        assert replicas.produce(0, acks=-1, timeout_s=1).error_code == REQUEST_TIMED_OUT
        assert (replicas.log_end(0), replicas.log_end(1)) == (2, 1)
    assert injection.handle.is_healed
    replicas.await_log_ends(2)
    assert replicas.produce(0, acks=-1).base_offset == 2
    assert [act for act, _ in journal.entries] == ["CutLink", "HealLink", "link-healed"]
    seen = journal.entries[-1][1]
    assert seen["messages_passed"] == seen["messages_passed_before"]
    assert set(seen["messages_passed"]) == {"0->1", "1->0"}


def test_an_isolated_broker_reaches_no_other_and_follows_again_after_healing(
    cluster, journal, topic
):
    replicas = topic(0, 1)
    assert replicas.produce(0, acks=-1).base_offset == 0
    with IsolateBroker(broker=1, zookeeper=True).inject(cluster, journal) as injection:
        assert injection.effect == {"is_cut": True}
        assert replicas.produce(0, acks=-1, timeout_s=1).error_code == REQUEST_TIMED_OUT
        assert (replicas.log_end(0), replicas.log_end(1)) == (2, 1)
    assert all(cut.is_healed for cut in injection.handle)
    replicas.await_log_ends(2)
    others = len(cluster.brokers) - 1
    acts = [act for act, _ in journal.entries if act[0].isupper()]
    assert acts == [*["CutLink"] * others, "CutZooKeeper", "HealZooKeeper", *["HealLink"] * others]


def test_a_link_that_is_cut_one_way_lets_the_other_way_pass(cluster, journal, topic):
    replicas = topic(0, 1)
    assert replicas.produce(0, acks=-1).base_offset == 0
    fault = CutLink(source=1, target=0, one_way=True)
    with fault.inject(cluster, journal):
        # What the controller, broker 0, asks of broker 1 still arrives there.
        other = topic(0, 1)
        directory = cluster.brokers[1].log_directory / f"{other.name}-0"
        await_until(
            directory.is_dir,
            timeout_s=60,
            waiting_for="broker 1 to make the log of a new partition",
            last_seen=other.state,
        )
        mark = cluster.links.log()[-1].sequence
        assert replicas.produce(0, acks=-1, timeout_s=1).error_code == REQUEST_TIMED_OUT
        passed = [r for r in cluster.links.log(mark) if (r.source, r.target) == (1, 0)]
        assert [r for r in passed if r.direction == "request" and r.fate == "passed"] == []
    replicas.await_log_ends(2)
    assert other.produce(0, acks=-1).base_offset == 0


def test_a_write_is_acknowledged_only_when_the_held_fetches_are_released(cluster, journal, topic):
    replicas = topic(0, 1)
    assert replicas.produce(0, acks=-1).base_offset == 0
    fault = HoldRequests(
        name="acks",
        api="Fetch",
        source=1,
        target=0,
        topic=replicas.name,
        partition=0,
        fetch_offset_at_least=2,
    )
    with fault.inject(cluster, journal) as injection:
        assert injection.effect == {"is_held": True}
        thread, answers = replicas.produce_later(0, acks=-1)
        injection.handle.await_held(timeout_s=60, waiting_for="the fetch that acknowledges")
        assert replicas.produce(0, acks=-1, timeout_s=1).error_code == REQUEST_TIMED_OUT
        assert answers == []
        assert thread.is_alive()
    assert injection.handle.is_released
    thread.join(60)
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 1)]
    replicas.await_log_ends(3)
    assert [act for act, _ in journal.entries] == ["Hold", "ReleaseHold", "released"]
    (held,) = journal.entries[-1][1]["held"]
    assert held.startswith("Fetch")


def test_a_response_is_held_after_its_request_was_handled(cluster, journal, topic):
    replicas = topic(0, 1)
    assert replicas.produce(0, acks=-1).base_offset == 0
    fault = HoldRequests(name="answers", api="Fetch", source=1, target=0, direction="response")
    with fault.inject(cluster, journal) as injection:
        assert replicas.produce(0, acks=1).base_offset == 1
        injection.handle.await_held(timeout_s=60, waiting_for="an answer to a fetch")
        assert {record.direction for record in injection.handle.held} == {"response"}
        assert replicas.produce(0, acks=-1, timeout_s=1).error_code == REQUEST_TIMED_OUT
    replicas.await_log_ends(3)


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
def test_cuts_and_holds_heal_after_an_exception_and_after_ctrl_c(cluster, journal, topic, error):
    replicas = topic(0, 1)
    handles = []

    def fail_inside():
        with CutLink(source=1, target=0).inject(cluster, journal) as cut:
            handles.append(cut.handle)
            with HoldRequests(name="all", api="Fetch").inject(cluster, journal) as hold:
                handles.append(hold.handle)
                raise error

    with pytest.raises(error):
        fail_inside()
    cut, hold = handles
    assert cut.is_healed
    assert hold.is_released
    assert replicas.produce(0, acks=-1).error_code == 0


def test_what_cannot_be_cut_or_held_is_refused_and_changes_nothing(cluster, journal):
    for fault, told in (
        (CutLink(source=0, target=7), r"no broker 7: it has \[0, 1\]"),
        (CutLink(source=1, target=1), "broker 1 cannot be cut from itself"),
        (CutLink(source=0, target=1, style="loud"), "use 'silent' or 'reset'"),  # type: ignore[arg-type]
        (HoldRequests(name="h", api="Fetch", source=7), "no broker 7"),
        (HoldRequests(name="h", api="Fetsch"), "no API is named 'Fetsch'; known: Produce, Fetch,"),
        (HoldRequests(name="h", api="FETCH"), "no API is named 'FETCH'"),
        (HoldRequests(name="h", api="Fetch", topic="t"), "give both, or neither"),
        (HoldRequests(name="h", api="Fetch", partition=0), "give both, or neither"),
        (HoldRequests(name="h", api="LeaderAndIsr", fetch_offset_at_least=1), "needs api_keys"),
    ):
        with pytest.raises(NotAvailable, match=told):
            refused(fault, cluster, journal)
    assert journal.entries == []


def test_cuts_of_one_pair_need_a_name_each_and_heal_one_by_one(cluster, journal, topic):
    replicas = topic(0, 1)
    assert replicas.produce(0, acks=-1).base_offset == 0
    with CutLink(source=0, target=1, name="outer").inject(cluster, journal) as outer:
        with CutLink(source=1, target=0, name="inner").inject(cluster, journal) as inner:
            with pytest.raises(NotAvailable, match="cut or hold named 'outer' lasts already"):
                refused(CutLink(source=0, target=1, name="outer"), cluster, journal)
            assert replicas.produce(0, acks=1).base_offset == 1
        assert inner.handle.is_healed
        assert not outer.handle.is_healed
        assert replicas.produce(0, acks=-1, timeout_s=1).error_code == REQUEST_TIMED_OUT
        assert replicas.log_end(1) == 1
    replicas.await_log_ends(3)
    told = [(what, detail["name"]) for what, detail in journal.entries if "Link" in what]
    assert told == [
        ("CutLink", "outer"),
        ("CutLink", "inner"),
        ("HealLink", "inner"),
        ("HealLink", "outer"),
    ]
