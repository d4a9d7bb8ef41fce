"""Run directories with something wrong in each, and the eight of KAFKA-6361."""

import json
import shutil
from pathlib import Path
from typing import Any

from kchaos.checkers import acts
from kchaos.checkers.acts import STALE_CLIENT_ID
from kchaos.checkers.model import events
from kchaos.checkers.run_directory import RunDirectory
from tests.support.clean_runs import clean_run, clean_snapshot
from tests.support.hostile_runs import hostile_runs
from tests.support.kafka_6361_runs import BOTH, CASES, STOPPED, kafka_6361
from tests.support.kraft_runs import kraft_run, kraft_snapshot
from tests.support.run_builder import RunBuilder, create_body, values

SEGMENT = "00000000000000000000.log"


def all_runs(folder: Path) -> list[Path]:
    """Every run, each in a folder of its name."""
    runs = [kafka_6361(folder / f"{case}-{release}", case, release).path for case, release in CASES]
    expectation = {
        "safe": False,
        "findings": [{"kind": "hole", "brokers": [1], "first_offset": 11, "last_offset": 20}],
        "witness": [{"round": {"follower": 1, "leader": 0, "end_offset": 21}}],
    }
    with_one = kafka_6361(folder / "as-expected", "n25", "1.1.1", expectation=expectation)
    planted = (
        corrupt_batch,
        torn_segment_before_the_last,
        segment_without_an_offset,
        unreadable_epoch_cache,
        unsealed,
        changed_after_the_seal,
        reason_without_a_kind,
        act_of_another_type,
        setting_of_another_type,
        impossible_action,
        impossible_high_watermarks,
        two_topics,
        follower_dropped_while_it_waits,
        late_request_obeyed,
        written_by_others,
        deleted_by_others,
        kraft_with_a_loss,
        kraft_without_definitions,
    )
    made = [make(folder / make.__name__.replace("_", "-")).path for make in planted]
    nothing = folder / "nothing"
    nothing.mkdir()
    # Spark waits for that pattern as plain Python does, 20 s.
    hostile = hostile_runs(folder, but="pattern-without-end")
    return [*runs, with_one.path, *made, nothing, *hostile]


def kraft_with_a_loss(path: Path) -> RunDirectory:
    """A KRaft cluster whose replicas both lack two records that were promised."""
    return kraft_snapshot(kraft_run(path), end=9).seal()


def kraft_without_definitions(path: Path) -> RunDirectory:
    """A KRaft cluster whose metadata log nobody can read."""
    build = kraft_snapshot(kraft_run(path))
    return build.seal(before=lambda run: shutil.rmtree(run.path / "metadata" / "definitions"))


def clean(path: Path) -> RunBuilder:
    """Two replicas that agree, up to their last snapshot; not sealed."""
    build = RunBuilder(path).begin_with(3)
    build.topic("t", [0, 1]).state(0, 0, [0, 1])
    build.produce("both", 0, values("both", 11), acks=-1, base_offset=0)
    log = [(0, 0, BOTH[2])]
    same = {0: log, 1: log}
    build.snapshot("before-healing", same, is_final=False, high_watermarks={0: 11, 1: 11})
    build.snapshot("final", same, high_watermarks={0: 11, 1: 11})
    return build


def written_by_others(path: Path) -> RunDirectory:
    """Somebody wrote after kchaos, and the replicas hold other records of theirs."""
    build = clean_run(path)
    build.produce("settle-t-0", 0, ["settle-t-0"], acks=-1, base_offset=13)
    logs = {
        broker: [(0, 1, BOTH[2]), (11, 1, [mine, "both"]), (13, 1, ["settle-t-0"])]
        for broker, mine in enumerate(("mine", "other"))
    }
    return build.snapshot("final", logs, high_watermarks={0: 14, 1: 14}).seal()


def deleted_by_others(path: Path) -> RunDirectory:
    """A topic of its own is gone at the end."""
    build = clean_run(path)
    build.topic("u", [0, 1]).state(0, 0, [0, 1], topic="u")
    build.produce("gone", 0, ["gone"], acks=-1, base_offset=0, topic="u")
    return clean_snapshot(build.delete_topic("u")).seal()


def follower_dropped_while_it_waits(path: Path) -> RunDirectory:
    """Broker 0 keeps 1's fetch, shrinks the ISR and dies; then all is well."""
    build = clean(path)
    hit = {"number": 1, "broker": 0, "life": 1, "point": "fetch-read", "thread": "handler-0"}
    more = {"reader": "1", "seen": "", "hold": "slow"}
    build.run.append("hits.jsonl", {"time": build.tick(), **hit, **more, "fate": "held"})
    build.state(0, 0, [0])
    build.run.append("hits.jsonl", {"time": build.tick(), **hit, **more, "fate": "gone"})
    build.state(-1, 1, [0]).state(0, 2, [0]).state(0, 2, [0, 1])
    log = [(0, 0, BOTH[2])]
    build.snapshot("last", {0: log, 1: log}, high_watermarks={0: 11, 1: 11})
    return build.seal()


