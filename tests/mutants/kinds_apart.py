"""Kinds written after the judge was mended, by what a run still says that little is compared with.

Their first rate stands in docs/mutants.md: nothing had been done about any of them when they were
judged first.
"""

from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, NotApplicableError, RunCopy, is_of, more, put

ABOUT, SCENARIO, ACTIONS, LINKS = "run.json", "scenario.json", "actions.jsonl", "links.jsonl"
SEEN, OUTCOME, HISTORY = "observations.jsonl", "outcome.json", "history.jsonl"


def _line(
    name: str, file: str, edit: Callable[[Line], object], where: Callable[[Line], bool]
) -> None:
    add(f"apart: {name}", lambda run: run.edit_line(file, edit, where, name))


def _all(
    name: str, file: str, edit: Callable[[Line], object], where: Callable[[Line], bool]
) -> None:
    def mutate(run: RunCopy) -> str:
        lines = run.lines(file)
        for line in [line for line in lines if where(line)]:
            edit(line)
        run.write_lines(file, lines)
        return file

    add(f"apart: {name}", mutate)


def _gone(name: str, file: str, where: Callable[[Line], bool]) -> None:
    def mutate(run: RunCopy) -> str:
        lines = run.lines(file)
        kept = [line for line in lines if not where(line)]
        if len(kept) == len(lines):
            raise NotApplicableError(f"there is no {name}")
        if file == LINKS:
            kept = [each | {"sequence": at + 1} for at, each in enumerate(kept)]
        run.write_lines(file, kept)
        return file

    add(f"apart: {name}", mutate)


def _is(kind_of: str) -> Callable[[Line], bool]:
    return lambda line: line.get("kind") == kind_of


def _api(api: str, direction: str | None = None) -> Callable[[Line], bool]:
    return lambda line: is_of(line, api) and direction in (None, line["direction"])


def _from(run: RunCopy, label: str) -> str:
    labels = sorted({name.split("/")[1] for name in run.names("snapshots/*/snapshot.json")})
    return run.pick([other for other in labels if other != label], "other snapshot")


# What observations say.
_line("what a fault did", SEEN, put(effect={"x": 1}), _is("injected"))
_line("what a fault was", SEEN, put(fault="Other"), _is("injected"))
_line(
    "a fault that lasts not",
    SEEN,
    lambda line: line.update(lasting=not line["lasting"]),
    _is("injected"),
)
_gone("no step is observed", SEEN, _is("step"))
_gone("no fault is observed", SEEN, _is("injected"))
_gone("nothing healed is observed", SEEN, _is("healed"))
_gone("no broker is observed", SEEN, _is("broker"))
_gone("no state is observed", SEEN, _is("state"))
_all("everything observed 3 s later", SEEN, more("time", 3), lambda line: True)


@kind("apart: what a gate saw of high watermarks, nowhere")
def _no_marks(run: RunCopy) -> str:
    gone = run.pick(
        [line for line in run.lines(SEEN) if line["kind"] == "high-watermark"],
        "gate's high watermark",
    )
    run.drop_lines(SEEN, lambda line: line == gone)
    told = ("HighWatermarkObserved", gone["step"])
    run.drop_lines(ACTIONS, lambda line: (line["action"]["event"], line["step"]) == told)
    return str(gone["step"])


# What links say.
_all("another client id", LINKS, put(client_id="x"), _api("Fetch"))
_all("monotonic times of nothing", LINKS, put(monotonic_s=0.0), lambda line: True)
_gone("no question for an epoch is asked", LINKS, _api("OffsetForLeaderEpoch"))
_gone("no wish for an ISR", LINKS, _api("AlterPartition"))
_gone("no answer to a fetch", LINKS, _api("Fetch", "response"))


@kind("apart: the last connection is gone")
def _connection(run: RunCopy) -> str:
    lines = run.lines(LINKS)
    last = lines[-1]["connection"]
    kept = [line for line in lines if line["connection"] != last]
    run.write_lines(LINKS, [each | {"sequence": at + 1} for at, each in enumerate(kept)])
    return str(last)


def _first_on(direction: str, api: str) -> Callable[[RunCopy], str]:
    def mutate(run: RunCopy) -> str:
        lines = run.lines(LINKS)
        numbers: dict[int, int] = {}
        for line in lines:
            if is_of(line, api):
                edge = max if direction == "last" else min
                known = numbers.get(line["connection"], line["correlation_id"])
                numbers[line["connection"]] = edge(known, line["correlation_id"])
        gone = run.pick(list(numbers.items()), f"{direction} {api}")
        kept = [line for line in lines if (line["connection"], line["correlation_id"]) != gone]
        run.write_lines(LINKS, [each | {"sequence": at + 1} for at, each in enumerate(kept)])
        return str(gone)

    return mutate


for _edge in ("first", "last"):
    for _what in ("UpdateMetadata", "LeaderAndIsr"):
        add(f"apart: the {_edge} {_what} of a connection is gone", _first_on(_edge, _what))


