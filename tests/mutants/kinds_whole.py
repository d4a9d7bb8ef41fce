"""Changes that take out what tells, so that nothing is left to compare the rest with."""

import json
from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import NotApplicableError, RunCopy, is_of, more, put

ABOUT, SCENARIO, ACTIONS, LINKS = "run.json", "scenario.json", "actions.jsonl", "links.jsonl"
SEEN, OUTCOME = "observations.jsonl", "outcome.json"
_ANOTHER = {"1.1.1": "1.1.0", "2.0.1": "2.0.0", "2.8.2": "2.8.1", "3.9.1": "3.9.0"}


def _of_final(run: RunCopy) -> str:
    return f"snapshots/{run.final()}/snapshot.json"


@kind("whole: a snapshot without its zxid, with an ISR of the leader alone")
def _hidden(run: RunCopy) -> str:
    partition, state = run.state_of_final()

    def edit(value: dict[str, Any]) -> None:
        value.pop("zxid", None)
        value["states"][partition]["isr"] = [state["leader"]]

    return run.edit_json(_of_final(run), edit)


def _no_snapshot(run: RunCopy, *, is_seen: bool) -> str:
    labels = [
        name.split("/")[1]
        for name in run.names("snapshots/*/snapshot.json")
        if not run.json(name)["is_final"]
    ]
    label = run.pick(labels, "earlier snapshot")
    run.remove(f"snapshots/{label}")
    run.drop_lines(ACTIONS, lambda line: line["action"].get("label") == label)
    if not is_seen:
        run.drop_lines(SEEN, lambda line: line.get("why") == f"snapshot {label}")
    return label


add("whole: an earlier snapshot and its action", lambda run: _no_snapshot(run, is_seen=True))
add("whole: all that tells of an earlier snapshot", lambda run: _no_snapshot(run, is_seen=False))


def _as(release: Callable[[str], str], *files: str) -> Callable[[RunCopy], str]:
    """Writes another release over the one that was played, wherever files name it."""

    def mutate(run: RunCopy) -> str:
        own = run.json(ABOUT)["release"]
        other = release(own)
        for name in files:
            run.write(name, run.content(name).replace(own.encode(), other.encode()))
        return f"{own} as {other}"

    return mutate


def _patch(own: str) -> str:
    """A release of the same line, whose brokers speak alike."""
    if own not in _ANOTHER:
        raise NotApplicableError(f"no other release of the line of {own} is listed here")
    return _ANOTHER[own]


_TOLD = (ABOUT, SCENARIO, ACTIONS, SEEN)
add("whole: another release of the line is told", _as(_patch, *_TOLD))
add(
    "whole: a later release is told",
    _as(lambda own: "2.2.2" if own < "2.2" else "3.9.1" if own != "3.9.1" else "3.8.1", *_TOLD),
)


@kind("whole: jars with other digests")
def _digests(run: RunCopy) -> str:
    def edit(value: dict[str, Any]) -> None:
        value["jars"] = {kafka: dict.fromkeys(jars, "0" * 64) for kafka, jars in _jars(value)}

    return run.edit_json(ABOUT, edit)