def corrupt_batch(path: Path) -> RunDirectory:
    build = clean(path)
    damage(path / "snapshots/final/broker-1/t-0" / SEGMENT, at=70)
    return build.seal()


def torn_segment_before_the_last(path: Path) -> RunDirectory:
    build = clean(path)
    replica = path / "snapshots/final/broker-1/t-0"
    whole = (replica / SEGMENT).read_bytes()
    build.copied("final", 1, "t-0/00000000000000000007.log", "")
    shutil.copy(replica / SEGMENT, replica / "00000000000000000007.log")
    (replica / SEGMENT).write_bytes(whole + whole[:30])
    return build.seal()


def segment_without_an_offset(path: Path) -> RunDirectory:
    build = clean(path)
    (path / "snapshots/final/broker-1/t-0/copy-of-a-segment.log").write_bytes(b"")
    return build.seal()


def unreadable_epoch_cache(path: Path) -> RunDirectory:
    build = clean(path)
    build.copied("final", 0, "t-0/leader-epoch-checkpoint", "0\n2\n0 0\n")
    return build.seal()


def unsealed(path: Path) -> RunDirectory:
    build = clean(path)
    build.write_zookeeper()
    return build.run


def changed_after_the_seal(path: Path) -> RunDirectory:
    run = clean(path).seal()
    damage(path / "snapshots/final/broker-0/t-0" / SEGMENT, at=70)
    return run


def reason_without_a_kind(path: Path) -> RunDirectory:
    without = {name: value for name, value in STOPPED.items() if name != "kind"}
    return clean(path).seal(settle="failed", reasons=[without])


def impossible_action(path: Path) -> RunDirectory:
    build = clean(path)
    build.act(acts.StartBroker(broker=0, release="1.1.1"))
    return build.seal()


def setting_of_another_type(path: Path) -> RunDirectory:
    config = json.dumps({"version": 1, "config": {"min.insync.replicas": "two"}}).encode()
    build = clean(path)
    build.write(1, create_body("/config/topics/t", config))
    return build.seal()


def act_of_another_type(path: Path) -> RunDirectory:
    build = clean(path)
    wrong: Any = "two"
    build.act(acts.StartBroker(broker=0, release="1.1.1", min_insync_replicas=wrong))
    return build.seal()


def impossible_high_watermarks(path: Path) -> RunDirectory:
    build = clean(path)
    for broker in (0, 7):
        observed = events.HighWatermarkObserved(
            broker=broker, topic="t", partition=0, high_watermark=99
        )
        build.act(observed)
    return build.seal()


def two_topics(path: Path) -> RunDirectory:
    build = clean(path)
    build.topic("other", [1, 0]).state(1, 0, [1, 0], topic="other")
    build.produce("apart", 1, values("apart", 3), acks=-1, base_offset=0, topic="other")
    log = [(0, 0, values("apart", 3))]
    build.snapshot("last", {0: log, 1: []}, topic="other")
    return build.seal()


def late_request_obeyed(path: Path) -> RunDirectory:
    """Broker 1 obeys what was meant for its first registration, and is told nothing of t-0."""
    build = clean(path)
    build.close_session(0x11).register(1, 0x12)
    late = {
        "api": "StopReplica",
        "api_key": 5,
        "correlation_id": 1,
        "source": 2,
        "target": 1,
        "client_id": STALE_CLIENT_ID,
    }
    fields = {"topic": "t", "partition": 0}
    asked = {"controller_id": 2, "controller_epoch": 1, "partitions": [fields]}
    build.link(**late, detail=asked)
    build.link(**late, direction="response", detail={"error_code": 0, "partitions": [fields]})
    other = late | {"api": "LeaderAndIsr", "api_key": 4, "client_id": "2", "target": 0}
    other |= {"connection": 2}
    told = fields | {"leader": 0, "leader_epoch": 0, "isr": [0, 1], "controller_epoch": 1}
    build.link(**other, detail=asked | {"partitions": [told]})
    build.link(**other, direction="response", detail={"error_code": 0, "partitions": [fields]})
    made = acts.StaleRequest(api="StopReplica", broker=1, target=1, version=0, generation=4)
    detail = "broker 0 is named as leader and answers error 6 to a write"
    reason = {"kind": "offline-partition", "broker": -1, "topic": "t", "partition": 0}
    return build.act(made).seal(settle="stalled", reasons=[reason | {"detail": detail}])


def damage(file: Path, *, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 0xFF
    file.write_bytes(content)
