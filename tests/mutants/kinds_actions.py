"""Changes to actions.jsonl: what the scenario says that it did."""

from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, RunCopy, more, put

ACTIONS = "actions.jsonl"


def _is(*events: str, **fields: Any) -> Callable[[Line], bool]:
    return lambda line: (
        line["action"]["event"] in events
        and all(line["action"].get(name) == value for name, value in fields.items())
    )


def _action(name: str, event: str, edit: Callable[[dict[str, Any]], object], **fields: Any) -> None:
    add(
        f"actions: {name}",
        lambda run: run.edit_line(
            ACTIONS, lambda line: edit(line["action"]), _is(event, **fields), event
        ),
    )


def _line(name: str, edit: Callable[[Line], object], *events: str) -> None:
    where = _is(*events) if events else lambda line: True
    add(f"actions: {name}", lambda run: run.edit_line(ACTIONS, edit, where, "action"))


def _without(name: str, event: str, **fields: Any) -> None:
    add(f"actions: {name}", lambda run: run.drop_line(ACTIONS, _is(event, **fields), event))


def _with(name: str, action: dict[str, Any], *, at: float = 0.6) -> None:
    def mutate(run: RunCopy) -> str:
        lines = run.lines(ACTIONS)
        index = int(len(lines) * at)
        lines.insert(index, {**lines[index], "action": action})
        run.write_lines(ACTIONS, lines)
        return f"{ACTIONS}:{index + 1}"

    add(f"actions: {name}", mutate)


_without("a snapshot is not there", "Snapshot")
_without("the last snapshot is not there", "Snapshot", label="final")
_action("a snapshot of another name", "Snapshot", put(label="elsewhere"))
_with("a snapshot that nobody took", {"event": "Snapshot", "label": "elsewhere"})
_action("a start of another release", "StartBroker", put(release="0.10.0.0"))
_action("a start of no release", "StartBroker", put(release="x"))
_action("a start with unclean elections", "StartBroker", put(unclean_leader_election=True))
_action("a start with another min.insync.replicas", "StartBroker", put(min_insync_replicas=3))
_action("a start with another message format", "StartBroker", put(message_format="0.9.0"))
_action("a start with another protocol", "StartBroker", put(inter_broker_protocol="0.10.2"))
_action("a start of another broker", "StartBroker", put(broker=5))
_without("a start is not there", "StartBroker")
_without("a stop is not there", "StopBroker")
_action(
    "a stop that is clean", "StopBroker", lambda action: action.update(clean=not action["clean"])
)
_action(
    "a stop with another checkpoint",
    "StopBroker",
    lambda action: action.update(
        checkpointed=[[*x[:2], x[2] + 1] for x in action["checkpointed"] or ()]
    ),
)
_action(
    "a stop with a checkpoint far behind",
    "StopBroker",
    lambda action: action.update(
        checkpointed=[[*x[:2], x[2] + 999] for x in action["checkpointed"] or ()]
    ),
)
_action("a stop without a checkpoint", "StopBroker", put(checkpointed=[]))
_action(
    "a stop of another broker",
    "StopBroker",
    lambda action: action.update(broker=1 - action["broker"]),
)
_without("a cut is not there", "CutLink")
_action("a cut one way", "CutLink", lambda action: action.update(one_way=not action["one_way"]))
_action("a cut of another name", "CutLink", put(name="other"))
_action("a cut of other brokers", "CutLink", put(target=2))
_with(
    "a cut that nobody made",
    {
        "event": "CutLink",
        "source": 0,
        "target": 1,
        "one_way": False,
        "style": "silent",
        "name": "x",
    },
    at=0.1,
)
_without("a healing is not there", "HealLink")
_without("a high watermark that was seen is not there", "HighWatermarkObserved")
_action(
    "a high watermark that was seen, higher", "HighWatermarkObserved", more("high_watermark", 1)
)
_action(
    "a high watermark that was seen, lower", "HighWatermarkObserved", more("high_watermark", -1)
)
_action("a high watermark that was seen, of another broker", "HighWatermarkObserved", put(broker=2))
_with(
    "a high watermark that nobody saw",
    {
        "event": "HighWatermarkObserved",
        "broker": 0,
        "topic": "t",
        "partition": 0,
        "high_watermark": 777,
    },
)
_with(
    "a tail that nobody took",
    {"event": "LoseTail", "broker": 0, "topic": "t", "partition": 0, "log_end_offset": 0},
    at=0.9,
)
_with("an event that is not known", {"event": "Explode"})
_with("an event with a field too many", {"event": "Snapshot", "label": "x", "more": 1})
_with("an event with a field too few", {"event": "Snapshot"})
_with("an event whose field is of another type", {"event": "StopBroker", "broker": "zero"})
_with(
    "a produce that is in no history",
    {
        "event": "Produce",
        "operation": "added",
        "broker": 0,
        "topic": "t",
        "partition": 0,
        "records": ["x"],
        "acks": 1,
        "codec": "none",
    },
)
_line("an earlier zxid", lambda line: line.update(zxid=max(0, line["zxid"] - 30)))
_line("a later zxid", more("zxid", 500))
_line("a zxid that is no number", put(zxid="x"))
_line("a zxid that is not finite", put(zxid=float("inf")))
_line("an hour later", more("time", 3600), "CutLink")
_line("an hour earlier", more("time", -3600), "HealLink")
_line("a time that is not finite", put(time=float("nan")))
_line("a beginning after the end", lambda line: line.update(began=line["time"] + 50), "StopBroker")
_line("a step that the scenario does not have", put(step=900))
_line("a step that is no number", put(step=[]))
_line("no action", put(action=None))


@kind("actions: two lines changed places")
def _swapped(run: RunCopy) -> str:
    lines = run.lines(ACTIONS)
    pairs = [
        index
        for index in range(len(lines) - 1)
        if {lines[index]["action"]["event"], lines[index + 1]["action"]["event"]}
        & {"StopBroker", "CutLink"}
        and lines[index]["action"]["event"] != lines[index + 1]["action"]["event"]
    ]
    at = run.pick(pairs, "two different actions")
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    run.write_lines(ACTIONS, lines)
    return f"{ACTIONS}:{at + 1}"


add(
    "actions: a line is there twice",
    lambda run: run.double_line(ACTIONS, _is("Snapshot"), "snapshot"),
)
add("actions: no file", lambda run: run.remove(ACTIONS))
add("actions: nothing in it", lambda run: run.write(ACTIONS, b""))
