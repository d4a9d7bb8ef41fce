"""Changes to what says how the run was made and how it ended, and to the seal."""

from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, NotApplicableError, RunCopy, more, put

OUTCOME, ABOUT, SCENARIO, SEEN = "outcome.json", "run.json", "scenario.json", "observations.jsonl"
Value = dict[str, Any]


def _outcome(name: str, edit: Callable[[Value], object], *, harmless: bool = False) -> None:
    add(f"outcome: {name}", lambda run: run.edit_json(OUTCOME, edit), harmless=harmless)


def _settle(name: str, edit: Callable[[Value], object]) -> None:
    _outcome(name, lambda value: edit(value["settle"]))


def _another(state: str) -> str:
    return "failed" if state != "failed" else "converged"


_settle("another state", lambda value: value.update(state=_another(value["state"])))
_settle("stalled without a reason", put(state="stalled", reasons=[]))
_settle("a state that is not known", put(state="fine"))
_settle("no probes", put(probes=[]))
_settle(
    "a probe that nobody acknowledged",
    lambda value: [probe.update(acknowledged=False) for probe in value["probes"]],
)
_settle("a probe that is in no history", lambda value: value["probes"][0].update(operation="x"))
_settle(
    "a reason that nobody saw",
    lambda value: value["reasons"].append(
        {"kind": "replication-stopped", "broker": 1, "topic": "t", "partition": 0, "detail": "x"}
    ),
)
_settle("a reason of no kind", lambda value: value["reasons"].append({"kind": "x", "broker": 1}))
_settle("no reasons at all", lambda value: value.pop("reasons"))
_settle("no bound", lambda value: value.pop("bound_s"))
_settle(
    "another ISR seen", lambda o: [s.update(isr=[s["leader"]]) for s in o["last_seen"].values()]
)
_settle(
    "other ends seen",
    lambda value: [
        s["ends"].update({k: v + 3 for k, v in s["ends"].items()})
        for s in value["last_seen"].values()
    ],
)
_settle("nothing seen", put(last_seen={}))
_outcome("no settle record", put(settle=None))
_outcome("a settle record that is no object", put(settle=7))
_outcome("not finished", put(finished=False))
_outcome("unknown", put(unknown="a gate did not hold"))
_outcome("seconds that are no number", put(seconds="soon"))
_outcome("seconds that are negative", put(seconds=-5))
_outcome("other seconds", more("seconds", 1), harmless=True)


@kind("outcome: the reasons are gone")
def _no_reasons(run: RunCopy) -> str:
    if not (run.json(OUTCOME)["settle"] or {}).get("reasons"):
        raise NotApplicableError("there are no reasons")
    return run.edit_json(OUTCOME, lambda value: value["settle"].update(reasons=[]))


add("outcome: no file", lambda run: run.remove(OUTCOME))


def _about(name: str, edit: Callable[[Value], object], *, harmless: bool = False) -> None:
    add(f"run: {name}", lambda run: run.edit_json(ABOUT, edit), harmless=harmless)


_about("another release", put(release="0.10.0.0"))
_about(
    "other releases of brokers",
    lambda v: [
        b.update(release="3.9.1" if b["release"] != "3.9.1" else "2.0.0")
        for b in v["brokers"].values()
    ],
)
_about(
    "brokers judged as others",
    lambda v: [
        b.update(judged_as="0.10.2.2" if b["judged_as"] != "0.10.2.2" else "3.9.1")
        for b in v["brokers"].values()
    ],
)
_about("no links", put(unlinked="no room"))
_about("a later format", put(format=99))
_about("a format that is no number", put(format="1"))
_about("no format", lambda value: value.pop("format"))
_about("a seed that is no number", put(seed="x"))
_about("a seed beyond 64 bits", put(seed=10**30))
_about("an entry that is no text", put(entry=["x"]))
_about("another entry", put(entry="another"))
_about("escapes for the terminal", put(title="\x1b[2J\u202e"), harmless=True)
_about("a field more", put(more=1), harmless=True)
add("run: no run.json", lambda run: run.remove(ABOUT))
add("run: run.json is no JSON", lambda run: run.write(ABOUT, b"{"))
add("run: run.json is deep", lambda run: run.write(ABOUT, b"[" * 100_000 + b"]" * 100_000))
add("run: run.json is no text", lambda run: run.write(ABOUT, b"\xff\xfe\xfd"))
add("run: run.json is a list", lambda run: run.write(ABOUT, b"[]"))


def _scenario(name: str, edit: Callable[[Value], object]) -> None:
    add(f"scenario: {name}", lambda run: run.edit_json(SCENARIO, edit))


