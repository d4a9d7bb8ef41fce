"""The control address: requests of a command, answered by steps of the run or refused."""

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.harness.campaign.control import Control
from kchaos.harness.commands.cli import run as command_line
from kchaos.harness.player.free import FREE_MIXES, faults_beside
from kchaos.harness.run.steps_checked import check_steps
from kchaos.harness.steps.scenario_steps import Heal, Inject


class FakeChaos:
    """A run on three brokers, of which broker 2 is down already."""

    def __init__(self) -> None:
        self.acting: dict[str, k.Fault] = {}
        self.has_failed = False
        self.performed_in: set[threading.Thread] = set()

    def new_name(self, kind: str) -> str:
        return f"{kind}-1"

    def is_acting(self, name: str) -> bool:
        return name in self.acting

    def injection(self, name: str) -> k.Injection:
        return k.Injection(fault=type(self.acting[name]).__name__, effect={"exit_code": -9})

    def topics(self) -> dict[str, list[int]]:
        return {"t": [0, 1], "u": [0]}

    def state(self, topic: str, partition: int) -> LeaderAndIsr:
        return LeaderAndIsr(leader=-1 if topic == "u" else partition, leader_epoch=3, isr=(1, 0))

    def attempt(self, step: Inject | Heal) -> str:
        self.performed_in.add(threading.current_thread())
        cluster = k.ClusterSpec(brokers=k.brokers_of("3.9.1", (0, 1, 2)))
        tried = (k.IfPossible(do=step),)
        check_steps(k.Scenario(entry="e", case="", release="3.9.1", cluster=cluster, steps=tried))
        if isinstance(step, Heal):
            del self.acting[step.name]
        elif getattr(step.fault, "broker", None) == 2:
            return "broker 2 does not run"
        else:
            self.acting[step.name] = step.fault
        return ""


class Asked:
    """A control address whose requests this thread answers, one after another."""

    def __init__(self, control: Control) -> None:
        self.control = control

    def __call__(
        self, path: str, body: bytes | dict[str, Any] | None = None, **headers: str
    ) -> tuple[int, Any]:
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        request = urllib.request.Request(self.control.address + path, content, headers)
        answers: list[tuple[int, Any]] = []

        def ask() -> None:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    answers.append((answer.status, json.load(answer)))
            except urllib.error.HTTPError as error:
                answers.append((error.code, json.load(error)))

        asking = threading.Thread(target=ask)
        asking.start()
        while asking.is_alive():
            if self.control.has_requests():
                self.control.answer_next()
            asking.join(0.002)
        return answers[0]


@pytest.fixture
def chaos() -> FakeChaos:
    return FakeChaos()


@pytest.fixture
def ask(chaos: FakeChaos) -> Iterator[Asked]:
    with Control(chaos) as control:  # type: ignore[arg-type]
        yield Asked(control)


KILL = {"fault": "KillBroker", "broker": 0}


def test_a_fault_is_injected_listed_and_healed_by_the_thread_of_the_run(
    chaos: FakeChaos, ask: Asked
):
    effect = {"exit_code": -9}
    assert ask("/inject", {"fault": KILL, "name": "down"}) == (
        *(200, {"name": "down", "acts": True, "effect": effect}),
    )
    assert chaos.acting == {"down": k.KillBroker(broker=0)}
    assert ask("/faults") == (200, [{"name": "down", "fault": "KillBroker"}])
    assert ask("/heal", {"name": "down"}) == (200, {"name": "down"})
    assert ask("/faults") == (200, [])
    assert chaos.performed_in == {threading.current_thread()}
    assert ask("/inject", {"fault": KILL})[1]["name"] == "KillBroker-1"


def test_it_says_who_leads_with_the_epoch_and_the_isr(ask: Asked):
    status, partitions = ask("/leaders")
    assert status == 200
    assert [(each["topic"], each["partition"], each["leader"]) for each in partitions] == [
        *(("t", 0, 0), ("t", 1, 1), ("u", 0, None))
    ]
    assert ask("/leaders?topic=t")[1][1] == {
        **{"topic": "t", "partition": 1, "leader": 1, "leader_epoch": 3, "isr": [0, 1]}
    }


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/inject", {"fault": {"fault": "KilBroker"}}, 400, "did you mean KillBroker?"),
        ("/inject", {"fault": {"fault": "KillBroker"}}, 400, "KillBroker: "),
        ("/inject", {"fault": {**KILL, "brokr": 1}}, 400, "KillBroker has no field brokr"),
        ("/inject", {"fault": {**KILL, "broker": 7}}, 400, "the cluster has no broker 7"),
        ("/inject", {"fault": {**KILL, "broker": 2}}, 409, "broker 2 does not run"),
        ("/inject", {}, 400, "the field fault is missing"),
        ("/inject", {"fault": "KillBroker"}, 400, "must be an object"),
        ("/inject", {"fault": KILL, "nam": "x"}, 400, "no field nam; fields: fault, name"),
        ("/inject", b"KillBroker", 400, "the body is no JSON"),
        ("/inject", b"[]", 400, "the body is no JSON object"),
        ("/inject", b'"' + b"x" * 70_000 + b'"', 400, "at most 65536 bytes"),
        ("/heal", {"name": "gone"}, 404, "no fault named 'gone' acts; those that do: none"),
        ("/heal", {}, 400, "the field name is missing"),
        ("/heal", {"name": 3}, 400, "must be a text"),
        ("/leaders?topic=x", None, 404, "there is no topic 'x'; topics: t, u"),
        ("/leader", None, 404, "there is no GET /leader; there are POST /inject, "),
        ("/inject", None, 404, "there is no GET /inject"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    ask: Asked, chaos: FakeChaos, path: str, body: Any, status: int, said: str
):
    code, answer = ask(path, body)
    assert (code, said in answer["error"]) == (status, True), answer
    assert chaos.acting == {}


