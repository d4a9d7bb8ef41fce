"""Changes to ZooKeeper's transaction log: what the cluster decided."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import NotApplicableError, RunCopy, more, put
from tests.mutants.zookeeper_edits import (
    CLOSE,
    CREATE,
    SET,
    Transaction,
    create,
    edit_data,
    edit_version,
    index_of,
    inserted,
    log_name,
    set_to,
    take_effect,
    transactions,
    write,
    writes,
)

_STATE = "/state"
Value = dict[str, Any]


def _state(name: str, edit: Callable[[Value], object], *, last: bool = False) -> None:
    add(f"zookeeper: a state, {name}", lambda run: edit_data(run, _STATE, edit, last=last))


_state("another leader", lambda value: value.update(leader=1 - max(0, value["leader"])))
_state("the leader of a broker that never was", put(leader=9))
_state("no leader", put(leader=-1))
_state("another leader epoch", more("leader_epoch", 1))
_state("a negative leader epoch", put(leader_epoch=-4))
_state("an ISR with a stranger", lambda value: value.update(isr=[*value["isr"], 7]))
_state(
    "an ISR with one broker twice", lambda value: value.update(isr=[*value["isr"], value["isr"][0]])
)
_state("an empty ISR", put(isr=[]))
_state("the ISR of the leader alone", lambda value: value.update(isr=[value["leader"]]), last=True)
_state("another controller epoch", put(controller_epoch=5))
_state("a controller epoch of 0", put(controller_epoch=0))
_state("no ISR", lambda value: value.pop("isr"))
_state("an ISR that is no list", put(isr="all"))
_state("a leader that is no number", put(leader="one"))
_state("a leader epoch beyond 64 bits", put(leader_epoch=10**30))
add("zookeeper: a state, a version too high", lambda run: edit_version(run, _STATE, 7))
add("zookeeper: a state, a version too low", lambda run: edit_version(run, _STATE, -1))


def _controller(name: str, edit: Callable[[Value], object]) -> None:
    add(f"zookeeper: the controller, {name}", lambda run: edit_data(run, "/controller", edit))


_controller("another broker", lambda value: value.update(brokerid=(value["brokerid"] + 1) % 3))
_controller("a broker that never was", put(brokerid=9))
_controller("no broker", lambda value: value.pop("brokerid"))


def _topic(name: str, edit: Callable[[Value], object]) -> None:
    add(f"zookeeper: the topic, {name}", lambda run: edit_data(run, "/brokers/topics/t", edit))


_topic("other replicas", put(partitions={"0": [0, 2]}))
_topic("a replica more", put(partitions={"0": [0, 1, 2]}))
_topic("a partition more", lambda value: value["partitions"].update({"1": [0, 1]}))
_topic("no partitions", put(partitions={}))
_topic("partitions that are no object", put(partitions=[1]))


def _at(
    name: str,
    suffix: str,
    edit: Callable[[Transaction], Transaction | None],
    *,
    first: bool = False,
) -> None:
    def mutate(run: RunCopy) -> str:
        logged = transactions(run)
        index = index_of(run, logged, suffix, first=first)
        changed = edit(logged[index])
        where = f"zxid {logged[index].zxid}"
        write(run, logged[:index] + ([changed] if changed else []) + logged[index + 1 :])
        return where

    add(f"zookeeper: {name}", mutate)


_at("a state is not there", _STATE, lambda _: None)
_at("the topic is not there", "/brokers/topics/t", lambda _: None, first=True)
_at("the controller is not there", "/controller", lambda _: None)
_at("a registration is not there", "/brokers/ids/1", lambda _: None, first=True)
_at("another registration is not there", "/brokers/ids/0", lambda _: None, first=True)
_at(
    "a state by a session that nobody has",
    _STATE,
    lambda transaction: replace(transaction, session=12345),
)
_at(
    "a state an hour later",
    _STATE,
    lambda transaction: replace(transaction, time_ms=transaction.time_ms + 3_600_000),
)
_at(
    "a state an hour earlier",
    _STATE,
    lambda transaction: replace(transaction, time_ms=transaction.time_ms - 3_600_000),
)
_at(
    "a zxid far ahead",
    _STATE,
    lambda transaction: replace(transaction, zxid=transaction.zxid + 10_000),
)
_at("a type that is not known", _STATE, lambda transaction: replace(transaction, type=99))
_at("a body cut short", _STATE, lambda transaction: replace(transaction, body=transaction.body[:9]))


@kind("zookeeper: a state by another broker")
def _by_another(run: RunCopy) -> str:
    logged = transactions(run)
    index = index_of(run, logged, _STATE)
    sessions = {
        logged[i].session for i, _, _, path, _ in writes(logged) if path.startswith("/brokers/ids/")
    }
    other = run.pick(sorted(sessions - {logged[index].session}), "other session")
    logged[index] = replace(logged[index], session=other)
    write(run, logged)
    return f"zxid {logged[index].zxid}"


@kind("zookeeper: the end of a session is not there")
def _no_end(run: RunCopy) -> str:
    logged = transactions(run)
    owners = {
        logged[i].session for i, _, _, path, _ in writes(logged) if path.startswith("/brokers/ids/")
    }
    places = [i for i, each in enumerate(logged) if each.type == CLOSE and each.session in owners]
    index = run.pick(places, "session that ended")
    where = f"zxid {logged[index].zxid}"
    del logged[index]
    write(run, logged)
    return where


@kind("zookeeper: a session ends that went on")
def _ends(run: RunCopy) -> str:
    logged = transactions(run)
    owners = [
        logged[i].session
        for i, _, _, path, _ in writes(logged)
        if path.startswith("/brokers/ids/0")
    ]
    where = inserted(run, CLOSE, b"", session=run.pick(owners[-1:], "session"))
    return take_effect(run, where)


def _last_state(run: RunCopy) -> tuple[str, Value, int]:
    logged = transactions(run)
    states = [
        (path, data, index)
        for index, _, _, path, data in writes(logged)
        if path.endswith(_STATE) and "__" not in path
    ]
    if not states:
        raise NotApplicableError("no state was written")
    path, data, _ = states[-1]
    version = sum(state[0] == path for state in states)
    return path, json.loads(data), version


def _election(name: str, edit: Callable[[Value], object]) -> None:
    def mutate(run: RunCopy) -> str:
        path, value, version = _last_state(run)
        value["leader_epoch"] += 1
        edit(value)
        return take_effect(run, inserted(run, SET, set_to(path, value, version)), value)

    add(f"zookeeper: an election that nobody made, {name}", mutate)


def _other(value: Value) -> int:
    return next((each for each in value["isr"] if each != value["leader"]), 2)


_election("no leader although brokers live", put(leader=-1))
_election("a broker that never was", put(leader=9, isr=[9]))
_election("the other replica", lambda value: value.update(leader=_other(value)))
_election("a broker without a replica", put(leader=2, isr=[2]))
_election("the leader in a shrunk ISR", lambda value: value.update(isr=[value["leader"]]))
_election("an epoch that is skipped", more("leader_epoch", 5))


@kind("zookeeper: an ISR that nobody wrote")
def _isr(run: RunCopy) -> str:
    path, value, version = _last_state(run)
    value["isr"] = [value["leader"]]
    return take_effect(run, inserted(run, SET, set_to(path, value, version)), value)


@kind("zookeeper: the same state once more")
def _again(run: RunCopy) -> str:
    path, value, version = _last_state(run)
    return inserted(run, SET, set_to(path, value, version))


@kind("zookeeper: a topic that nobody made")
def _ghost(run: RunCopy) -> str:
    value = {"version": 1, "partitions": {"0": [0, 1]}}
    return inserted(run, CREATE, create("/brokers/topics/ghost", value))


@kind("zookeeper: a topic whose name is a path")
def _path(run: RunCopy) -> str:
    value = {"version": 1, "partitions": {"0": [0, 1]}}
    return inserted(run, CREATE, create("/brokers/topics/..", value))


@kind("zookeeper: a partition with a number of its own")
def _number(run: RunCopy) -> str:
    value = {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 0, "isr": [0]}
    return inserted(run, CREATE, create("/brokers/topics/t/partitions/99999999999/state", value))


@kind("zookeeper: a setting that nobody made")
def _setting(run: RunCopy) -> str:
    value = {"version": 1, "config": {"min.insync.replicas": "2"}}
    return inserted(run, SET, set_to("/config/topics/t", value, 1))


@kind("zookeeper: a setting that is no number")
def _no_number(run: RunCopy) -> str:
    value = {"version": 1, "config": {"min.insync.replicas": "many"}}
    return inserted(run, SET, set_to("/config/topics/t", value, 1))


add(
    "zookeeper: a controller that nobody elected",
    lambda run: inserted(run, CREATE, create("/controller", {"version": 1, "brokerid": 0})),
)


@kind("zookeeper: two transactions changed places")
def _swapped(run: RunCopy) -> str:
    logged = transactions(run)
    index = index_of(run, logged, _STATE)
    if index + 1 >= len(logged):
        raise NotApplicableError("the state is the last transaction")
    logged[index], logged[index + 1] = logged[index + 1], logged[index]
    write(run, logged)
    return f"zxid {logged[index].zxid}"


add("zookeeper: no log", lambda run: run.remove(log_name(run)))
add("zookeeper: no logs at all", lambda run: run.remove("zookeeper"))
add("zookeeper: nothing in the log", lambda run: run.write(log_name(run), b""))


@kind("zookeeper: the log ends in the middle")
def _cut(run: RunCopy) -> str:
    logged = transactions(run)
    last = index_of(run, logged, _STATE)
    return write(run, logged[:last])


@kind("zookeeper: the log begins in the middle")
def _beheaded(run: RunCopy) -> str:
    logged = transactions(run)
    return write(run, logged[index_of(run, logged, _STATE) :])


@kind("zookeeper: a bit of the log")
def _bit(run: RunCopy) -> str:
    name = log_name(run)
    content = bytearray(run.content(name).rstrip(b"\0"))
    at = run.draw.randrange(16, len(content))
    content[at] ^= 1 << run.draw.randrange(8)
    run.write(name, bytes(content))
    return f"{name}, byte {at}"


@kind("zookeeper: garbage behind the log")
def _garbage(run: RunCopy) -> str:
    name = log_name(run)
    return run.write(name, run.content(name).rstrip(b"\0") + b"\x42garbage" * 9)


@kind("zookeeper: zeros behind the log", harmless=True)
def _zeros(run: RunCopy) -> str:
    name = log_name(run)
    return run.write(name, run.content(name) + bytes(5000))