_scenario("no links", lambda value: value["cluster"].update(linked=False))
_scenario("a step fewer", lambda value: value["steps"].pop())
_scenario("no steps", put(steps=[]))
_scenario("a broker fewer", lambda value: value["cluster"]["brokers"].pop())
_scenario("no cluster", lambda value: value.pop("cluster"))
_scenario("a cluster that is no object", put(cluster=[]))
_scenario(
    "another release",
    lambda v: [
        b.update(kafka="3.9.1" if b["kafka"] != "3.9.1" else "2.0.0")
        for b in v["cluster"]["brokers"]
    ],
)
_scenario(
    "another min.insync.replicas",
    lambda value: value["cluster"]["properties"].update({"min.insync.replicas": "3"}),
)
_scenario(
    "unclean elections",
    lambda value: value["cluster"]["properties"].update({"unclean.leader.election.enable": "true"}),
)
_scenario(
    "an expectation of what was not found",
    put(expectation={"safe": False, "findings": [{"kind": "hole", "brokers": [0]}]}),
)
_scenario("an expectation that is no object", put(expectation=[1]))
_scenario("an expectation without findings", put(expectation={}))
_scenario(
    "an expectation with a witness that no line is",
    put(expectation={"safe": True, "witness": [{"log": {"pattern": "never"}}]}),
)
_scenario(
    "an expectation with a pattern that takes for ever",
    put(expectation={"safe": True, "witness": [{"log": {"pattern": "(a+)+\\x00$"}}]}),
)
_scenario(
    "an expectation with a broker that is a path",
    put(
        expectation={
            "safe": True,
            "witness": [{"log": {"pattern": ".", "broker": "../../../../etc"}}],
        }
    ),
)
_scenario("another title", put(title="another"))
add("scenario: no file", lambda run: run.remove(SCENARIO))
add("scenario: no JSON", lambda run: run.write(SCENARIO, b"nothing"))


def _seen(name: str, edit: Callable[[Line], object], kind_of_line: str) -> None:
    add(
        f"observations: {name}",
        lambda run: run.edit_line(SEEN, edit, lambda x: x["kind"] == kind_of_line, kind_of_line),
    )


_MARK = "high-watermark"
_seen(
    "another high watermark seen",
    lambda o: o.update(seen={broker: mark + 1 for broker, mark in o["seen"].items()}),
    _MARK,
)
_seen("a high watermark of another broker", put(seen={"7": 1}), _MARK)
_seen("brokers that are no numbers", put(seen={"all": 1}), _MARK)
_seen("another act", put(act="PauseBroker"), "act")
_seen("an act of another broker", put(broker=77), "act")
_seen("another state", lambda value: value["state"].update(leader=5), "state")
_seen("other ends", lambda value: value["ends"].update({"0": 500}), "log-end")
_seen("a step that has no name", put(name="Nothing"), "step")
add("observations: no file", lambda run: run.remove(SEEN))
add("observations: nothing in it", lambda run: run.write(SEEN, b""))
add(
    "observations: no high watermark was seen",
    lambda run: run.drop_line(SEEN, lambda line: line["kind"] == _MARK, _MARK),
)


def _unsealed(name: str, mutate: Callable[[RunCopy], str]) -> None:
    """A change after the seal, or of the seal itself."""

    def changed(run: RunCopy) -> str:
        run.is_resealed = False
        return mutate(run)

    add(f"seal: {name}", changed)


_unsealed("no manifest", lambda run: run.remove("manifest.json"))
_unsealed("a manifest that is no JSON", lambda run: run.write("manifest.json", b"{"))
_unsealed("a manifest without files", lambda run: run.write("manifest.json", b'{"format":1}'))
_unsealed("a file more", lambda run: run.write("more.txt", b"x"))
_unsealed("a file fewer", lambda run: run.remove("history.jsonl"))
_unsealed("a hidden file more", lambda run: run.write(".hidden", b"x"))
_unsealed(
    "one byte of a file",
    lambda run: run.write(
        "outcome.json", run.content("outcome.json").replace(b"true", b"tr ue"[:4])
    ),
)
_unsealed(
    "a blank more in a file",
    lambda run: run.write("outcome.json", run.content("outcome.json") + b" "),
)
_unsealed(
    "a file that the manifest names elsewhere",
    lambda run: run.edit_json(
        "manifest.json",
        lambda v: v["files"].update({"../outside": {"size_bytes": 1, "sha256": "0"}}),
    ),
)


@kind("files: JSON in another layout", harmless=True)
def _layout(run: RunCopy) -> str:
    import json

    for name in (OUTCOME, SCENARIO, ABOUT):
        run.write(name, json.dumps(run.json(name), sort_keys=True).encode())
    return "three files"


@kind("files: a broker's log beside the rest", harmless=True)
def _log(run: RunCopy) -> str:
    name = "brokers/0/server.log"
    before = run.content(name) if (run.path / name).is_file() else b""
    return run.write(name, before + b"INFO one line more\n")
