"""Changes to history.jsonl: what clients say that they did and got."""

from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, RunCopy, more, put

HISTORY = "history.jsonl"


def _is(kind_of_line: str, *, acks: int | None = None, probe: bool = False) -> Any:
    def where(line: Line) -> bool:
        return (
            line["type"] == kind_of_line
            and line["function"] == "produce"
            and bool(line.get("probe")) is probe
            and acks in (None, line["acks"])
        )

    return where


def _ok(name: str, edit: Callable[[Line], object], *, acks: int | None = None) -> None:
    add(
        f"history: {name}",
        lambda run: run.edit_line(HISTORY, edit, _is("ok", acks=acks), "acknowledged produce"),
    )


def _invoke(name: str, edit: Callable[[Line], object]) -> None:
    add(f"history: {name}", lambda run: run.edit_line(HISTORY, edit, _is("invoke"), "produce"))


def _told(name: str, edit: Callable[[Line], object]) -> None:
    """What the model is told of a produce."""
    add(
        f"history: {name}",
        lambda run: run.edit_line(HISTORY, edit, lambda line: "zxid" in line, "zxid of a produce"),
    )


def _both(name: str, edit: Callable[[Line], object], *, acks: int | None = None) -> None:
    """Both lines of one acknowledged operation are changed alike."""

    def mutate(run: RunCopy) -> str:
        lines = run.lines(HISTORY)
        chosen = run.pick(
            [line["operation"] for line in lines if _is("ok", acks=acks)(line)], "produce"
        )
        for line in lines:
            if line["operation"] == chosen:
                edit(line)
        run.write_lines(HISTORY, lines)
        return f"{HISTORY}: {chosen}"

    add(f"history: {name}", mutate)


_ERROR = {"error": "NOT_ENOUGH_REPLICAS", "error_code": 19, "base_offset": None, "promised": False}
_ok("an acknowledgement is an error", lambda line: line.update(type="fail", **_ERROR))
_ok(
    "an acknowledgement is a time-out of the broker's",
    lambda line: line.update(
        type="info", **_ERROR | {"error": "REQUEST_TIMED_OUT", "error_code": 7}
    ),
)
_ok(
    "an acknowledgement never came",
    put(type="info", base_offset=None, promised=False, error="", error_code=0),
)
_ok("another base offset", more("base_offset", 1))
_ok("a base offset beyond 64 bits", put(base_offset=10**30))
_ok("a negative base offset", put(base_offset=-7))
_ok("no base offset", put(base_offset=None))
_ok("no promise", put(promised=False), acks=-1)
_ok("a promise with acks=1", put(promised=True), acks=1)
_ok("an end of no known type", put(type="maybe"))
_ok("an end that says another broker", more("broker", 1))
_ok("an end that says another partition", put(partition=7))
_ok("an end before its beginning", more("time", -100))
_ok("an end an hour later", more("time", 3600))
_ok("no time", lambda line: line.pop("time"))
_ok("a time that is no number", put(time="soon"))
_ok("a time that is not finite", put(time=float("nan")))
_ok("an error beside the acknowledgement", put(error="X", error_code=3))
_invoke("other records", lambda line: line.update(records=["other", *line["records"][1:]]))
_invoke("a record more", lambda line: line.update(records=[*line["records"], "more"]))
_invoke("no records", put(records=[]))
_invoke("records that are no text", put(records=[7]))
_invoke("another broker", more("broker", 1))
_invoke("another topic", put(topic="other"))
_invoke("another partition", put(partition=3))
_invoke("a function that is not known", put(function="delete"))
_invoke("a topic that is a path", put(topic="../../../etc"))
_told("an earlier zxid", lambda line: line.update(zxid=max(0, line["zxid"] - 30)))
_told("a later zxid", more("zxid", 500))
_told("no zxid", lambda line: line.pop("zxid"))
_told("another step", more("step", 1))
_told("a step that the scenario does not have", put(step=900))
_told("another codec", put(codec="gzip"))
_both("acks=1 instead of all", put(acks=1), acks=-1)
_both("acks=all instead of 1", put(acks=-1), acks=1)
_both("acks=0", put(acks=0))
_both("another broker in both lines", more("broker", 1))
_both("another name", put(operation="renamed"))
_both("a produce is a read", put(function="read"))
_both("a produce is a probe", put(probe=True))
_both("the times of an hour ago", more("time", -3600))
add(
    "history: an acknowledgement is not there",
    lambda run: run.drop_line(HISTORY, _is("ok"), "acknowledged produce"),
)
add("history: an end alone is there", lambda run: run.drop_line(HISTORY, _is("invoke"), "produce"))