def _jars(value: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
    return list(value["jars"].items())


@kind("whole: no links, says the scenario, and there are none")
def _not_linked(run: RunCopy) -> str:
    run.remove(LINKS)
    return run.edit_json(SCENARIO, lambda value: value["cluster"].update(linked=False))


@kind("whole: no links, says the run, and there are none")
def _unlinked(run: RunCopy) -> str:
    run.remove(LINKS)
    return run.edit_json(ABOUT, put(unlinked="no address"))


def _twice(name: str, file: str, field: str, value: object) -> None:
    """A name in an object twice: one reader takes the first value, another the last."""

    def mutate(run: RunCopy) -> str:
        pair = json.dumps({field: value})[1:-1]
        content = run.content(file).decode()
        if f'"{field}"' not in content:
            raise NotApplicableError(f"{file} has no {field}")
        at = content.index("{", content.index(f'"{field}"') - 200 if file == LINKS else 0)
        return run.write(file, (content[: at + 1] + pair + "," + content[at + 1 :]).encode())

    add(f"whole: {name}", mutate)


_twice("an acks that is said twice", "history.jsonl", "acks", 1)
_twice("a release that is said twice", ABOUT, "release", "0.10.2.2")


# What only runs have of which the brokers' own files were kept.
_PROPERTIES, _LOG = "brokers/0/server.properties", "brokers/0/server.log"
_UNCLEAN = "unclean.leader.election.enable"


def _set(name: str, before: str, after: str) -> None:
    def mutate(run: RunCopy) -> str:
        text = run.content(_PROPERTIES).decode()
        if before and before not in text:
            raise NotApplicableError(f"no {before}")
        return run.write(
            _PROPERTIES, (text.replace(before, after) if before else text + after).encode()
        )

    add(f"brokers: {name}", mutate)


_set("unclean elections in its own settings", f"{_UNCLEAN}=false", f"{_UNCLEAN}=true")
_set("another min.insync.replicas in its own settings", "insync.replicas=1", "insync.replicas=2")
_set("retention that nobody set", "", "log.retention.ms=1000\n")
_set(
    "another setting than the scenario's",
    "replica.fetch.wait.max.ms=200",
    "replica.fetch.wait.max.ms=900",
)
_set("no links by its own settings", "listeners=INTERNAL", "other=INTERNAL")
_set(
    "other addresses",
    "advertised.listeners=INTERNAL://127.0.0.1:",
    "advertised.listeners=INTERNAL://127.0.0.2:",
)
add("brokers: no settings", lambda run: run.remove(_PROPERTIES))
add("brokers: no log", lambda run: run.remove(_LOG))
add("brokers: settings that are none", lambda run: run.write(_PROPERTIES, b"\xff\x00 nothing\n"))
add("brokers: an empty log", lambda run: run.write(_LOG, b""))
add(
    "brokers: a log of another release",
    lambda run: run.write(
        _LOG, run.content(_LOG).replace(run.json(ABOUT)["release"].encode(), b"3.7.2")
    ),
)
add("brokers: another release of the line is told", _as(_patch, *_TOLD))


@kind("brokers: another release is told, with its digest")
def _with_digest(run: RunCopy) -> str:
    from kchaos.checkers.formats.kafka_jars import SERVER_JARS

    own = run.json(ABOUT)["release"]
    place = _as(_patch, *_TOLD)(run)
    if _ANOTHER[own] not in SERVER_JARS:
        raise NotApplicableError(f"no digest of {_ANOTHER[own]} is known")
    digest = SERVER_JARS[_ANOTHER[own]]
    run.write(ABOUT, run.content(ABOUT).replace(SERVER_JARS[own].encode(), digest.encode()))
    return place


@kind("brokers: no links, says the scenario, and no act at one")
def _no_link_at_all(run: RunCopy) -> str:
    run.remove(LINKS)
    at_links = ("CutLink", "HealLink", "Hold", "ReleaseHold")
    run.drop_lines(ACTIONS, lambda line: line["action"]["event"] in at_links)
    return run.edit_json(SCENARIO, lambda value: value["cluster"].update(linked=False))


def _beside(name: str, file: str, content: bytes | None = None) -> None:
    """One more file beside a replica's segments, counted."""

    def mutate(run: RunCopy) -> str:
        directory = run.in_sync_directory()
        segment = run.content(f"{directory}/{SEGMENT}")
        run.write(f"{directory}/{file}", segment if content is None else content)
        return _counted(run, directory)

    add(f"whole: {name}", mutate)


def _counted(run: RunCopy, directory: str) -> str:
    broker = directory.split("/")[2].removeprefix("broker-")

    def edit(value: dict[str, Any]) -> None:
        value["brokers"][broker]["files"] += 1

    run.edit_json(_of_final(run), edit)
    return directory


SEGMENT = "00000000000000000000.log"
_beside("an empty segment far behind the end", "00000000000000000052.log", b"")
_beside("a segment that was being swapped", f"{SEGMENT}.swap")
_beside("a segment that was being cleaned", f"{SEGMENT}.cleaned")
_beside("a segment that was being deleted", f"{SEGMENT}.deleted")
_beside("a file that nobody writes", "records.txt")


@kind("whole: a log cleaner has noted the partition")
def _noted(run: RunCopy) -> str:
    directory = run.in_sync_directory()
    root, _, partition = directory.rpartition("/")
    topic, _, number = partition.rpartition("-")
    run.write(f"{root}/cleaner-offset-checkpoint", f"0\n1\n{topic} {number} 3\n".encode())
    return _counted(run, directory)


def _exchange_gone(name: str, api: str, directions: tuple[str, ...]) -> None:
    """Messages of one exchange taken out, and the rest numbered anew."""

    def mutate(run: RunCopy) -> str:
        lines = run.lines(LINKS)
        of = [(line["connection"], line["correlation_id"]) for line in lines if is_of(line, api)]
        last = {connection: number for connection, number in of}
        first = {connection: number for connection, number in reversed(of)}
        inner = [each for each in of if first[each[0]] < each[1] < last[each[0]]]
        gone = run.pick(inner, f"{api} between two others")
        kept = [
            line
            for line in lines
            if (line["connection"], line["correlation_id"]) != gone
            or line["direction"] not in directions
        ]
        run.write_lines(LINKS, [each | {"sequence": at + 1} for at, each in enumerate(kept)])
        return f"{api} {gone}"

    add(f"whole: {name}", mutate)


_BOTH = ("request", "response")
_exchange_gone("an exchange of UpdateMetadata is gone", "UpdateMetadata", _BOTH)
_exchange_gone("an exchange of LeaderAndIsr is gone", "LeaderAndIsr", _BOTH)
_exchange_gone("an answer to UpdateMetadata is gone", "UpdateMetadata", ("response",))
_exchange_gone("an answer to LeaderAndIsr is gone", "LeaderAndIsr", ("response",))


@kind("whole: a client's timestamps of the day before")
def _older_timestamps(run: RunCopy) -> str:
    """Of a write that was acknowledged: no batch says when a refused one was sent."""
    lines = run.lines("history.jsonl")
    acknowledged = {line["operation"] for line in lines if line["type"] == "ok"}
    return run.edit_line(
        "history.jsonl",
        more("timestamp_ms", -86_400_000),
        lambda line: "timestamp_ms" in line and line["operation"] in acknowledged,
        "timestamp",
    )
