"""A run in which a leader kept a follower's fetch, dropped the follower, and died (KIP-501)."""

import json
from pathlib import Path
from typing import Any

from kchaos.checkers import acts
from tests.support.run_builder import RunBuilder, values


def slow_reads_run(path: Path, *, is_told: bool = False) -> RunBuilder:
    """Broker 0 leads t, 1 follows, 2 is the controller; lag 3 s; a second from line to line.

    The leader told what it knew; the follower's fetch waited before it was read, and the leader
    was started again in the end. Not sealed yet.

    Args:
        is_told: Whether nothing held the fetch, and the leader told that it began to read for it.
    """
    build = RunBuilder(path, release="2.8.2")
    _rewrite(path / "scenario.json", cluster={"properties": {"replica.lag.time.max.ms": "3000"}})
    _rewrite(path / "run.json", brokers={"0": {"release": "2.8.2", "judged_as": "2.8.2"}})
    build.begin_with(3).topic("t", [0, 1]).state(0, 0, [0, 1])
    build.produce("both", 0, values("both", 1), acks=-1, base_offset=0)
    fetched = build.clock
    look(build, fetched, end=1)
    point, fate = ("fetch-begun", "told") if is_told else ("fetch-read", "held")
    kept = hit(build, 3, point, "(t-0,PartitionData(fetchOffset=1, x))", fate)
    build.run.append("hits.jsonl", kept | {"reader": "1"})
    build.produce("alone", 0, values("alone", 1), acks=1, base_offset=1)
    look(build, fetched, end=2)
    look(build, fetched, end=2)
    build.state(0, 0, [0], session=0x10)
    build.act(acts.StopBroker(broker=0, clean=False))
    build.state(-1, 1, [0])
    build.close_session(0x10).register(0, 0x12)
    return build.state(0, 2, [0])


def look(build: RunBuilder, fetched: float, *, end: int) -> None:
    """The leader looks who is in sync; the follower fetched at 1 last, some time ago."""
    at = int(fetched * 1000)
    seen = (
        f"now={int((build.clock + 1) * 1000)} partition=t-0 logEndOffset={end} Iterable(Replica("
        f"replicaId=1, topic=t, partition=0, lastCaughtUpTimeMs={at}, logStartOffset=0, "
        f"logEndOffset=1, lastFetchLeaderLogEndOffset=1, lastFetchTimeMs={at}))"
    )
    build.run.append("hits.jsonl", hit(build, 1, "isr-check", seen, "told"))


def hit(build: RunBuilder, number: int, point: str, seen: str, fate: str) -> dict[str, Any]:
    """A line of hits.jsonl."""
    held = {"reader": "1", "hold": "slow"} if fate == "held" else {"reader": "", "hold": ""}
    fields = {"time": build.tick(), "number": number, "broker": 0, "life": 1, "point": point}
    return {**fields, "thread": "handler-0", "seen": seen, "fate": fate, **held}


def _rewrite(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
