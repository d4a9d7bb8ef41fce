"""docs/reference.md: every finding, fault, step, fixture and point, from the code that has them.

    python -m tests.reference

writes the page; `tests/test_reference.py` compares it.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from kchaos.checkers.findings import KINDS, Question
from kchaos.checkers.outcome import SENTENCES
from kchaos.clusters.agent.points import POINTS
from kchaos.faults import FAULTS
from kchaos.harness.campaign.live import Chaos
from kchaos.harness.pytest_plugin import fixtures
from kchaos.harness.steps.scenario_steps import STEPS

PAGE = Path(__file__).parent.parent / "docs/reference.md"

_HEAD = """# Reference: findings, faults, steps, fixtures, points

Written by `python -m tests.reference`; do not edit.
"""
_QUESTIONS = {
    Question.SAFETY: (
        "Findings about safety",
        "Each of these makes a run unsafe. The report begins with the words in italics.",
    ),
    Question.CONFORMANCE: (
        "Findings about conformance",
        "Each of these says that the brokers did something else than the model of their release.",
    ),
    Question.NEITHER: (
        "Notes",
        "These answer neither question; they are there for whoever reads the run.",
    ),
}


_CONTROLLERS_TOO = "ZooKeeper and KRaft; `broker` may be a KRaft controller."
BOTH, ZOOKEEPER_ALONE, KRAFT_ALONE = "ZooKeeper and KRaft", "ZooKeeper alone", "KRaft alone"
MODES: Mapping[str, str] = {
    "AwaitMetadataRead": "KRaft alone: with ZooKeeper `AwaitFollowing`.",
    "AwaitMetadataSnapshots": "KRaft alone.",
    **dict.fromkeys(
        ("AwaitMigration", "DeprovisionControllers", "ProvisionControllers"),
        "A cluster with ZooKeeper that migrates to KRaft.",
    ),
    "CutControllers": "KRaft alone: with ZooKeeper `CutZooKeeper`.",
    "CutLink": "ZooKeeper and KRaft; either end may be a KRaft controller.",
    "CutZooKeeper": "ZooKeeper alone: with KRaft `CutControllers`.",
    "ExpireSession": "ZooKeeper alone: with KRaft `FenceBroker`.",
    "FailLogDirectory": "ZooKeeper, and KRaft from 3.7 on (KIP-858).",
    "FastBounce": "ZooKeeper alone: with KRaft no bounce is missed; `KillBroker`.",
    "FenceBroker": "KRaft alone: with ZooKeeper `ExpireSession`.",
    "ForgeAnswers": "ZooKeeper alone: with KRaft hold Fetch responses with `HoldRequests`.",
    "FormatDowngrade": "ZooKeeper alone: brokers of KRaft clusters ignore formats (KIP-724).",
    "HoldController": "ZooKeeper alone: with KRaft `PauseBroker` of a controller.",
    "HoldRequests": (
        "ZooKeeper and KRaft. KRaft controllers send brokers nothing; in place of LeaderAndIsr a "
        "broker's Fetch of `__cluster_metadata` is held, in place of ControlledShutdown its "
        "BrokerHeartbeat."
    ),
    "IsolateBroker": _CONTROLLERS_TOO,
    "IsolateZooKeeper": "ZooKeeper alone: with KRaft `IsolateBroker` of a controller.",
    "KillBroker": _CONTROLLERS_TOO,
    "KillZooKeeper": "ZooKeeper alone: with KRaft `KillBroker` of a controller.",
    "LoseTail": _CONTROLLERS_TOO,
    "MoveController": "ZooKeeper and KRaft, where the quorum's leader is paused.",
    "MoveReplica": "ZooKeeper, and KRaft from 3.7 on (KIP-858).",
    "PauseBroker": _CONTROLLERS_TOO,
    "PauseZooKeeper": "ZooKeeper alone: with KRaft `PauseBroker` of a controller.",
    "PreferredElection": 'ZooKeeper and KRaft, by ElectLeaders (`by="api"`).',
    "Reassign": 'ZooKeeper and KRaft, by AlterPartitionReassignments (`by="api"`).',
    "RollBroker": _CONTROLLERS_TOO,
    "StaleRequest": "ZooKeeper alone: with KRaft hold AlterPartition over a restart.",
    "StopBroker": _CONTROLLERS_TOO,
    "StopZooKeeper": "ZooKeeper alone: with KRaft `StopBroker` of a controller.",
    "UnregisterBroker": "KRaft alone: with ZooKeeper `CutZooKeeper` and `ExpireSession`.",
    **dict.fromkeys(
        ("AddController", "RemoveController"),
        "KRaft alone: where `features` have `kraft.version` 1, from 3.9 on.",
    ),
    "UpdateFeatures": "KRaft alone: with ZooKeeper `RollBroker` to another protocol.",
    "WipeLogDirectory": _CONTROLLERS_TOO,
}
"""Where a fault or a step acts; those that are not named act in both modes, and in the same way."""


def page() -> str:
    """Return the page, from the definitions as they are."""
    return "\n".join([_HEAD, *_findings(), *_faults(), *_steps(), *_fixtures(), *_points()])


def _findings() -> Iterator[str]:
    for question, (heading, text) in _QUESTIONS.items():
        yield f"## {heading}\n\n{text}\n"
        for kind in KINDS.values():
            if kind.question is question:
                told = SENTENCES.get(kind.name)
                outcome = f" *{re.sub('[{}]', '', told)}*" if told else ""
                implied = f" Implies {', '.join(kind.implies)}." if kind.implies else ""
                yield f"- **{kind.name}**: {_sentence(kind.meaning)}{implied}{outcome}"
        yield ""


def _faults() -> Iterator[str]:
    yield "## Faults\n"
    yield "In pytest: `with chaos.inject(KillBroker(broker=0)): ...`. In a scenario: a step.\n"
    by_plane: dict[str, dict[str, type[Any]]] = {}
    for name, fault in sorted(FAULTS.items()):
        by_plane.setdefault(fault.__module__.split(".")[2], {})[name] = fault
    for plane, faults in sorted(by_plane.items()):
        yield f"### {plane}\n"
        yield from _classes(faults)


def _steps() -> Iterator[str]:
    yield "## Steps\n"
    yield "Each is performed, and then waits at its gate until its effect is observed.\n"
    yield from _classes(dict(sorted(STEPS.items())))


def _fixtures() -> Iterator[str]:
    yield "## Fixtures\n"
    yield "`pytest --markers` has the arguments of the marker `kafka_cluster`.\n"
    named = {
        name: value
        for name, value in vars(fixtures).items()
        if type(value).__name__ == "FixtureFunctionDefinition"
    }
    for name, fixture in sorted(named.items()):
        yield f"- `{name}`: {_first_paragraph(fixture)}"
    yield "\n### chaos\n\nWhat a test may ask and do of its run:\n"
    for name, member in inspect.getmembers(Chaos):
        if not name.startswith("_"):
            arguments = [*inspect.signature(member).parameters][1:] if callable(member) else None
            call = "" if arguments is None else f"({', '.join(arguments)})"
            yield f"- `chaos.{name}{call}`: {_first_paragraph(member)}"
    yield ""


def _points() -> Iterator[str]:
    yield "## Points\n"
    yield (
        "These are places in brokers' code, and of their disks, where a thread can be held. They "
        "are named in `HoldPoint` and in the marker's `points`.\n"
    )
    for point in POINTS.values():
        places: list[str] = []
        for place in point.places:
            at = f"`{place.java_class}.{place.method}`" if place.java_class else "no such point"
            if not places or not places[-1].endswith(at):
                places.append(f"from {'.'.join(map(str, place.since))} on {at}")
        where = f" In Kafka: {'; '.join(places)}." if places else ""
        yield f"- **{point.name}**: {_sentence(point.meaning)}{where}"
    yield ""


def _first_paragraph(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def _classes(classes: Mapping[str, type[Any]]) -> Iterator[str]:
    for name, each in classes.items():
        paragraphs, attributes = _docstring(each)
        modes = MODES.get(name, f"{BOTH}.")
        yield f"#### {name}\n\n{paragraphs}\n\n*Acts with:* {modes}\n"
        names = [field.name for field in fields(each)]
        lines = [
            f"- `{name}`: {attributes[name]}" if name in attributes else f"- `{name}`"
            for name in names
        ]
        if lines:
            yield "\n".join(lines) + "\n"


def _docstring(each: type[Any]) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring, and its attributes by name."""
    text, _, attributes = (inspect.getdoc(each) or "").partition("Attributes:\n")
    attributes = re.split(r"\n\n\S", attributes)[0]
    told: dict[str, str] = {}
    name = ""
    for line in attributes.splitlines():
        if match := re.fullmatch(r"    (\w+): (.*)", line):
            name = match[1]
            told[name] = match[2]
        elif name and line.strip():
            told[name] += f" {line.strip()}"
    return text.strip(), told


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