def test_a_page_in_a_browser_injects_nothing(ask: Asked, chaos: FakeChaos):
    assert ask("/inject", {"fault": KILL}, Origin="http://example.org")[0] == 403
    assert chaos.acting == {}


def test_a_name_that_acts_is_not_given_twice(ask: Asked):
    ask("/inject", {"fault": KILL, "name": "down"})
    status, answer = ask("/inject", {"fault": {**KILL, "broker": 1}, "name": "down"})
    assert (status, "acts already" in answer["error"]) == (409, True)


def test_a_step_that_makes_the_run_unknown_ends_it_and_is_answered(
    ask: Asked, chaos: FakeChaos, monkeypatch: pytest.MonkeyPatch
):
    def attempt(_step: object) -> str:
        chaos.has_failed = True
        raise k.ScenarioError("nothing goes on")

    monkeypatch.setattr(chaos, "attempt", attempt)
    said: list[int] = []

    def post() -> None:
        try:
            urllib.request.urlopen(
                ask.control.address + "/inject", json.dumps({"fault": KILL}).encode(), timeout=60
            )
        except urllib.error.HTTPError as error:
            said.append(error.code)

    asking = threading.Thread(target=post)
    asking.start()
    k.await_until(
        ask.control.has_requests, timeout_s=30, waiting_for="the request", last_seen=lambda: said
    )
    with pytest.raises(k.ScenarioError, match="nothing goes on"):
        ask.control.answer_next()
    asking.join()
    assert said == [500]


@pytest.mark.slow
@pytest.mark.parametrize("mix", FREE_MIXES)
@pytest.mark.parametrize("brokers", [1, 2, 5])
@pytest.mark.parametrize("release", ["2.8.2", "4.1.2"])
def test_a_seed_draws_the_same_faults_for_a_cluster_of_one_s_own(
    release: str, brokers: int, mix: str
):
    spec = k.ClusterSpec(brokers=k.brokers_of(release, tuple(range(brokers))), client_links=True)
    topic = k.CreateTopic(topic="t", assignment=(tuple(range(min(3, brokers))),))

    def drawn() -> list[Any]:
        faults = faults_beside(7, spec, [topic], mix=mix, release=release)
        return [next(faults) for _ in range(60)]

    faults = drawn()
    assert faults == drawn()
    moments = [moment for moment, _ in faults]
    assert moments == sorted(moments)
    steps: tuple[k.Step, ...] = (topic, *(k.IfPossible(do=fault) for _, fault in faults))
    assert {type(fault) for _, fault in faults} <= {k.Inject, k.Heal}
    check_steps(k.Scenario(entry="e", case="", release=release, cluster=spec, steps=steps))


_COMMAND = """
import json, os, urllib.request
from kafka import KafkaProducer

def post(path, body):
    url = os.environ["KCHAOS_CONTROL"] + path
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=90) as answer:
        return json.load(answer)

servers = os.environ["KCHAOS_BOOTSTRAP_SERVERS"].split(",")
with KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=False) as producer:
    producer.send("mine", b"before").get(30)
    post("/inject", {"name": "down", "fault": {"fault": "KillBroker", "broker": 1}})
    producer.send("mine", b"during").get(30)
    post("/heal", {"name": "down"})
"""


@pytest.mark.cluster
def test_a_command_injects_beside_a_mix_and_both_are_steps_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    command = ("--kafka", "3.9.1", "--brokers", "2", "--judge", "--mix", "restarts", "--seed", "7")
    topic = ("--topic", "mine:1:2", "--runs-dir", str(tmp_path), "--", sys.executable, "-c")
    code = command_line(["up", *command, *topic, _COMMAND])

    assert code == 0, capsys.readouterr()
    run = k.RunDirectory.open(tmp_path / "latest")
    scenario = k.Scenario.from_json(run.read("scenario.json"))
    done = [getattr(step, "do", step) for step in scenario.steps]
    assert done[0] == k.CreateTopic(topic="mine", assignment=((0, 1),))
    assert k.Inject(name="down", fault=k.KillBroker(broker=1)) in done
    assert k.Heal(name="down") in done
    assert scenario.seed == 7
