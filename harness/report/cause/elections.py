"""Elections in a cause: who was elected, and whether that was unclean."""

from kchaos.harness.report.cause.story import CauseStep, Story, Term
from kchaos.harness.report.cause.wording import acting_text, isr_text


def uncleanly(story: Story, term: Term) -> str:
    """Return why the epoch's leader was neither in the ISR nor eligible, or ""."""
    before = [state for time, state in story.states if time < term.time]
    if not story.decisions.is_kraft:
        # Before KIP-101 a partition without a leader was written with an empty ISR.
        before = [state for state in before if state.isr]
    if not before:
        return ""
    eligible = story.decisions.eligible(before[-1])
    if term.leader in (*before[-1].isr, *eligible):
        return ""
    besides = f", nor eligible as {isr_text(eligible)} were," if eligible else ""
    return (
        f". It was not in the ISR {isr_text(before[-1].isr)}{besides} before: the election was "
        "unclean"
    )


def election_step(story: Story, term: Term, *, is_fatal: bool = False) -> CauseStep:
    """Return an election: the leader, its ISR, acting faults, and whether it was unclean."""
    return CauseStep(
        time=term.time,
        section="time",
        brokers=(term.leader,),
        is_fatal=is_fatal,
        text=f"Broker {term.leader} was elected leader in leader epoch {term.leader_epoch}, with "
        f"ISR {isr_text(term.isr)}{acting_text(story, term.time)}{uncleanly(story, term)}.",
    )