# What snapshots hold.
def _without_files(name: str, pattern: str) -> None:
    def mutate(run: RunCopy) -> str:
        final = run.final()
        gone = run.names(f"snapshots/{final}/{pattern}")
        if not gone:
            raise NotApplicableError(f"no {pattern}")
        partition = f"snapshots/{final}/snapshot.json"
        for file in gone:
            run.remove(file)
            broker = file.split("/")[2].removeprefix("broker-")

            def edit(value: dict[str, Any], broker: str = broker) -> None:
                value["brokers"][broker]["files"] -= 1

            run.edit_json(partition, edit)
        return pattern

    add(f"apart: {name}", mutate)


_without_files("no producer snapshots", "broker-*/*/*.snapshot")
_without_files("no topic ids on disk", "broker-*/*/partition.metadata")
_without_files("no meta.properties", "broker-*/meta.properties")
_without_files("no high watermark checkpoints", "broker-*/replication-offset-checkpoint")
_without_files("no log start checkpoints", "broker-*/log-start-offset-checkpoint")
_without_files("no epoch checkpoints", "broker-*/*/leader-epoch-checkpoint")


@kind("apart: two snapshots changed names")
def _renamed(run: RunCopy) -> str:
    first, other = run.final(), _from(run, run.final())
    folder = run.path / "snapshots"
    (folder / first).rename(folder / "kept")
    (folder / other).rename(folder / first)
    (folder / "kept").rename(folder / other)
    for label in (first, other):
        file = f"snapshots/{label}/snapshot.json"
        run.write_json(file, run.json(file) | {"label": label})
    return f"{first} and {other}"


@kind("apart: an earlier snapshot has the last one's files")
def _levelled(run: RunCopy) -> str:
    final, other = run.final(), _from(run, run.final())
    for broker in run.json(f"snapshots/{final}/snapshot.json")["brokers"]:
        run.remove(f"snapshots/{other}/broker-{broker}")
        for name in run.names(f"snapshots/{final}/broker-{broker}/**/*"):
            run.write(name.replace(f"/{final}/", f"/{other}/", 1), run.content(name))
    last = run.json(f"snapshots/{final}/snapshot.json")

    def edit(value: dict[str, Any]) -> None:
        for broker, copied in value["brokers"].items():
            copied["files"] = last["brokers"][broker]["files"]

    return run.edit_json(f"snapshots/{other}/snapshot.json", edit)


# What was promised.
_line(
    "a refused write of which all is there",
    HISTORY,
    lambda line: (
        line.update(type="fail", error="NOT_LEADER", error_code=6)
        or (line.pop("base_offset"), line.pop("promised"))
    ),
    lambda line: line["type"] == "ok" and not line["probe"],
)
_line(
    "a promise of other offsets",
    HISTORY,
    more("base_offset", 100),
    lambda line: line["type"] == "ok" and line["promised"],
)


# Whose rules.
def _told(name: str, edit: Callable[[RunCopy, str], None]) -> None:
    def mutate(run: RunCopy) -> str:
        edit(run, run.json(ABOUT)["release"])
        return name

    add(f"apart: {name}", mutate)


_OTHERS = {"1.1.1": "1.1.0", "2.0.1": "2.0.0", "2.8.2": "2.8.1"}


def _other_release(run: RunCopy, own: str, files: tuple[str, ...]) -> str:
    if own not in _OTHERS:
        raise NotApplicableError("no other release is listed")
    for file in files:
        run.write(file, run.content(file).replace(own.encode(), _OTHERS[own].encode()))
    return _OTHERS[own]


def _from_a_folder(run: RunCopy, own: str) -> None:
    other = _other_release(run, own, (ACTIONS, SEEN))
    run.edit_json(
        SCENARIO,
        lambda v: (
            v.update(release=other),
            [b.update(kafka="/opt/kafka") for b in v["cluster"]["brokers"]],
        ),
    )

    def edit(value: dict[str, Any]) -> None:
        value["release"] = other
        value["jars"] = {"/opt/kafka": next(iter(value["jars"].values()))}
        for broker in value["brokers"].values():
            broker.update(release=other, judged_as=other)

    run.edit_json(ABOUT, edit)


def _from_an_image(run: RunCopy, own: str) -> None:
    _other_release(run, own, (ACTIONS, SEEN, SCENARIO, ABOUT))
    run.edit_json(ABOUT, put(driver="docker", images={"a": "b"}, jars={}))


def _judged_as(run: RunCopy, own: str) -> None:
    other = _other_release(run, own, (ACTIONS, SEEN))
    run.edit_json(SCENARIO, lambda v: [b.update(judged_as=other) for b in v["cluster"]["brokers"]])
    run.edit_json(ABOUT, lambda v: [b.update(judged_as=other) for b in v["brokers"].values()])


_told("another release, from a folder", _from_a_folder)
_told("another release, from an image", _from_an_image)
_told("judged as another release", _judged_as)
add(
    "apart: an hour that the run did not take",
    lambda run: (
        run.edit_json(OUTCOME, more("seconds", 3600))
        and run.edit_json(ABOUT, more("started_at", -1800))
    ),
)
