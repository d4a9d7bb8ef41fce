"""The report as text for a terminal: the same content, condensed, no line wider than asked.

The command that plays the run again is the exception: a word of it is left whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from kchaos.checkers.errors import CheckError
from kchaos.checkers.outcome import partition_of
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.report import answers
from kchaos.harness.report.broker_states import story_names
from kchaos.harness.report.cause.causes import cause_of
from kchaos.harness.report.cause.story import CauseStep
from kchaos.harness.report.cause.unavoidable import no_way_back
from kchaos.harness.report.control import ACCEPTED, control_rows, most_of
from kchaos.harness.report.finding_views import in_order, offsets_text
from kchaos.harness.report.lane_drawing import lanes_of, marks_on, note_of, offsets_of
from kchaos.harness.report.lanes import LogLane, LogSpan, join_equal
from kchaos.harness.report.leadership import Incarnation, decisions_of, incarnations
from kchaos.harness.report.loading import Loaded, load
from kchaos.harness.report.moments import Moment, faults_of, moments, story_of, writes_of
from kchaos.harness.report.paper import Paper
from kchaos.harness.report.replicas import PartitionView, ReplicaView, partition_views
from kchaos.harness.report.rounds import Pair, observed_rounds, predicted_rounds, side_by_side
from kchaos.harness.report.sections import sections_of
from kchaos.harness.report.service import not_measured, service_tables
from kchaos.harness.report.tier_text import tier_sections
from kchaos.harness.report.whose import lead_of, next_commands
from kchaos.harness.report.witness_text import witness_text

MOST_FINDINGS, MOST_SPANS, MOST_MOMENTS, MOST_PARTITIONS, MOST_REQUESTS = 30, 24, 80, 12, 40
"""More than this of a kind is cut short, and the text says so."""

_STYLES = {"safety": "no", "conformance": "unknown", "neither": "quiet"}
_SIGNS = {
    "story": "--",
    "fault": "!!",
    "healed": "ok",
    "decision": "=>",
    "produce": "->",
    "read": "<-",
    "hit": "||",
    "look": "??",
    "registration": "id",
    "late": ">>",
    "told": "<-",
    "own": "++",
}


def text_report(run: RunDirectory, width: int = 80, colour: bool = False) -> str:
    """Return the report of a run's newest judgement as text, ending in a newline.

    No line exceeds `width`. With `colour` it has ANSI colours, each beside its word.

    Raises:
        CheckError: The judgement, or what was run, cannot be read.
    """
    loaded = load(run)
    try:
        return _whole(loaded, Paper(max(40, width), colour))
    except CheckError as error:
        return damaged_text(loaded, error, Paper(max(40, width), colour))


def damaged_text(loaded: Loaded, error: CheckError, paper: Paper) -> str:
    """Return the text of the judgement of a run whose evidence is no longer readable."""
    paper.add(loaded.name, style="quiet")
    paper.add(answers.outcome_of(loaded), style="bold")
    for each in answers.answers_of(loaded):
        paper.add(f"{each.symbol} {each.words}", style=each.answer)
    unreadable = (
        f"The evidence of this run cannot be read: {error}. What follows was judged before."
    )
    for warning in (unreadable, *answers.warnings(loaded)):
        paper.add()
        paper.add(f"! {warning}", style="unknown", hang=2)
    _findings(paper, loaded)
    return paper.text()


def _whole(loaded: Loaded, paper: Paper) -> str:
    views = partition_views(loaded)
    _head(paper, loaded, views)
    _findings(paper, loaded)
    _replicas(paper, loaded, views)
    for heading, lines in tier_sections(loaded.evidence, views):
        paper.heading(heading)
        for line in lines:
            paper.add(line, indent=2, hang=4)
    _caches(paper, views)
    _rounds(paper, loaded)
    _time(paper, loaded)
    _service(paper, loaded)
    _sections(paper, loaded)
    _brokers(paper, loaded)
    _control(paper, loaded)
    if had := [(words, times) for words, times in answers.occasions_of(loaded) if times]:
        paper.heading("Occasions")
        for words, times in had:
            paper.add(f"{times:>4}x {words}", indent=2, hang=7, style="quiet")
    if left_out := answers.not_compared(loaded):
        paper.heading("Compared in no run")
        for each in left_out:
            paper.add(each, indent=2, hang=2, style="quiet")
    paper.heading("Next")
    for command, purpose in next_commands(loaded):
        paper.add(f"To {purpose}:", indent=2, style="quiet")
        paper.add_command(command, indent=4)
    return paper.text()


def _head(paper: Paper, loaded: Loaded, views: Sequence[PartitionView]) -> None:
    paper.add(loaded.evidence.name, style="quiet")
    paper.add(answers.outcome_of(loaded), style="bold")
    if answers.title_of(loaded):
        paper.add(answers.title_of(loaded), style="quiet")
    for each in answers.answers_of(loaded):
        paper.add(f"{each.symbol} {each.words}", style=each.answer)
    for sentence in lead_of(loaded):
        paper.add(sentence)
    for warning in answers.warnings(loaded):
        paper.add()
        paper.add(f"! {warning}", style="unknown", hang=2)
    reasons, traces = answers.unknown_reasons(loaded), answers.tracebacks(loaded)
    if reasons or traces:
        paper.heading("Why it is unknown")
        for reason in reasons:
            paper.add(reason, indent=2, hang=2, style="unknown")
        for trace in traces:
            for line in trace.splitlines():
                paper.add(line, indent=4)
    _cause(paper, loaded, views)
    paper.add()
    named = [f"{letter} is broker {broker}" for broker, letter in story_names(loaded).items()]
    paper.add(" ".join([answers.summary(loaded), f"{', '.join(named)}." if named else ""]).strip())
    for line in story_of(loaded):
        paper.add(f"- {line}", indent=2, hang=2)
    if answers.expectation_of(loaded):
        paper.add(answers.expectation_of(loaded), style="quiet")
    for witness in answers.witnesses_of(loaded):
        verdict = "found" if witness.found else "NOT FOUND"
        words = f"witness {verdict}: {witness_text(witness.wanted)}; {witness.seen}"
        paper.add(words, indent=2, hang=2, style="quiet" if witness.found else "no")


def _cause(paper: Paper, loaded: Loaded, views: Sequence[PartitionView]) -> None:
    steps = cause_of(
        loaded,
        views=views,
        decisions=decisions_of(loaded),
        rounds=observed_rounds(loaded),
        faults=faults_of(loaded),
    )
    if steps:
        paper.heading("What led to it")
    for number, step in enumerate(steps, start=1):
        decided = " This decided it." if step.is_fatal else ""
        paper.add(f"{number}. {_at(step, loaded)}{step.text}{decided}", indent=2, hang=3)
    since = no_way_back(loaded)
    if since is not None:
        paper.add(f"{_at(since, loaded)}{since.text}", indent=2)


def _at(step: CauseStep, loaded: Loaded) -> str:
    return "" if step.time is None else f"{step.time - loaded.started_at:.3f} s: "


def _findings(paper: Paper, loaded: Loaded) -> None:
    paper.heading("Findings")
    if not loaded.findings:
        paper.add("None." if loaded.judgement else "None: not judged yet.", indent=2)
    for finding in in_order(loaded.findings)[:MOST_FINDINGS]:
        brokers = ",".join(map(str, finding.brokers))
        offsets = offsets_text(finding)
        parts = (
            finding.kind,
            partition_of(finding),
            f"brokers {brokers}" if brokers else "",
            f"offsets {offsets}" if offsets else "",
            f"in {finding.snapshot}" if finding.snapshot else "",
        )
        style = _STYLES[finding.question.value]
        paper.add(f"* {'  '.join(part for part in parts if part)}", style=style, hang=2)
        paper.add(finding.message, indent=4)
    if count := len(answers.held(loaded)):
        paper.add(f"Looked for and not found: {count} kinds of findings.", indent=2, style="quiet")
    left = len(loaded.findings) - MOST_FINDINGS
    if left > 0:
        paper.add(f"{left} more are in the judgement's findings.jsonl", indent=2)


def _replicas(paper: Paper, loaded: Loaded, views: Sequence[PartitionView]) -> None:
    if loaded.prediction:
        paper.heading("Replicas  (* differs from the other side)")
    else:
        paper.heading("Replicas")
    if not views:
        paper.add("No snapshot was taken.", indent=2)
    for view in views[:MOST_PARTITIONS]:
        state = view.state
        words = ""
        if state is not None:
            isr = ",".join(map(str, state.isr))
            words = f": leader {state.leader} epoch {state.leader_epoch} ISR {isr}"
        paper.add(f"{view.name}, snapshot {view.snapshot}{words}", indent=1, style="bold")
        for replica in view.replicas:
            _replica(paper, loaded, view, replica)
    if len(views) > MOST_PARTITIONS:
        paper.add(f"{len(views) - MOST_PARTITIONS} more are in the HTML report", indent=2)


def _replica(paper: Paper, loaded: Loaded, view: PartitionView, replica: ReplicaView) -> None:
    lanes = lanes_of(replica)
    alike = _is_alike(replica, lanes)
    if alike:
        lanes = [("as predicted", lanes[1][1])]
    role = f" ({replica.role})" if replica.role else ""
    paper.add(f"broker {replica.broker}{role}", indent=2)
    for side, lane in lanes:
        spans = join_equal(lane.spans)
        shown = " | ".join(_shown(spans)) or "empty"
        note = note_of(replica, "on disk" if alike else side)
        if alike and replica.foreseen is not None and len(replica.foreseen.high_watermarks) > 1:
            note += f" (predicted: {note_of(replica, 'predicted').partition('HW ')[2]})"
        style = "no" if any(span.differs or span.is_hole for span in spans) else ""
        paper.add(f"{side + ':':<14}{shown}", indent=4, hang=14, style=style)
        paper.add(f"{'':<14}{note}", indent=4, hang=14, style="quiet")
    for mark in marks_on(view, replica.broker, loaded.findings)[:10]:
        text = f"{'':<14}^ {mark.kind} {offsets_text(mark)}"
        paper.add(text, indent=4, style=_STYLES[mark.question.value])
    for problem in replica.on_disk.problems if replica.on_disk else ():
        paper.add(problem, indent=4, style="unknown")


def _is_alike(replica: ReplicaView, lanes: Sequence[tuple[str, LogLane]]) -> bool:
    """Return whether one line describes both sides: the log, its end, and the high watermark."""
    disk_log, foreseen = replica.on_disk, replica.foreseen
    return (
        disk_log is not None
        and foreseen is not None
        and not any(span.differs for _, lane in lanes for span in lane.spans)
        and disk_log.log_end_offset == foreseen.log_end_offset
        and disk_log.high_watermark in foreseen.high_watermarks
    )


def _shown(spans: Sequence[LogSpan]) -> Iterator[str]:
    """Yield the spans; of many, both ends and the marked ones, with the number left out between."""
    odd = [n for n, span in enumerate(spans) if span.differs or span.is_hole]
    edge = MOST_SPANS // 4
    kept = set(range(len(spans)))
    if len(spans) > MOST_SPANS:
        kept = {*range(edge), *range(len(spans) - edge, len(spans)), *odd[: MOST_SPANS // 2]}
    before = -1
    for number in sorted(kept):
        if number > before + 1:
            yield f"({number - before - 1} more)"
        yield _span(spans[number])
        before = number


def _span(span: LogSpan) -> str:
    epoch = "HOLE" if span.is_hole else "cleaned" if span.cleaned else f"e{span.leader_epoch}"
    if span.leader_epoch == -1:
        epoch = "no epoch"
    return f"{'*' if span.differs else ''}{offsets_of(span)} {epoch}"


def _caches(paper: Paper, views: Sequence[PartitionView]) -> None:
    rows = [
        (view, replica, disk_entries, foreseen)
        for view in views[:MOST_PARTITIONS]
        for replica in view.replicas
        for disk_entries in [replica.on_disk.epoch_entries if replica.on_disk else None]
        for foreseen in [replica.foreseen.epoch_entries if replica.foreseen else None]
        if disk_entries is not None or foreseen
    ]
    if not rows:
        return
    paper.heading("Epoch caches  (epoch@start offset)")
    for view, replica, disk_entries, foreseen in rows:
        who = f"{view.name} broker {replica.broker} {view.snapshot}: "
        text = who + _entries(disk_entries)
        if foreseen is not None and foreseen != disk_entries:
            paper.add(f"{text}  * predicted {_entries(foreseen)}", indent=2, hang=4, style="no")
        else:
            paper.add(text, indent=2, hang=4)


def _entries(entries: Iterable[tuple[int, int]] | None) -> str:
    if entries is None:
        return "no checkpoint"
    return " ".join(f"{epoch}@{start}" for epoch, start in entries) or "empty"


def _rounds(paper: Paper, loaded: Loaded) -> None:
    pairs = side_by_side(predicted_rounds(loaded), observed_rounds(loaded))
    if not pairs:
        return
    paper.heading("Epoch questions (follower -> leader)")
    distinct = [
        (text, len([*alike]))
        for text, alike in groupby(_round(pair, bool(loaded.prediction)) for pair in pairs)
    ]
    for text, times in distinct[:MOST_MOMENTS]:
        paper.add(f"{text}  ({times} times)" if times > 1 else text, indent=2, hang=4)
    if len(distinct) > MOST_MOMENTS:
        left = sum(times for _, times in distinct[MOST_MOMENTS:])
        paper.add(f"{left} more are in the HTML report", indent=2)


def _round(pair: Pair, has_prediction: bool) -> str:
    each = pair.observed or pair.predicted
    assert each is not None
    answer = "no answer seen"
    if each.error_code:
        answer = f"error {each.error_code}"
    elif each.end_offset is not None:
        epoch = "" if each.answered_epoch is None else f"epoch {each.answered_epoch}, "
        answer = f"{epoch}end offset {each.end_offset}"
    words = f"{each.follower} -> {each.leader} {each.topic}-{each.partition} "
    words += f"epoch {each.requested_epoch}? {answer}"
    if each.by_fetch:
        words += " (by Fetch)"
    if each.fate:
        words += f" (first {each.fate} at the link)" if each.is_answered else f" ({each.fate})"
    if pair.agree:
        return f"{words}  as predicted"
    if pair.observed is None:
        return f"{words}  * predicted, not seen"
    return f"{words}  * not in the prediction" if has_prediction and each.is_answered else words


def _time(paper: Paper, loaded: Loaded) -> None:
    decisions = decisions_of(loaded)
    faults = faults_of(loaded)
    all_moments = moments(
        loaded, decisions=decisions, faults=faults, writes=writes_of(loaded), rounds=()
    )
    begun = min((moment.time for moment in all_moments if moment.kind == "step"), default=0.0)
    # Those that register before the first step are about the cluster's start.
    shown = [
        moment
        for moment in all_moments
        if moment.kind != "step" and (moment.kind != "registration" or moment.time >= begun)
    ]
    paper.heading("Time line (seconds; | while a fault acts)")
    for problem in decisions.problems:
        paper.add(f"! decisions are missing: {problem}", indent=2, hang=2, style="unknown")
    if len(shown) > MOST_MOMENTS:
        paper.add(f"{len(shown) - MOST_MOMENTS} moments in the middle are left out", indent=2)
        shown = [*shown[: MOST_MOMENTS // 2], *shown[-MOST_MOMENTS // 2 :]]
    bars = list(dict.fromkeys(fault.name for fault in faults))[:8]
    for moment in shown:
        _moment(paper, moment, bars, loaded.started_at)


def _moment(paper: Paper, moment: Moment, bars: Sequence[str], zero: float) -> None:
    acting = "".join("|" if name in moment.faults else " " for name in bars)
    sign = _SIGNS.get(moment.kind, "  ")
    styles: Mapping[str, str] = {"story": "bold", "fault": "no", "unknown": "unknown"}
    style = "no" if moment.outcome == "fail" else styles.get(moment.kind, "")
    start = f"{moment.time - zero:8.3f} {acting} {sign} "
    paper.add(start + moment.text, hang=len(start), style=style)


def _service(paper: Paper, loaded: Loaded) -> None:
    tables, missing = service_tables(loaded), not_measured(loaded)
    if not tables and not missing:
        return
    paper.heading("Availability")
    for table in tables:
        paper.add(table.title, indent=1, style="bold")
        for row in table.rows[:MOST_MOMENTS]:
            named = [
                f"{column} {value}"
                for column, value in zip(table.columns[1:], row[1:], strict=True)
                if value
            ]
            paper.add(f"{row[0]}: {', '.join(named)}", indent=2, hang=4)
        if len(table.rows) > MOST_MOMENTS:
            paper.add(f"{len(table.rows) - MOST_MOMENTS} more are in results.json", indent=2)
    for each in missing:
        paper.add(f"Not measured: {each}", indent=2, hang=2, style="quiet")


def _sections(paper: Paper, loaded: Loaded) -> None:
    for section in sections_of(loaded):
        paper.heading(section.title)
        for group, rows in groupby(section.rows, key=lambda row: row.group):
            paper.add(group, indent=1, style="bold")
            for row in rows:
                paper.add(row.text, indent=2, hang=4)


def _brokers(paper: Paper, loaded: Loaded) -> None:
    paper.heading("Brokers")
    generations = {} if loaded.prediction is None else loaded.prediction.generations
    decisions = decisions_of(loaded)
    history = incarnations(loaded, decisions)
    for number, broker in sorted(loaded.run.brokers.items()):
        generation = f", generation {generations[number]}" if number in generations else ""
        release = f"{broker.name}, judged as {broker.judged_as}{generation}"
        paper.add(f"broker {number}: {release}", indent=2, hang=4)
        for each in history:
            if each.broker == number:
                line = _incarnation(each, loaded.started_at, decisions.registration)
                paper.add(line, indent=4, hang=4)
    paper.add(", ".join(_versions(loaded)), indent=2, style="quiet", hang=2)


def _control(paper: Paper, loaded: Loaded) -> None:
    rows = control_rows(loaded)
    if not rows:
        return
    paper.heading("Control requests (broker epoch carried / in force)")
    refused = [row for row in rows if row.is_late or row.answer != ACCEPTED]
    shown = most_of(refused, MOST_REQUESTS)
    if len(shown) < len(rows):
        paper.add(f"{len(rows) - len(shown)} that came in time are left out", indent=2)
    for row in shown:
        start = f"{row.time - loaded.started_at:8.3f}  "
        of_partitions = f" about {row.partitions}" if row.partitions else ""
        text = f"{row.request}{of_partitions}: {row.carried} / {row.in_force}: {row.answer}"
        paper.add(start + text, hang=len(start), style="no" if row.is_late else "")


def _incarnation(each: Incarnation, zero: float, registration: str) -> str:
    parts = ["not registered" if each.czxid is None else f"{registration} {each.czxid}"]
    if each.why in ("fenced", "unfenced", "in controlled shutdown"):
        parts.append(each.why)
    if each.session_id is not None:
        parts.append(f"session 0x{each.session_id:x}")
    if each.pid is not None:
        parts.append(f"pid {each.pid}")
    return f"{each.since - zero:8.3f}  {', '.join(parts)}"


def _versions(loaded: Loaded) -> Iterator[str]:
    for name in ("driver", "engine", "images", "seed", "kchaos", "python"):
        value = getattr(loaded.run, name)
        if value not in (None, ""):
            yield f"{name} {value}"
