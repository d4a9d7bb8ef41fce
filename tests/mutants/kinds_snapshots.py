"""Changes to snapshots: what was seen when files were copied, and which files there are."""

import os
import shutil
from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import NotApplicableError, RunCopy, more, put

Value = dict[str, Any]


def _about(name: str, edit: Callable[[Value], object]) -> None:
    """Change snapshot.json of the last snapshot."""

    def mutate(run: RunCopy) -> str:
        return run.edit_json(f"snapshots/{run.final()}/snapshot.json", edit)

    add(f"snapshots: {name}", mutate)


def _state(name: str, edit: Callable[[Value], object]) -> None:
    """Change the state that the last snapshot has of the scenario's partition."""

    def mutate(run: RunCopy) -> str:
        partition, _ = run.state_of_final()
        file = f"snapshots/{run.final()}/snapshot.json"
        return run.edit_json(file, lambda value: edit(value["states"][partition]))

    add(f"snapshots: {name}", mutate)


def _broker(name: str, edit: Callable[[Value], object]) -> None:
    """Change what the last snapshot says of an in-sync broker."""

    def mutate(run: RunCopy) -> str:
        broker = run.in_sync_directory().split("/")[2].removeprefix("broker-")
        file = f"snapshots/{run.final()}/snapshot.json"
        return run.edit_json(file, lambda value: edit(value["brokers"][broker]))

    add(f"snapshots: {name}", mutate)


_state("another leader", lambda value: value.update(leader=1 - max(0, value["leader"])))
_state("no leader", put(leader=-1))
_state("another leader epoch", more("leader_epoch", 1))
_state("an earlier leader epoch", put(leader_epoch=0))
_state("an ISR of the leader alone", lambda value: value.update(isr=[value["leader"]]))
_state("an ISR of nobody", put(isr=[]))
_state("an ISR with a stranger", lambda value: value.update(isr=[*value["isr"], 2]))
_state("an ISR with one broker twice", lambda value: value.update(isr=value["isr"] * 2))
_state("an ISR that is no list of numbers", put(isr=["x"]))
_state("another controller epoch", put(controller_epoch=9))
_state("a leader that is no number", put(leader=None))
_state("a leader epoch beyond 64 bits", put(leader_epoch=10**30))
_about("no state of the partition", put(states={}))
_about(
    "a state of a partition that is not there",
    lambda value: value["states"].update({"ghost-0": {"leader": 0, "leader_epoch": 0, "isr": [0]}}),
)
_about(
    "a state of a partition that is a path",
    lambda value: value["states"].update(
        {"../../../../../../etc-0": {"leader": 0, "leader_epoch": 0, "isr": [0]}}
    ),
)
_about(
    "a state of a partition that is an absolute path",
    lambda value: value["states"].update(
        {"/etc/x-0": {"leader": 0, "leader_epoch": 0, "isr": [0]}}
    ),
)
_about("an earlier zxid", lambda value: value.update(zxid=max(0, value["zxid"] - 20)))
_about("a later zxid", more("zxid", 20))
_about("a time before everything", more("time", -100_000))
_about("a time after everything", more("time", 100_000))
_about("a time that is not finite", put(time=float("nan")))
_about("not the last one", put(is_final=False))
_about("another label", put(label="elsewhere"))
_about("no brokers", put(brokers={}))
_about("a broker is not there", lambda value: value["brokers"].pop(sorted(value["brokers"])[0]))
_about("a broker that never was", lambda v: v["brokers"].update({"9": {"is_running": True}}))
_about("a broker that is a path", lambda v: v["brokers"].update({"../x": {"is_running": True}}))
_about("no time", lambda value: value.pop("time"))
_broker(
    "a broker that does not run", lambda value: value.update(is_running=not value["is_running"])
)
_broker("files that never stood still", put(stable=False))
_broker("files fewer than were copied", more("files", 1))
_broker("a reading an hour earlier", more("read_from", -3600))
_broker(
    "a reading an hour later",
    lambda value: value.update(
        read_from=value["read_from"] + 3600, read_until=value["read_until"] + 3600
    ),
)
_broker("a reading that is no time", put(read_from="then"))


