"""The values of what is done to a cluster: names of cuts, and what old runs wrote."""

import typing

import pytest

import tests.support.model as m
from kchaos.checkers.formats.api_keys import unknown_api


def test_a_cut_without_a_name_gets_one_from_its_pair():
    assert m.CutLink(source=0, target=1).name == "0-1"
    assert m.CutLink(source=0, target=1, one_way=True).name == "0->1"
    assert m.CutLink(source=0, target=1, name="rack").name == "rack"
    assert m.CutZooKeeper(broker=2).name == "2-zookeeper"


def test_cuts_and_heals_of_old_runs_are_read_and_heal_by_their_pair():
    cut = m.event_from_json({"event": "CutLink", "source": 0, "target": 1, "one_way": False})
    heal = m.event_from_json({"event": "HealLink", "source": 1, "target": 0})
    assert cut == m.CutLink(source=0, target=1, name="0-1")
    assert heal == m.HealLink(source=1, target=0)
    other = m.CutLink(source=0, target=2)
    assert [heal.heals(each) for each in (cut, other)] == [True, False]


def test_a_produce_with_fewer_keys_than_records_is_refused():
    fields = {"operation": "p", "broker": 0, "topic": "t", "partition": 0, "acks": 1}
    with pytest.raises(ValueError, match="1 keys for 2 records"):
        m.event_from_json({"event": "Produce", **fields, "records": ["a", "b"], "keys": ["k"]})


def test_a_heal_by_name_leaves_other_cuts_of_the_same_pair():
    first, two = (
        m.CutLink(source=0, target=1, name="one"),
        m.CutLink(source=0, target=1, name="two"),
    )
    assert [m.HealLink(name="one").heals(cut) for cut in (first, two)] == [True, False]


@pytest.mark.parametrize(
    "act",
    [
        m.CutLink(source=0, target=1, one_way=True, style="reset", name="c"),
        m.HealLink(name="c"),
        m.Hold(name="h", api="Fetch", direction="response", topic="t", partition=0),
        m.StopBroker(broker=1, clean=True, checkpointed=(("t", 0, 3),)),
    ],
)
def test_an_act_of_the_models_survives_json(act):
    assert m.event_from_json(m.event_to_json(act)) == act


def test_an_act_is_taken_out_of_a_value_that_has_its_fields():
    hold = m.Hold(name="h", api="Fetch")
    assert m.act_of(m.Hold, hold) == hold
    assert m.fields_of(m.StopBroker(broker=1, clean=False, checkpointed=(("t", 0, 3),))) == {
        "broker": 1,
        "clean": False,
        "checkpointed": [["t", 0, 3]],
    }


def test_the_acts_upon_which_the_model_acts_are_acts():
    others = {"Produce", "DeleteRecords", "Snapshot", "TierRead"}
    others |= {"HighWatermarkObserved", "LogStartObserved", "LogCleaned"}
    acted = {action.__name__ for action in typing.get_args(m.Action)} - others
    assert acted < {act.__name__ for act in typing.get_args(m.Act)}


def test_an_api_is_named_as_kafka_spells_it():
    assert unknown_api("OffsetForLeaderEpoch") == ""
    assert unknown_api("OFFSET_FOR_LEADER_EPOCH").startswith(
        "no API is named 'OFFSET_FOR_LEADER_EPOCH'; known: Produce, Fetch"
    )
