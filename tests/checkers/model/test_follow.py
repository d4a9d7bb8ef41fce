"""Following finds what is planted in a golden run, names it, and accepts the run as it was.

Each fault is planted in one observation of a run of real brokers (`tests.golden`): first the kind
of the observation, then what is changed in it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tests.support.model as m
from benchmarks.ordinary import with_partitions
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model import follow, generation_for, predict
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.record import predict_run
from tests.golden.stored import QUICK, recorded, unpacked
from tests.support.releases import each_release

T = m.TopicPartition("t", 0)
RELEASES = ("0.10.2.2", "1.1.1", "2.0.1", "2.8.2", "3.9.1")
# Those whose followers ask with OffsetForLeaderEpoch.
ASKING = ("1.1.1", "2.0.1")


Change = Callable[[Any], Any]


def with_first(release: str, change: Change) -> tuple[Record, str]:
    """The record with the first observation changed that `change` has something for; its source."""
    whole = recorded(release)
    for index, item in enumerate(whole.seen):
        changed = change(item.what)
        if changed is not None:
            seen = (*whole.seen[:index], replace(item, what=changed), *whole.seen[index + 1 :])
            return replace(whole, seen=seen), item.source
    raise AssertionError(f"nothing in the golden run of {release} can be changed so")


def without_first(release: str, wanted: Callable[[object], bool]) -> Record:
    whole = recorded(release)
    index = min(index for index, item in enumerate(whole.seen) if wanted(item.what))
    return replace(whole, seen=whole.seen[:index] + whole.seen[index + 1 :])


def fetch_offset(what: object) -> object | None:
    if isinstance(what, m.RequestSeen) and isinstance(
        asked := what.partitions.get(T), m.FetchAsked
    ):
        return replace(what, partitions={T: replace(asked, fetch_offset=asked.fetch_offset + 1)})
    return None


def requested_epoch(what: object) -> object | None:
    if isinstance(what, m.RequestSeen) and isinstance(
        asked := what.partitions.get(T), m.EpochAsked
    ):
        changed = replace(asked, requested_epoch=asked.requested_epoch + 1)
        return replace(what, partitions={T: changed})
    return None


def fetch_answer(what: object) -> m.FetchAnswered | None:
    if not isinstance(what, m.ResponseSeen) or what.fate is not m.Fate.ARRIVES:
        return None
    answer = what.partitions.get(T)
    return answer if isinstance(answer, m.FetchAnswered) and answer.diverging is None else None


def high_watermark_in_an_answer(what: object) -> object | None:
    answer = fetch_answer(what)
    if answer is None or answer.error_code:
        return None
    return replace(
        what,  # type: ignore[type-var]
        partitions={T: replace(answer, high_watermark=answer.high_watermark + 1)},
    )


def records_in_an_answer(what: object) -> object | None:
    answer = fetch_answer(what)
    if answer is None or answer.last_offset is None:
        return None
    return replace(
        what,  # type: ignore[type-var]
        partitions={T: replace(answer, last_offset=answer.last_offset + 1)},
    )


def leader_epoch_of_records(what: object) -> object | None:
    answer = fetch_answer(what)
    if answer is None or answer.last_leader_epoch is None:
        return None
    return replace(
        what,  # type: ignore[type-var]
        partitions={T: replace(answer, last_leader_epoch=answer.last_leader_epoch + 1)},
    )


def end_of_an_epoch(what: object) -> object | None:
    if isinstance(what, m.ResponseSeen) and isinstance(
        end := what.partitions.get(T), m.EpochAnswered
    ):
        return replace(what, partitions={T: replace(end, end_offset=end.end_offset + 1)})
    return None


def diverging_epoch(what: object) -> object | None:
    if isinstance(what, m.ResponseSeen) and isinstance(
        answer := what.partitions.get(T), m.FetchAnswered
    ):
        if answer.diverging is None:
            return None
        epoch, end_offset = answer.diverging
        return replace(what, partitions={T: replace(answer, diverging=(epoch, end_offset + 1))})
    return None


def leader_and_isr(what: object) -> object | None:
    if isinstance(what, m.ControlSent) and what.states:
        states = tuple(replace(state, leader_epoch=state.leader_epoch + 1) for state in what.states)
        return replace(what, states=states)
    return None


def acknowledged_offset(what: object) -> object | None:
    if isinstance(what, m.ClientAnswered) and what.operation == "without-b":
        return replace(what, base_offset=what.base_offset + 1)
    return None


def high_watermark_on_disk(what: object) -> object | None:
    if isinstance(what, m.HighWatermarkObserved):
        return replace(what, high_watermark=what.high_watermark + 1)
    return None


def files(what: object, change: Callable[[m.Files], m.Files]) -> object | None:
    if isinstance(what, m.CopyBegun) and what.files:
        return replace(
            what, files=tuple((partition, change(each)) for partition, each in what.files)
        )
    return None


def bytes_of_the_last_batch(what: object) -> object | None:
    def change(seen: m.Files) -> m.Files:
        base, last, epoch, magic = seen.batches[-1]
        return replace(seen, batches=(*seen.batches[:-1], (base, last, epoch + 1, magic)))

    return files(what, change)


def a_batch_less(what: object) -> object | None:
    return files(what, lambda seen: replace(seen, batches=seen.batches[:-1]))


def epoch_cache(what: object) -> object | None:
    return files(what, lambda seen: replace(seen, epoch_entries=(seen.epoch_entries or ())[:-1]))


PLANTED: Mapping[str, tuple[Change, tuple[str, ...]]] = {
    "a fetch request's offset": (fetch_offset, RELEASES),
    "the epoch that is asked for": (requested_epoch, ASKING),
    "a fetch answer's high watermark": (high_watermark_in_an_answer, RELEASES),
    "a fetch answer's records": (records_in_an_answer, RELEASES),
    "the leader epoch of a fetch answer's records": (
        leader_epoch_of_records,
        ("1.1.1", "2.0.1", "2.8.2", "3.9.1"),
    ),
    "an epoch answer": (end_of_an_epoch, ASKING),
    "a diverging epoch": (diverging_epoch, ("2.8.2", "3.9.1")),
    "the content of a LeaderAndIsr": (leader_and_isr, RELEASES),
    "an acknowledgement's offset": (acknowledged_offset, RELEASES),
    "a snapshot's bytes": (bytes_of_the_last_batch, RELEASES),
    "a snapshot's last batch": (a_batch_less, RELEASES),
    "the epoch cache": (epoch_cache, ("1.1.1", "2.0.1", "2.8.2", "3.9.1")),
    "the checkpointed high watermark": (high_watermark_on_disk, RELEASES),
}
LATE = ("a diverging epoch", "a snapshot's bytes", "a snapshot's last batch", "the epoch cache")
"""What stands near the end of a run, and is found after a long search."""


@pytest.mark.parametrize(
    "release",
    # To judge a golden run, as quick tests do, is to follow it.
    [pytest.param(each, marks=pytest.mark.slow if each in QUICK else ()) for each in RELEASES],
)
def test_a_golden_run_is_followed_to_its_end(release: str):
    prediction = follow(recorded(release))
    assert prediction.emptied_by is None
    assert prediction.limit == ""
    assert list(prediction.snapshots) == ["level", "before-healing", "final"]


@pytest.mark.parametrize(
    ("planted", "release"),
    [
        pytest.param(
            planted,
            release,
            id=f"{planted}-{release}",
            marks=() if release == RELEASES[-1] and planted not in LATE else pytest.mark.slow,
        )
        for planted, (_, releases) in PLANTED.items()
        for release in releases
    ],
)
def test_a_planted_observation_is_found_and_named(planted: str, release: str):
    change, _ = PLANTED[planted]
    changed, source = with_first(release, change)

    emptied_by = follow(changed).emptied_by

    assert emptied_by is not None
    assert emptied_by.source == source


# On 0.10.2.2 another way goes as far and ends at a message, so the decision is not what is named.
@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES[1:])
def test_a_follower_in_the_isr_before_it_has_fetched_is_found_and_named(release: str):
    whole = recorded(release)
    decided = list(whole.decided)
    registered = max(
        index for index, each in enumerate(decided) if isinstance(each.what, m.BrokerRegistered)
    )
    grown = decided[registered + 1]
    assert isinstance(grown.what, m.PartitionState)
    assert grown.what.isr == (0, 1)
    decided[registered + 1] = replace(grown, time=decided[registered].time - 1)

    emptied_by = follow(replace(whole, decided=tuple(decided))).emptied_by

    assert emptied_by is not None
    assert emptied_by.source == f"zxid 0x{grown.what.zxid:x}"


@pytest.mark.parametrize("release", each_release(RELEASES))
def test_a_dropped_leader_and_isr_is_found_where_its_broker_acts_on_it(release: str):
    def reaches_the_follower(what: object) -> bool:
        return isinstance(what, m.ControlSent) and bool(what.states) and what.broker == 1

    emptied_by = follow(without_first(release, reaches_the_follower)).emptied_by

    assert emptied_by is not None
    assert (emptied_by.what, emptied_by.why) == (
        "RequestSeen",
        "broker 1 has no fetcher for broker 0",
    )


@pytest.mark.parametrize("release", ASKING)
def test_a_dropped_question_for_a_leader_epoch_is_found_at_the_next_request(release: str):
    def asks_for_an_epoch(what: object) -> bool:
        return isinstance(what, m.RequestSeen) and isinstance(what.partitions.get(T), m.EpochAsked)

    emptied_by = follow(without_first(release, asks_for_an_epoch)).emptied_by

    assert emptied_by is not None
    assert (emptied_by.what, "truncating" in emptied_by.why) == ("RequestSeen", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "other"),
    [
        ("0.10.2.2", "0.11.0.3"),
        ("0.11.0.3", "0.10.2.2"),
        ("1.1.1", "2.0.1"),
        ("2.0.1", "1.1.1"),
        ("2.6.3", "2.8.2"),
        ("2.8.2", "2.6.3"),
        ("3.9.1", "2.0.1"),
    ],
)
def test_a_run_is_not_explained_by_the_rules_of_another_release(release: str, other: str):
    rules = dict.fromkeys((0, 1, 2), generation_for(other))
    assert follow(recorded(release), generations=rules).emptied_by is not None


@pytest.mark.slow
def test_ten_partitions_that_their_leader_refuses_at_first_take_few_states():
    whole = recorded("0.11.0.0")
    prediction = follow(with_partitions(whole, 10), patience=2_000)
    assert (prediction.limit, prediction.emptied_by) == ("", None)


def test_a_run_without_links_is_predicted_from_events_alone(tmp_path: Path):
    run = unpacked("2.0.1", tmp_path)
    (run.path / "links.jsonl").unlink()
    evidence = RunEvidence(run)

    prediction = predict_run(evidence)

    assert prediction == predict(tuple(timed.event for timed in evidence.events))
    assert prediction.states == 0
    assert set(prediction.snapshots) == {"level", "before-healing", "final"}


def test_a_run_whose_links_saw_no_control_request_is_predicted_from_events_alone(tmp_path: Path):
    run = unpacked("2.0.1", tmp_path)
    file = run.path / "links.jsonl"
    kept = [
        line
        for line in file.read_text().splitlines(keepends=True)
        if json.loads(line)["api"] in ("Fetch", "OffsetForLeaderEpoch")
    ]
    file.write_text("".join(kept))
    evidence = RunEvidence(run)

    prediction = predict_run(evidence)

    assert evidence.rounds
    assert prediction == predict(tuple(timed.event for timed in evidence.events))
