"""KAFKA-6361 as run directories, with the logs that real brokers left behind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kchaos.checkers import acts
from kchaos.checkers.run_directory import RunDirectory
from tests.support.run_builder import Log, RunBuilder, values

A, B, K = 0, 1, 2
SESSION_A, SESSION_B, SESSION_B_AGAIN = 0x10, 0x11, 0x12
BOTH = (0, 1, values("both", 11))
A_ONLY = (11, 1, values("a-only", 10))
A_AGAIN = (21, 3, values("a-again", 10))
PROBE = (31, 3, ["settle-t-0"])
LOG_OF_A = [BOTH, A_ONLY, A_AGAIN, PROBE]


def b_only(count: int) -> tuple[int, int, list[str]]:
    return (11, 2, values("b-only", count))


ONE_RECORD = [(11 + i, 2, [f"b-only-{i}"]) for i in range(15)]
STOPPED = {
    "kind": "replication-stopped",
    "broker": B,
    "topic": "t",
    "partition": 0,
    "detail": "[ReplicaFetcher replicaId=1, leaderId=0, fetcherId=0] Error due to",
}
CASES: dict[tuple[str, str], dict[str, Any]] = {
    ("n15", "1.1.1"): {"b": [BOTH, b_only(5)], "isr": [A], "reasons": [STOPPED]},
    ("n20", "1.1.1"): {"b": [BOTH, b_only(10), A_AGAIN, PROBE]},
    # The truncation to 21 lies behind the start of epoch 2, whose entry stays.
    ("n25", "1.1.1"): {"b": [BOTH, A_AGAIN, PROBE], "epochs": [(1, 0), (2, 11), (3, 21)]},
    ("one-record", "1.1.1"): {"b": [BOTH, *ONE_RECORD[:10], A_AGAIN, PROBE]},
    ("n15", "2.0.1"): {"b": LOG_OF_A},
    ("n20", "2.0.1"): {"b": LOG_OF_A},
    ("n25", "2.0.1"): {"b": LOG_OF_A},
    ("one-record", "2.0.1"): {"b": LOG_OF_A},
}
RECORDS_OF_B = {"n15": 5, "n20": 10, "n25": 15, "one-record": 15}


def epochs_of(log: Log) -> list[tuple[int, int]]:
    """One entry where each leader epoch begins."""
    entries: dict[int, int] = {}
    for base_offset, leader_epoch, _ in log:
        entries.setdefault(leader_epoch, base_offset)
    return sorted(entries.items())


def kafka_6361(
    path: Path, case: str, release: str, *, expectation: Mapping[str, Any] | None = None
) -> RunDirectory:
    """The sealed run of one case on one release."""
    shape = CASES[case, release]
    build = RunBuilder(path, expectation=expectation, release=release).begin_with(3)
    build.topic("t", [A, B]).state(A, 0, [A, B])
    build.topic("t", [B, A]).state(A, 1, [A, B])
    build.produce("both", A, values("both", 11), acks=-1, base_offset=0)
    build.act(acts.CutLink(source=A, target=B))
    build.produce("a-only", A, values("a-only", 10), acks=1, base_offset=11)
    build.state(B, 2, [A, B])
    _b_writes(build, case)
    build.close_session(SESSION_B).state(A, 3, [A])
    build.produce("a-again", A, values("a-again", 10), acks=1, base_offset=21)
    before = [BOTH, *(ONE_RECORD if case == "one-record" else [b_only(RECORDS_OF_B[case])])]
    logs = {A: LOG_OF_A[:-1], B: before, K: []}
    build.snapshot(
        "before-healing",
        {A: logs[A], B: logs[B]},
        is_final=False,
        epochs={A: epochs_of(logs[A]), B: epochs_of(before)},
        high_watermarks={A: 31, B: 11},
    )
    build.act(acts.HealLink(source=A, target=B))
    build.register(B, SESSION_B_AGAIN)
    if "isr" not in shape:
        build.state(A, 3, [A, B], session=SESSION_A)
    build.produce("settle-t-0", A, ["settle-t-0"], acks=-1, base_offset=31)
    # The first question is that of the empty log, when the topic was made.
    if release == "1.1.1":
        build.epoch_round(B, A, -1, None, -1).epoch_round(B, A, 2, None, 21)
    else:
        build.epoch_round(B, A, -1, -1, -1).epoch_round(B, A, 2, 1, 21)
    build.server_log(B, "INFO Truncating t-0 to 11 has nothing to do with this\n")
    build.snapshot(
        "final",
        {A: LOG_OF_A, B: shape["b"]},
        epochs={A: epochs_of(LOG_OF_A), B: shape.get("epochs", epochs_of(shape["b"]))},
        high_watermarks={A: 32, B: 11 if "isr" in shape else 32},
    )
    state = "failed" if "isr" in shape else "converged"
    return build.seal(settle=state, reasons=shape.get("reasons", ()))


def _b_writes(build: RunBuilder, case: str) -> None:
    if case != "one-record":
        build.produce("b-only", B, b_only(RECORDS_OF_B[case])[2], acks=1, base_offset=11)
        return
    for index, (offset, _, records) in enumerate(ONE_RECORD):
        build.produce(f"b-only.{index}", B, records, acks=1, base_offset=offset)
