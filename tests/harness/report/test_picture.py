"""The picture of a run: lanes of brokers, cuts between them, and the messages that decided it."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.checkers.judge import judge
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.report import render
from kchaos.harness.report.broker_states import broker_stretches, link_stretches, story_names
from kchaos.harness.report.leadership import decisions_of
from kchaos.harness.report.loading import load
from kchaos.harness.report.moments import WriteSpan
from kchaos.harness.report.placement import time_axis
from kchaos.harness.report.time_drawing import (
    Arrow,
    _Drawing,
    _first_and_last,
    _labels_apart,
    _write_boxes,
)
from tests.golden.stored import unpacked
from tests.support.needed import BROWSER_FLAGS, browser
from tests.support.report_runs import Page, diverged

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def divergence(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    run = unpacked("1.1.1", tmp_path_factory.mktemp("golden"))
    write_judgement(run, judge(run))
    return run


@pytest.mark.slow
def test_each_broker_has_a_lane_with_its_name_in_the_story(divergence: RunDirectory) -> None:
    page = Page(render(divergence))

    assert "A is broker 0, B is broker 1." in page.text
    assert "broker 0 A broker 1 B broker 2 clients" in page.text


@pytest.mark.slow
def test_a_broker_that_dies_is_down_and_its_next_generation_is_named(
    divergence: RunDirectory,
) -> None:
    loaded = load(divergence)
    lives, _, held = broker_stretches(loaded, decisions_of(loaded), None)

    assert [stretch.label for stretch in lives[1]] == [
        "up, generation 59",
        "down, still registered",
        "down",
        "up, not registered",
        "up, generation 84",
        "up, not registered",
        "up, generation 97",
    ]
    assert [stretch.label for stretch in lives[2]] == ["up, generation 25"]
    assert [stretch.label for stretch in held[1]] == ["cut from ZooKeeper"]
    for stretches in lives.values():
        ends = [stretch.ended for stretch in stretches]
        assert ends == [*(stretch.began for stretch in stretches[1:]), None]


def test_a_cut_is_drawn_between_its_two_brokers_until_it_heals(divergence: RunDirectory) -> None:
    (cut,) = link_stretches(load(divergence))

    assert (cut.label, cut.brokers, cut.style) == ("0-1 cut", (0, 1), "cut")
    assert cut.ended is not None
    assert cut.ended > cut.began


def test_the_message_that_decided_it_is_the_only_fatal_one(divergence: RunDirectory) -> None:
    html = render(divergence)
    page = Page(html)

    assert len(page.with_class("arrow", "fatal")) == 1
    assert len(page.with_class("badge", "fatal")) == 1
    steps = [attrs["data-step"] for attrs in page.with_class("badge")]
    assert sorted(str(step) for step in steps) == ["1", "2", "3", "5"]
    assert "e3→7" in page.text
    assert page.text.count("This decided it.") == 1


def test_the_words_tell_what_the_picture_shows(divergence: RunDirectory) -> None:
    page = Page(render(divergence))
    words = page.text[page.text.index("The picture in words") :]

    for told in (
        "broker 1 is down and registered, generation 59",
        "broker 1 leads t-0 in leader epoch 3",
        "broker 1 is cut off from ZooKeeper",
        "brokers 0 and 1 are cut off from each other (both ways, silent)",
        "broker 1 asks broker 0 where leader epoch 3 ends: 7",
        "broker 0 asks broker 1 where leader epoch 2 ends: no answer",
        "a-only to broker 0: offsets 5-6",
    ):
        assert told in words


def test_a_broker_of_a_kraft_cluster_is_fenced_and_unfenced(tmp_path: Path) -> None:
    loaded = load(unpacked("3.9.1-last-replica", tmp_path, runs=GOLDEN / "kraft"))
    lives, _, _ = broker_stretches(loaded, decisions_of(loaded), None)

    labels = [stretch.label for stretch in lives[1]]
    assert labels[:3] == ["up, fenced", "up, unfenced, epoch 8", "down"]
    assert [stretch.style for stretch in lives[1]][-2:] == ["lost", "up"]


@pytest.mark.parametrize(
    ("faults", "names"),
    [
        ([("B-down", {"broker": 1})], {1: "B"}),
        ([("A-B", {"fault": "CutLink", "source": 0, "target": 1})], {0: "A", 1: "B"}),
        ([("cut-2", {"broker": 1})], {}),
        ([("B-down", {"broker": 1}), ("B-again", {"broker": 2})], {}),
    ],
)
def test_the_story_names_a_broker_where_one_fault_does(
    tmp_path: Path, faults: list[Any], names: dict[int, str]
) -> None:
    steps = [
        {"step": "Inject", "name": name, "fault": {"fault": "KillBroker"} | fault}
        for name, fault in faults
    ]
    build = diverged(tmp_path / "run")
    build.steps = steps

    assert story_names(load(build.seal())) == names


@pytest.mark.parametrize(("count", "drawn"), [(8, [1] * 8), (9, [9, 0])])
def test_questions_that_are_alike_are_drawn_twice_where_they_are_many(
    count: int, drawn: list[int]
) -> None:
    asked = [
        AskedRound(
            time=float(at),
            follower=1,
            leader=0,
            topic="t",
            partition=0,
            requested_epoch=5,
            answered_epoch=2,
            end_offset=2,
        )
        for at in range(count)
    ]
    other = replace(asked[0], follower=2)

    assert [times for _each, times in _first_and_last([*asked, other])] == [*drawn, 1]


def test_labels_that_meet_stand_one_under_the_other() -> None:
    def arrow(x: float, label: str = "e1→1", to_y: int = 80) -> Arrow:
        return Arrow(x=x, from_y=20, to_y=to_y, style="message", title="", label=label)

    arrows = [arrow(10.0), arrow(10.5), arrow(11.0, ""), arrow(11.5, to_y=200), arrow(40.0)]
    drawn = {(each.x, each.row) for each in _labels_apart(arrows)}

    assert drawn == {(10.0, 0), (10.5, 1), (11.0, 0), (11.5, 0), (40.0, 0)}


@pytest.mark.parametrize(("count", "labels"), [(8, 8), (9, 1)])
def test_writes_that_say_the_same_are_one_box_where_they_are_many(count: int, labels: int) -> None:
    axis = time_axis([float(at) for at in range(count + 2)])
    drawing = _Drawing(axis=axis, zero=0.0, ended_at=count + 1.0)
    refused = [a_write(f"settle-{number}", float(number), "fail") for number in range(count)]
    boxes = [*_write_boxes([*refused, a_write("last", count + 0.0, "ok")], drawing)]

    assert len(boxes) == labels + 1
    assert boxes[-1].label == "✓ last"
    assert ("and 8 alike" in boxes[0].label) == (count == 9)
    assert ("settle-0 to settle-8" in boxes[0].title) == (count == 9)
    assert boxes[-2].x + boxes[-2].width >= axis.place(count - 1.0)


def a_write(operation: str, at: float, outcome: str) -> WriteSpan:
    return WriteSpan(
        operation=operation,
        broker=0,
        partition="t-0",
        acks="all",
        records=1,
        invoked=at,
        ended=at + 0.5,
        outcome=outcome,
        answer=outcome,
        predicted="",
    )


BY_HAND = """
<script>
const seen = {}, badge = [...pane.querySelectorAll(".badge")].pop();
const where = () => {
  const box = badge.getBoundingClientRect();
  return box.left + box.width / 2;
};
const width = () => whole.getBoundingClientRect().width;
const press = (key) => {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  pane.dispatchEvent(event);
  return event.defaultPrevented;
};
const turn = (ctrlKey, deltaY) => {
  const how = { ctrlKey, deltaY, clientX: where(), bubbles: true, cancelable: true };
  const event = new WheelEvent("wheel", how), before = [width(), where()];
  badge.dispatchEvent(event);
  return [event.defaultPrevented, width() / before[0], Math.abs(where() - before[1]) < 2];
};
badge.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
seen.read = [readout.textContent, badge.querySelector("title").textContent];
seen.sentence = [document.querySelector(".cause li.pointed").dataset.step, badge.dataset.step];
seen.plain = turn(false, -120);
seen.larger = [turn(true, -120), turn(true, -120), turn(true, -120)].pop();
seen.smaller = turn(true, 120);
press("0");
const whole_width = width();
seen.keys = [press("+"), press("+"), width() / whole_width];
const most = pane.scrollWidth - pane.clientWidth;
seen.end = [press("End"), most > 0, pane.scrollLeft > most - 2];
seen.home = [press("Home"), pane.scrollLeft];
seen.other = [press("Tab"), width() / whole_width];
seen.zero = [press("0"), width() / whole_width];
const link = document.querySelector(`.cause li[data-step="${badge.dataset.step}"] a`);
link.focus();
seen.focused = badge.classList.contains("pointed");
link.blur();
seen.left = badge.classList.contains("pointed");
document.querySelector(".finding > p").textContent = "org.apache.kafka.".repeat(30);
seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.body.innerHTML = `<pre>${encodeURIComponent(JSON.stringify(seen))}</pre>`;
</script>
"""


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_wheel_keys_and_pointer_do_in_a_browser_what_the_page_says(
    divergence: RunDirectory, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(divergence).replace("</body>", BY_HAND + "</body>"), encoding="utf-8")
    places = [f"--user-data-dir={tmp_path / 'browser'}", "--dump-dom", page.as_uri()]
    command = [str(browser()), *BROWSER_FLAGS, *places]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (text,) = re.findall("<pre>(.*?)</pre>", done.stdout)
    seen = json.loads(unquote(text))

    assert seen["read"][0] == seen["read"][1]
    assert seen["sentence"][0] == seen["sentence"][1]
    assert seen["plain"] == [False, 1, True]
    assert seen["larger"] == [True, pytest.approx(1.25, abs=0.01), True]
    assert seen["smaller"] == [True, pytest.approx(0.8, abs=0.01), True]
    assert seen["keys"] == [True, True, pytest.approx(4, abs=0.01)]
    assert seen["end"] == [True, True, True]
    assert seen["home"] == [True, 0]
    assert seen["other"] == [False, pytest.approx(4, abs=0.01)]
    assert seen["zero"] == [True, pytest.approx(1, abs=0.01)]
    assert seen["focused"]
    assert not seen["left"]
    assert seen["wide"] == 0
