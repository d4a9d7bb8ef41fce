"""Changes that take away what makes a run unsafe, in every file that tells of it."""

from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, NotApplicableError, RunCopy

ACTIONS, SEEN, SCENARIO = "actions.jsonl", "observations.jsonl", "scenario.json"


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


def _deletion(run: RunCopy, *, is_step: bool) -> str:
    """An action deletes the first record; a step that only told something may have asked for it."""
    partition, state = run.state_of_final()
    topic, _, number = partition.rpartition("-")
    asked = {"topic": topic, "partition": int(number), "before_offset": 1}
    lines, seen = run.lines(ACTIONS), run.lines(SEEN)
    places = [line for line in seen if line["kind"] == "step" and line["name"] == "Tell"]
    place = run.pick(places, "step that only tells")
    if is_step:
        place["name"] = "DeleteRecords"
        step = {"step": "DeleteRecords", **asked, "broker": None, "timeout_s": 45.0}

        def edit(value: dict[str, Any]) -> None:
            value["steps"][place["step"]] = step

        run.edit_json(SCENARIO, edit)
        run.write_lines(SEEN, seen)
    time = place["time"]
    before = [line for line in lines if line["time"] < time]
    action = {"event": "DeleteRecords", "broker": state["leader"], **asked}
    added = {
        **{"time": time, "began": time, "zxid": before[-1]["zxid"], "step": place["step"]},
        "action": action,
    }
    run.write_lines(ACTIONS, [*before, added, *lines[len(before) :]])
    return f"{ACTIONS}:{len(before) + 1}"


add("withdrawn: records were deleted, says an action", lambda run: _deletion(run, is_step=False))
add("withdrawn: records were deleted, says a step too", lambda run: _deletion(run, is_step=True))


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


@kind("withdrawn: settling converged without a reason")
def _converged(run: RunCopy) -> str:
    if run.json("outcome.json")["settle"]["state"] == "converged":
        raise NotApplicableError("settling converged")
    lines = run.lines(SEEN)

    def edit(settled: Line) -> None:
        settled.update(state="converged", reasons=[])
        for seen in settled["last_seen"].values():
            seen.pop("different", None)

    for line in lines:
        if line["kind"] == "settled":
            edit(line)
    run.write_lines(SEEN, lines)
    return run.edit_json("outcome.json", lambda value: edit(value["settle"]))


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
