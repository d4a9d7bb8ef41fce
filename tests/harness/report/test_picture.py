"""The picture of a run: lanes of brokers, cuts between them, and the messages that decided it."""

import json
import re
import subprocess
from dataclasses import replace
from itertools import pairwise
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
def test_each_broker_has_a_lane_with_its_name_in_the_story(divergence: RunDirectory):
    page = Page(render(divergence))

    assert "A is broker 0, B is broker 1." in page.text
    assert "broker 0 A broker 1 B broker 2 clients" in page.text


@pytest.mark.slow
def test_a_broker_that_dies_is_down_and_its_next_generation_is_named(divergence: RunDirectory):
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


def test_a_cut_is_drawn_between_its_two_brokers_until_it_heals(divergence: RunDirectory):
    (cut,) = link_stretches(load(divergence))

    assert (cut.label, cut.brokers, cut.style) == ("0-1 cut", (0, 1), "cut")
    assert cut.ended is not None
    assert cut.ended > cut.began


def test_the_message_that_decided_it_is_the_only_fatal_one(divergence: RunDirectory):
    html = render(divergence)
    page = Page(html)

    assert len(page.with_class("arrow", "fatal")) == 1
    assert len(page.with_class("badge", "fatal")) == 1
    steps = [attrs["data-step"] for attrs in page.with_class("badge")]
    assert sorted(str(step) for step in steps) == ["1", "2", "3", "4", "5"]
    assert "e3→7" in page.text
    assert page.text.count("This decided it.") == 1


def test_the_words_tell_what_the_picture_shows(divergence: RunDirectory):
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


def test_a_broker_of_a_kraft_cluster_is_fenced_and_unfenced(tmp_path: Path):
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
):
    steps = [
        {"step": "Inject", "name": name, "fault": {"fault": "KillBroker"} | fault}
        for name, fault in faults
    ]
    build = diverged(tmp_path / "run")
    build.steps = steps

    assert story_names(load(build.seal())) == names


@pytest.mark.parametrize(("count", "drawn"), [(8, [1] * 8), (9, [9, 0])])
def test_questions_that_are_alike_are_drawn_twice_where_they_are_many(count: int, drawn: list[int]):
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


def test_labels_that_meet_stand_one_under_the_other():
    def arrow(x: float, label: str = "e1→1", to_y: int = 80) -> Arrow:
        return Arrow(x=x, from_y=20, to_y=to_y, style="message", title="", label=label)

    arrows = [arrow(10.0), arrow(10.5), arrow(11.0, ""), arrow(11.5, to_y=200), arrow(40.0)]
    drawn = {(each.x, each.row) for each in _labels_apart(arrows)}

    assert drawn == {(10.0, 0), (10.5, 1), (11.0, 0), (11.5, 0), (40.0, 0)}


@pytest.mark.parametrize(("count", "labels"), [(8, 8), (9, 1)])
def test_writes_that_say_the_same_are_one_box_where_they_are_many(count: int, labels: int):
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


def in_browser(run: RunDirectory, folder: Path, script: str, *flags: str) -> dict[str, Any]:
    """Return what a script at the end of a run's page finds in a browser."""
    page = folder / "report.html"
    page.write_text(render(run).replace("</body>", script + "</body>"), encoding="utf-8")
    places = [f"--user-data-dir={folder / 'browser'}", "--dump-dom", page.as_uri()]
    command = [str(browser()), *BROWSER_FLAGS, *flags, *places]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (text,) = re.findall("<pre>(.*?)</pre>", done.stdout)
    seen: dict[str, Any] = json.loads(unquote(text))
    return seen


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
):
    seen = in_browser(divergence, tmp_path, BY_HAND)

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


SCRUBBED = """
<script>
const parts = "#now, #changes, #replicas-now .replica";
const look = () => [...document.querySelectorAll(parts)].map((each) => each.textContent);
const seen = { first: look(), cursor: cursor.getAttribute("visibility") };
const types = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
types(".");
seen.key = look();
const marked = document.querySelectorAll("#replicas-now .replica")[1];
seen.marked = [...marked.querySelectorAll(".changed")].map((each) => each.textContent);
seen.gone = marked.querySelector("rect.gone title").textContent;
types(",");
seen.back = look();
slider.value = 0;
slider.dispatchEvent(new Event("input"));
seen.slider = look();
document.querySelector(".moments tbody tr:last-child button").click();
seen.moment = look();
const third = document.querySelector(`.badge[data-step="3"]`);
third.dispatchEvent(new MouseEvent("click", { bubbles: true }));
seen.badge = look();
seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.body.innerHTML = `<pre>${encodeURIComponent(JSON.stringify(seen))}</pre>`;
</script>
"""


@pytest.mark.slow
@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_the_replicas_at_a_moment_follow_slider_keys_and_what_is_chosen(
    divergence: RunDirectory, tmp_path: Path, width: int
):
    seen = in_browser(divergence, tmp_path, SCRUBBED, f"--window-size={width},900")

    assert "of 39; ISR [0]" in seen["first"][0]
    assert seen["cursor"] == "visible"
    assert "broker 1 truncated its log from 8 to 7" in seen["key"][1].lower()
    assert "log end offset 7" in seen["marked"]
    assert "high watermark 5" not in seen["marked"]
    assert seen["gone"] == "offsets 7 to 7 were removed"
    assert seen["back"] == seen["first"] == seen["badge"]
    assert ", 1 of 39" in seen["slider"][0]
    assert ", 39 of 39; ISR [0, 1]" in seen["moment"][0]
    assert "leader epochs: 0 from 0, 1 from 3, 2 from 5, 4 from 7" in seen["moment"][2]
    assert seen["wide"] == 0


@pytest.mark.slow
def test_a_page_has_each_replica_from_moment_to_moment(divergence: RunDirectory):
    moments = load(divergence).prediction.moments  # type: ignore[union-attr]
    of_broker = [moment for moment in moments if moment.broker == 1]
    roles = [moment.role for moment in of_broker]
    cuts = [
        (before.log_end_offset, after.log_end_offset)
        for before, after in pairwise(of_broker)
        if after.log_end_offset < before.log_end_offset
    ]

    assert {"leader", "follower", "down"} <= {*roles}
    assert cuts == [(8, 7)]
    last = of_broker[-1]
    assert last.spans[-1] == (7, 8, 4)
    assert (last.log_end_offset, last.high_watermark) == (9, 8)
