"""One small literal run for the report's tests, its judgement, and a reader of pages."""

import json
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from kchaos.checkers.observations import Broker, Healed, Injected
from kchaos.checkers.run_directory import RunDirectory
from tests.support.run_builder import START, RunBuilder

VOID = {"meta", "br", "hr", "img", "input", "link"}
BOTH = (0, 1, ["both-0", "both-1"])
A_ONLY = (2, 1, ["a-only-0", "a-only-1"])
B_ONLY = (2, 2, ["b-only-0", "b-only-1"])
A_AGAIN = (4, 3, ["a-again-0"])
DIVERGENCE: dict[str, Any] = {
    "kind": "divergence",
    "topic": "t",
    "partition": 0,
    "brokers": [0, 1],
    "first_offset": 2,
    "last_offset": 3,
    "snapshot": "final",
    "message": "brokers 0 and 1 hold different records at offsets 2 to 3",
    "evidence": {"0": {"leader_epoch": 1}, "1": {"leader_epoch": 2}},
}


def diverged(path: Path, *, logs: Mapping[int, Any] | None = None, **scenario: Any) -> RunBuilder:
    """A run in which broker 1 holds other records at 2-3 than broker 0; not sealed yet."""
    build = RunBuilder(path, release="1.1.1")
    (path / "scenario.json").write_text(json.dumps({"steps": [], "expectation": None} | scenario))
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 1, [0, 1])
    build.produce("both", 0, BOTH[2], acks=-1, base_offset=0)
    build.observe(injected("A-B", "CutLink"), -1)
    build.produce("a-only", 0, A_ONLY[2], acks=1, base_offset=2)
    build.state(1, 2, [0, 1])
    build.produce("refused", 1, ["x"], acks=-1, error="NotLeaderForPartition", error_code=6)
    build.close_session(0x11).state(0, 3, [0]).register(1, 0x12)
    looked = Broker(why="look", broker=1, pid=77, czxid=build.zxid, session_id=0x12, znode=None)
    build.observe(looked, -1)
    build.observe(Healed(name="A-B"), -1)
    build.link(wall_time_s=build.tick(), detail=asked(2))
    build.link(wall_time_s=build.tick(), direction="response", detail=answered(4))
    build.snapshot(
        "final",
        logs or {0: [BOTH, A_ONLY, A_AGAIN], 1: [BOTH, B_ONLY, A_AGAIN]},
        epochs={0: [(1, 0), (3, 4)], 1: [(1, 0), (2, 2), (3, 4)]},
        high_watermarks={0: 5, 1: 4},
        probed=False,
    )
    return build


def injected(name: str, fault: str, *, lasting: bool = True) -> Injected:
    return Injected(name=name, fault=fault, lasting=lasting, before={}, effect={})


def asked(leader_epoch: int) -> dict[str, Any]:
    return {"partitions": [{"topic": "t", "partition": 0, "leader_epoch": leader_epoch}]}


def answered(end_offset: int) -> dict[str, Any]:
    fields = {"topic": "t", "partition": 0, "error_code": 0, "leader_epoch": None}
    return {"partitions": [fields | {"end_offset": end_offset}]}


def batches_of(run: RunDirectory, broker: int) -> list[dict[str, Any]]:
    """What the broker's final log holds, in the form of a prediction."""
    from kchaos.checkers.segments.directory import read_partition

    contents = read_partition(run.path / f"snapshots/final/broker-{broker}/t-0")
    names = ("base_offset", "last_offset", "leader_epoch", "magic", "payload")
    return [{name: getattr(batch, name) for name in names} for batch in contents.batches]


def prediction_of(run: RunDirectory) -> dict[str, Any]:
    """A prediction that agrees with what is on disk, in everything."""
    entries = {0: [[1, 0], [3, 4]], 1: [[1, 0], [2, 2], [3, 4]]}
    replicas = [
        {
            "broker": broker,
            "topic": "t",
            "partition": 0,
            "batches": batches_of(run, broker),
            "epoch_entries": entries[broker],
            "log_end_offset": 5,
            "high_watermarks": [4 + (broker == 0)],
            "fetcher": "none",
            "is_running": True,
        }
        for broker in (0, 1)
    ]
    question = {"follower": 1, "leader": 0, "topic": "t", "partition": 0, "by_fetch": False}
    return {
        "snapshots": {"final": replicas},
        "produces": [
            {"operation": "both", "acknowledged": True, "base_offset": 0, "error": ""},
            {"operation": "a-only", "acknowledged": True, "base_offset": 2, "error": ""},
        ],
        "rounds": [question | {"requested_epoch": 2, "answered_epoch": None, "end_offset": 4}],
        "truncations": [],
        "disallowed": [],
        "generations": {"0": "KIP-101", "1": "KIP-101"},
    }


def judge_as(
    run: RunDirectory,
    *,
    findings: Sequence[Mapping[str, Any]] = (),
    prediction: Mapping[str, Any] | None = None,
    **results: Any,
) -> RunDirectory:
    """Writes a literal judgement: conforms, unsafe, expected, unless `results` says otherwise."""
    answers = {"conforms": True, "safe": False, "expected": True, "unknown": None, "seconds": 4.2}
    with run.new_judgement() as folder:
        (folder / "results.json").write_text(json.dumps(answers | results))
        lines = "".join(json.dumps(finding) + "\n" for finding in findings)
        (folder / "findings.jsonl").write_text(lines)
        (folder / "prediction.json").write_text(json.dumps(prediction))
    return run


def judged(path: Path, **scenario: Any) -> RunDirectory:
    """The diverged run, sealed and judged, with a prediction that agrees."""
    run = diverged(path, **scenario).seal()
    return judge_as(run, findings=[DIVERGENCE], prediction=prediction_of(run))


class Page(HTMLParser):
    """Reads a page as strictly as a person would: what opens must close, in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.problems: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        self.problems += [f"<{tag}> never ends" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.problems.append(f"</{tag}> at {self.getpos()} closes {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open[-1:]):
            self.words.append(data)

    @property
    def text(self) -> str:
        """What a reader sees, blanks made one."""
        return " ".join(" ".join(self.words).split())

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] or "" for _, attributes in self.tags if "id" in attributes]

    def with_class(self, *names: str) -> list[dict[str, str | None]]:
        """Attributes of every element that has all these classes."""
        return [
            attributes
            for _, attributes in self.tags
            if set(names) <= set((attributes.get("class") or "").split())
        ]


__all__ = ["START", "Page", "diverged", "injected", "judge_as", "judged", "prediction_of"]
