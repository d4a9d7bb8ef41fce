"""Shrinking: what is left is the smallest schedule that still shows the same."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers import run_line
from kchaos.checkers.run_line import RunLine, signs_of
from kchaos.harness.campaign import children
from kchaos.harness.commands.cli import run as kchaos
from kchaos.harness.player.drawing import view_of
from kchaos.harness.player.legal import illegal_steps
from kchaos.harness.player.shrinking import PlaysUsedUp, Steps, coherent, shrink

TOPIC = k.CreateTopic(topic="t", assignment=((0, 1, 2),))
CUT = k.Inject(name="cut", fault=k.CutLink(source=0, target=1))
KILL = k.Inject(name="kill", fault=k.KillBroker(broker=2))
LEVEL = k.IfPossible(do=k.AwaitLevel())
HELD = k.HoldRequests(name="h", api="Fetch", topic="t", partition=0)
HOLD = k.Inject(name="h", fault=HELD)
FILLERS = tuple(
    k.Inject(name=f"kill-{number}", fault=k.KillBroker(broker=number)) for number in range(20)
)


def produce(operation: str, topic: str = "t") -> k.Produce:
    return k.Produce(operation=operation, topic=topic, partition=0, records=1, acks=1)


class FakePlayer:
    """Says that a schedule shows it if all needed steps are there, in this order."""

    def __init__(self, *needed: k.Step, plays: int = 1_000) -> None:
        self.needed = needed
        self.plays = plays
        self.asked: list[Steps] = []

    def __call__(self, candidates: Sequence[Steps]) -> int | None:
        for index, steps in enumerate(candidates):
            if len(self.asked) == self.plays:
                raise PlaysUsedUp
            self.asked.append(steps)
            if [step for step in steps if step in self.needed] == [*self.needed]:
                return index
        return None


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_what_is_left_is_what_is_needed(at_once: int):
    steps: Steps = (TOPIC, *FILLERS[:9], CUT, *FILLERS[9:], produce("p"), k.Heal(name="cut"))
    player = FakePlayer(TOPIC, CUT, produce("p"))
    smaller = shrink(steps, player, at_once=at_once)
    assert smaller.steps == (TOPIC, CUT, produce("p"))
    assert smaller.is_minimal


def test_words_go_first_and_then_all_gates_at_once():
    steps = (TOPIC, k.Tell(text="x"), LEVEL, CUT, k.Tell(text="y"), LEVEL, produce("p"))
    player = FakePlayer(TOPIC, CUT, produce("p"))
    shrink(steps, player)
    assert player.asked[:2] == [
        (TOPIC, LEVEL, CUT, LEVEL, produce("p")),
        (TOPIC, CUT, produce("p")),
    ]


def test_nothing_can_go_when_everything_is_needed():
    steps = (TOPIC, CUT, produce("p"), KILL)
    smaller = shrink(steps, FakePlayer(*steps))
    assert (smaller.steps, smaller.is_minimal) == (steps, True)


def test_no_schedule_is_played_twice_and_none_is_empty():
    player = FakePlayer(FILLERS[3], FILLERS[11])
    assert shrink(FILLERS, player).steps == (FILLERS[3], FILLERS[11])
    assert len(player.asked) == len(set(player.asked))
    assert all(player.asked)


def test_what_was_found_is_kept_when_the_plays_are_used_up():
    smaller = shrink(FILLERS, FakePlayer(FILLERS[3], FILLERS[11], plays=3))
    assert not smaller.is_minimal
    assert {FILLERS[3], FILLERS[11]} <= {*smaller.steps} < {*FILLERS}


def test_what_is_not_legal_is_not_played():
    player = FakePlayer(CUT)
    smaller = shrink((TOPIC, CUT, KILL), player, is_legal=lambda steps: TOPIC in steps)
    assert smaller.steps == (TOPIC, CUT)
    assert all(TOPIC in steps for steps in player.asked)


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ((CUT, k.Heal(name="cut")), (CUT, k.Heal(name="cut"))),
        ((k.Heal(name="cut"), CUT), (CUT,)),
        ((k.IfPossible(do=k.Heal(name="cut")), LEVEL), (LEVEL,)),
        ((CUT, k.AwaitHeld(name="cut")), (CUT,)),
        ((k.AwaitAnswer(operation="p"), TOPIC, produce("p")), (TOPIC, produce("p"))),
        ((TOPIC, produce("p"), produce("q", topic="u")), (TOPIC, produce("p"))),
        ((HOLD,), ()),
        ((TOPIC, HOLD, k.AwaitHeld(name="h")), (TOPIC, HOLD, k.AwaitHeld(name="h"))),
    ],
)
def test_what_makes_no_sense_alone_goes_with_what_it_refers_to(steps: Steps, kept: Steps):
    assert coherent(steps) == kept


def test_a_part_of_a_drawn_schedule_is_legal_only_if_it_keeps_the_rules():
    scenario = k.draw(7, kafka="2.8.2", steps=25)
    view = view_of(scenario)
    assert illegal_steps(view, scenario.steps) == []
    twice = (TOPIC, KILL, k.IfPossible(do=k.Inject(name="again", fault=k.KillBroker(broker=2))))
    ((index, why),) = illegal_steps(view, twice)
    assert (index, "broker 2" in why) == (2, True)


# -- the command, with a player that plays nothing ---------------------------------------------


PERMITTED = k.Finding(kind="permitted-loss", message="")
NOT_AS_PREDICTED = k.Finding(kind="not-as-predicted", message="", evidence={"what": "batches"})
HOLE = k.Finding(kind="hole", message="")
STEPS = (
    TOPIC,
    k.IfPossible(do=k.Inject(name="end", fault=k.ExpireSession(broker=0))),
    k.IfPossible(do=k.AwaitInSync()),
    k.IfPossible(do=CUT),
    k.IfPossible(do=produce("p")),
    k.IfPossible(do=k.Heal(name="cut")),
)


class FakeChildren(AbstractContextManager[Any]):
    """Stands in for child processes: what shows it is decided by a function."""

    shows: Callable[[Steps], bool]

    def __init__(self, **_options: Any) -> None:
        self.played = 0

    def play(self, scenario: Any) -> RunLine:
        self.played += 1
        shows = type(self).shows(scenario.steps)
        return RunLine(
            run=f"run-{len(scenario.steps)}",
            signs=("not-as-predicted/batches",) if shows else (),
            conforms=not shows,
            safe=True,
            expected=not shows,
        )

    def stop(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def shrunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[str]]]:
    """Runs the command on a run that does not conform; returns exit code and what it wrote."""
    from kchaos.checkers.run_directory import RunDirectory
    from kchaos.clusters.spec import ClusterSpec, brokers_of
    from kchaos.harness.run.scenario import Scenario

    scenario = Scenario(
        entry="chaos",
        case="mixed",
        release="2.8.2",
        cluster=ClusterSpec(brokers=brokers_of("2.8.2"), first_broker=2),
        steps=STEPS,
        seed=3,
        title="six steps",
    )
    fields = {"entry": "chaos", "case": "mixed", "release": "2.8.2", "driver": "local", "seed": 3}
    RunDirectory.create(tmp_path / "run", run=fields, scenario=scenario.to_json())
    monkeypatch.setattr(children, "Children", FakeChildren)
    monkeypatch.setattr(run_line, "signs_of", lambda _: ("not-as-predicted/batches",))

    def run(shows: Callable[[Steps], bool], **more: Any) -> tuple[int, list[str]]:
        monkeypatch.setattr(FakeChildren, "shows", staticmethod(shows), raising=False)
        words = ["shrink", str(tmp_path / "run"), "--output", str(tmp_path / "new/small.json")]
        for name, value in ({"side-by-side": 2} | more).items():
            words += [f"--{name}", str(value)]
        code = kchaos(words)
        written = capsys.readouterr()
        # Progress begins with the seconds since the start.
        said = [line[len("  12.3  ") :] for line in written.err.splitlines()]
        return code, [*said, *filter(None, [written.out])]

    return run


def test_the_command_writes_the_smallest_scenario_and_shows_its_progress(
    shrunk: Callable[..., tuple[int, list[str]]], tmp_path: Path
):
    code, written = shrunk(lambda steps: STEPS[3] in steps and STEPS[4] in steps)
    scenario_read = k.read_scenario(tmp_path / "new" / "small.json")
    assert scenario_read.steps == (TOPIC, STEPS[3], STEPS[4])
    assert (code, scenario_read.seed, scenario_read.title) == (1, 3, "3 of 6 steps: six steps")
    assert written[0] == "6 steps show not-as-predicted/batches"
    assert written[1] == "run 1 of 40: 6 steps show not-as-predicted/batches"
    assert "no step can be left out" in written[-1]


def test_a_run_that_does_not_show_it_again_is_unknown(
    shrunk: Callable[..., tuple[int, list[str]]], tmp_path: Path
):
    code, written = shrunk(lambda _: False, tries=3)
    assert code == 2
    assert "run 3 times, it does not show that again" in written[-1]
    assert not (tmp_path / "new" / "small.json").exists()


def test_used_up_runs_are_said(shrunk: Callable[..., tuple[int, list[str]]]):
    code, written = shrunk(lambda steps: STEPS[3] in steps, runs=2)
    assert code == 1
    assert "the runs were used up" in written[-1]


@pytest.mark.parametrize(("tries", "played"), [(1, 4), (3, 3)])
def test_no_run_is_left_over_where_schedules_are_left(
    tries: int, played: int, shrunk: Callable[..., tuple[int, list[str]]]
):
    _, written = shrunk(lambda steps: steps == STEPS, runs=4, tries=tries)
    assert f"6 of 6 steps after {played} runs: the runs were used up" in written[-1]


def test_more_tries_than_runs_are_refused(shrunk: Callable[..., tuple[int, list[str]]]):
    code, _ = shrunk(lambda _: True, runs=2, tries=3)
    assert code == 64


def test_another_finding_than_that_of_the_run_does_not_count(
    shrunk: Callable[..., tuple[int, list[str]]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_line, "signs_of", lambda _: ("divergence",))
    code, written = shrunk(lambda _: True)
    assert (code, "does not show that again" in written[-1]) == (2, True)


# -- what a run shows --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conforms", "safe", "findings", "signs"),
    [
        (True, True, (), ()),
        (False, False, (NOT_AS_PREDICTED, HOLE), ("not-as-predicted/batches",)),
        (True, False, (HOLE, PERMITTED), ("hole",)),
        (None, True, (), ("unknown: step N: broker N died",)),
    ],
)
def test_a_run_shows_its_findings_on_one_question(
    conforms: bool | None, safe: bool, findings: tuple[k.Finding, ...], signs: tuple[str, ...]
):
    results = k.Results(
        conforms=conforms,
        safe=safe,
        expected=False,
        unknown="step 12: broker 3 died",
        findings=findings,
        path=Path(),
        prediction=None,
    )
    assert signs_of(results) == signs