@kind("history: an operation is not there")
def _no_operation(run: RunCopy) -> str:
    lines = run.lines(HISTORY)
    chosen = run.pick([line["operation"] for line in lines if _is("ok")(line)], "produce")
    run.drop_lines(HISTORY, lambda line: line["operation"] == chosen)
    return f"{HISTORY}: {chosen}"


def _added(run: RunCopy, function: str, sent: list[str], base_offset: int, **ended: Any) -> str:
    lines = run.lines(HISTORY)
    like = next(line for line in lines if line["type"] == "ok")
    first = {**like, "operation": "added", "function": function, "acks": -1, "probe": False}
    first = {
        name: value for name, value in first.items() if name not in ("base_offset", "promised")
    }
    begun = {**first, "type": "invoke", "records": sent if function == "produce" else []}
    end = {**first, "type": "ok", "base_offset": base_offset, "promised": True, **ended}
    run.write_lines(HISTORY, [*lines, begun, end])
    return f"{HISTORY}: {function} added"


add("history: a produce that nobody sent", lambda run: _added(run, "produce", ["x"], 500))


@kind("history: a produce that nobody sent, of a record that is there")
def _more_of_the_same(run: RunCopy) -> str:
    first = next(line for line in run.lines(HISTORY) if line["type"] == "invoke")
    return _added(run, "produce", first["records"], 0)


add(
    "history: a read of what nobody holds",
    lambda run: _added(run, "read", [], 0, records=["never written"]),
)


@kind("history: two acknowledgements")
def _twice(run: RunCopy) -> str:
    lines = run.lines(HISTORY)
    first = run.pick([line for line in lines if _is("ok")(line)], "acknowledged produce")
    run.write_lines(HISTORY, [*lines, {**first, "base_offset": first["base_offset"] + 1}])
    return f"{HISTORY}: {first['operation']}"


@kind("history: two beginnings")
def _begun_twice(run: RunCopy) -> str:
    lines = run.lines(HISTORY)
    first = run.pick([line for line in lines if _is("invoke")(line)], "produce")
    run.write_lines(HISTORY, [first, *lines])
    return f"{HISTORY}: {first['operation']}"


add("history: no file", lambda run: run.remove(HISTORY))
add("history: nothing in it", lambda run: run.write(HISTORY, b""))
add(
    "history: a probe's acknowledgement is not there",
    lambda run: run.drop_line(HISTORY, _is("ok", probe=True), "acknowledged probe"),
)


@kind("history: a probe is no probe")
def _not_a_probe(run: RunCopy) -> str:
    lines = run.lines(HISTORY)
    for line in lines:
        line["probe"] = False
    run.write_lines(HISTORY, lines)
    return HISTORY


@kind("history: every probe is gone, from the actions too")
def _no_probe_at_all(run: RunCopy) -> str:
    lines = run.lines(HISTORY)
    probes = {line["operation"] for line in lines if line.get("probe")}
    run.pick(probes, "probe")
    return run.drop_lines(HISTORY, lambda line: line["operation"] in probes)


def _line(name: str, line: bytes) -> None:
    add(f"history: {name}", lambda run: run.write(HISTORY, run.content(HISTORY) + line))


_line("a line that is no JSON", b"{torn\n")
_line("a line that is no object", b"[1, 2]\n")
_line("a line without its end", b'{"operation":"x"')
_line("a line of deep JSON", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
_line("a line that is no text", b'{"operation":"\xff\xfe"}\n')
_line("an empty line", b"\n")