@kind("snapshots: a snapshot before the end is the last one too")
def _two_ends(run: RunCopy) -> str:
    others = [
        name for name in run.names("snapshots/*/snapshot.json") if not run.json(name)["is_final"]
    ]
    return run.edit_json(run.pick(others, "earlier snapshot"), put(is_final=True))


add("snapshots: a replica is not there", lambda run: run.remove(run.in_sync_directory()))
add(
    "snapshots: a broker's folder is not there",
    lambda run: run.remove(run.in_sync_directory().rpartition("/")[0]),
)


@kind("snapshots: a broker is nowhere")
def _nowhere(run: RunCopy) -> str:
    directory = run.in_sync_directory().rpartition("/")[0]
    run.remove(directory)
    broker = directory.rpartition("-")[2]
    return run.edit_json(
        f"snapshots/{run.final()}/snapshot.json", lambda value: value["brokers"].pop(broker)
    )


add(
    "snapshots: snapshot.json is not there",
    lambda run: run.remove(f"snapshots/{run.final()}/snapshot.json"),
)


@kind("snapshots: an earlier snapshot is not there")
def _no_earlier(run: RunCopy) -> str:
    labels = [
        name.split("/")[1]
        for name in run.names("snapshots/*/snapshot.json")
        if not run.json(name)["is_final"]
    ]
    return run.remove(f"snapshots/{run.pick(labels, 'earlier snapshot')}")


add("snapshots: the last snapshot is not there", lambda run: run.remove(f"snapshots/{run.final()}"))
add("snapshots: no snapshots", lambda run: run.remove("snapshots"))


def _ghost(name: str, directory: str) -> None:
    def mutate(run: RunCopy) -> str:
        replica = run.in_sync_directory()
        target = f"{replica.rpartition('/')[0]}/{directory}"
        shutil.copytree(run.path / replica, run.path / target)
        return target

    add(f"snapshots: {name}", mutate)


_ghost("a partition that nobody made", "t-7")
_ghost("a topic that nobody made", "ghost-0")
_ghost("a partition with another spelling", "t-00")
_ghost("a partition with a number beyond 32 bits", "t-99999999999")
_ghost("a partition without a topic", "-0")


@kind("snapshots: a partition whose name is no text")
def _no_text(run: RunCopy) -> str:
    target = run.in_sync_directory().rpartition("/")[0].encode() + b"/\xff\xfe-0"
    shutil.copytree(run.path / run.in_sync_directory(), run.path / os.fsdecode(target))
    return repr(target)


@kind("snapshots: a replica on a broker that has none")
def _elsewhere(run: RunCopy) -> str:
    replica = run.in_sync_directory()
    root, _, partition = replica.rpartition("/")
    target = f"{root.rpartition('-')[0]}-2/{partition}"
    if (run.path / target).exists():
        raise NotApplicableError("broker 2 has a replica")
    shutil.copytree(run.path / replica, run.path / target)
    return target


@kind("snapshots: an earlier snapshot's files in the last one")
def _old(run: RunCopy) -> str:
    replica = run.in_sync_directory()
    final = run.final()
    for name in run.names("snapshots/*/snapshot.json"):
        label = name.split("/")[1]
        old = replica.replace(f"snapshots/{final}/", f"snapshots/{label}/")
        if label != final and (run.path / old).is_dir():
            shutil.rmtree(run.path / replica)
            shutil.copytree(run.path / old, run.path / replica)
            return f"{replica} from {label}"
    raise NotApplicableError("no earlier snapshot has the replica")


@kind("snapshots: the files of two brokers changed places before the end")
def _exchanged(run: RunCopy) -> str:
    partition, _ = run.state_of_final()
    for name in run.names("snapshots/*/snapshot.json"):
        label = name.split("/")[1]
        if run.json(name)["is_final"]:
            continue
        first, other = (run.path / f"snapshots/{label}/broker-{n}/{partition}" for n in (0, 1))
        if not (first.is_dir() and other.is_dir()):
            continue
        if _logs(first) != _logs(other):
            first.rename(first.with_name("kept"))
            other.rename(first)
            first.with_name("kept").rename(other)
            return label
    raise NotApplicableError("both brokers hold the same before the end")


def _logs(directory: Any) -> list[bytes]:
    return [file.read_bytes() for file in sorted(directory.glob("*.log"))]
