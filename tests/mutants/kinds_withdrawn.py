"""Changes that take away what makes a run unsafe, in every file that tells of it."""

from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import NotApplicableError, RunCopy

ACTIONS, SEEN = "actions.jsonl", "observations.jsonl"


def _stops(run: RunCopy, *, were_clean: bool) -> str:
    """Every stop that was clean, or was not, is the other in actions and observations."""
    lines, seen = run.lines(ACTIONS), run.lines(SEEN)
    acts = [line["action"] for line in lines if line["action"]["event"] == "StopBroker"]
    acts += [line for line in seen if line.get("act") == "StopBroker"]
    changed = [act for act in acts if act["clean"] is were_clean]
    for act in changed:
        act["clean"] = not were_clean
    if not changed:
        raise NotApplicableError("there is no such stop")
    run.write_lines(ACTIONS, lines)
    run.write_lines(SEEN, seen)
    return f"{len(changed)} acts"


add("withdrawn: clean stops were kills", lambda run: _stops(run, were_clean=True))
add("withdrawn: kills were clean stops", lambda run: _stops(run, were_clean=False))


@kind("withdrawn: the leader's files on every in-sync replica at the end")
def _levelled(run: RunCopy) -> str:
    partition, state = run.state_of_final()
    root = f"snapshots/{run.final()}"
    source = f"{root}/broker-{state['leader']}/{partition}"
    contents = {name: run.content(name) for name in run.names(f"{source}/*")}
    for broker in state["isr"]:
        target = f"{root}/broker-{broker}/{partition}"
        gone = run.names(f"{target}/*")
        run.remove(target)
        for name, content in contents.items():
            run.write(name.replace(source, target, 1), content)
        more_files = len(contents) - len(gone)

        def edit(value: dict[str, Any], broker: int = broker, more_files: int = more_files) -> None:
            value["brokers"][str(broker)]["files"] += more_files

        run.edit_json(f"{root}/snapshot.json", edit)
    return partition


@kind("withdrawn: a follower in sync did not run at the end")
def _gone(run: RunCopy) -> str:
    _, state = run.state_of_final()
    broker = run.pick([each for each in state["isr"] if each != state["leader"]], "follower")
    label = run.final()
    lines, seen = run.lines(ACTIONS), run.lines(SEEN)
    place = next(at for at, line in enumerate(lines) if line["action"].get("label") == label)
    taken = lines[place]
    stop = {"broker": broker, "clean": False, "checkpointed": None}
    lines.insert(place, {**taken, "action": {"event": "StopBroker", **stop}})
    told = {name: taken[name] for name in ("time", "zxid", "step")}
    run.write_lines(ACTIONS, lines)
    run.write_lines(SEEN, [*seen, {**told, "kind": "act", "act": "StopBroker", **stop}])
    return run.edit_json(
        f"snapshots/{label}/snapshot.json",
        lambda value: value["brokers"][str(broker)].update(is_running=False),
    )
