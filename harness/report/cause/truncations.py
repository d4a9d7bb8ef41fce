"""Truncations in a cause: what a follower cut off, and what it kept although it had to go."""

from collections.abc import Iterator

from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.checkers.model.releases.rules.kip_101 import KIP_101
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.rules.offsets import in_words
from kchaos.harness.report.cause.elections import election_step
from kchaos.harness.report.cause.epoch_questions import question_text
from kchaos.harness.report.cause.story import CauseStep, Story
from kchaos.harness.report.cause.wording import cut_step, finding_step


def cut_too_little(story: Story, follower: int) -> Iterator[CauseStep]:
    """Yield the follower's last truncation, if it kept the differing offsets."""
    first, last = story.finding.first_offset, story.finding.last_offset
    own = [cut for cut in story.truncations if cut.broker == follower]
    for cut in own[-1:]:
        if cut.target_offset > last and story.finding.kind == "divergence":
            is_at_mark = cut.target_offset == cut.high_watermark
            mark = ", its high watermark" if is_at_mark else ""
            yield cut_step(story, cut, f"{mark}; {in_words(first, last)} stayed")


def cut_nothing(
    story: Story, follower: int, since: float, *, is_fatal: bool = False
) -> Iterator[CauseStep]:
    """Yield that a fully explained follower truncated nothing in the whole run.

    Its time is when it began to follow in the last leader epoch, not before `since`.
    """
    prediction, finding = story.loaded.prediction, story.finding
    if prediction is None or not prediction.states or prediction.limit or prediction.emptied_by:
        return
    has_cut = any(cut.broker == follower for cut in story.truncations_of_name)
    if finding.kind == "divergence" and not has_cut:
        time = story.follows_since(follower, since)
        yield CauseStep(
            time=time,
            section="replicas",
            brokers=(follower,),
            is_fatal=is_fatal,
            text=f"Broker {follower} followed again, by the model, and truncated nothing"
            f"{_all_committed(story, follower, time)}; "
            f"{in_words(finding.first_offset, finding.last_offset)} stayed.",
        )


def _all_committed(story: Story, follower: int, time: float | None) -> str:
    """Return that a follower's high watermark was its log's end, where nobody asks for epochs."""
    ran = story.loaded.run.brokers.get(follower)
    replica = None if time is None else story.replica_at(follower, time)
    if ran is None or replica is None or replica.high_watermark < replica.log_end_offset:
        return ""
    if parse_version(ran.judged_as) >= parse_version(KIP_101.since[0]):
        return ""
    return f", since its high watermark, {replica.high_watermark}, was the end of its log"


def below_high_watermark(story: Story) -> Iterator[CauseStep]:
    """Yield a truncation below a high watermark: the election, the question and the offset."""
    finding = story.finding
    for term in story.terms[-2:]:
        yield election_step(story, term)
    answers = [
        each
        for each in story.rounds
        if each.is_answered
        and each.follower in finding.brokers
        and (each.end_offset or 0) <= finding.last_offset
        and (each.requested_epoch >= 0 or each.by_fetch)
    ]
    for each in answers[-1:]:
        yield CauseStep(
            time=each.time,
            section="rounds",
            brokers=(each.leader, each.follower),
            is_fatal=True,
            text=question_text(each, story),
        )
    for cut in story.truncations:
        reaches = cut.target_offset <= finding.last_offset < cut.log_end_offset_before
        if reaches and cut.broker in finding.brokers:
            rest = f"; its high watermark was {cut.high_watermark}"
            yield cut_step(story, cut, rest, is_fatal=not answers)
    yield finding_step(finding)


def kept_after(story: Story, asked: AskedRound) -> Iterator[CauseStep]:
    """Yield the offsets that the follower should have truncated after the answer, or still has."""
    first, last = story.finding.first_offset, story.finding.last_offset
    answer = asked.end_offset or 0
    stays = answer > last and story.finding.kind == "divergence"
    for cut in story.truncations:
        if (cut.broker, cut.target_offset) == (asked.follower, answer):
            yield cut_step(story, cut, f"; {in_words(first, last)} stayed" if stays else "")
            return
    if stays:
        yield CauseStep(
            section="replicas",
            text=f"Broker {asked.follower} kept its records from {first} on, since {answer} lies "
            "after the offsets that differ.",
        )
