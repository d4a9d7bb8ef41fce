"""Cross-checks: records of independent witnesses of the same fact are compared.

Several parties saw the same fact: links and brokers, the decision log and a snapshot, a client and
the bytes on disk. Where they disagree nobody can say what happened, and the run is unknown. What
kchaos alone writes down is believed.

**Verifies**: what `clients`, `acts`, `brokers`, `times`, `coordination`, `metadata`, `copies`,
`cleaning`, `messages`, `points`, `tiers`, `rebuilding` and `ending` say, a module for each
pair of witnesses.
**Does not verify**: what is written down once alone; `checkers.rules` and the model judge that.
"""

from collections.abc import Iterator

from kchaos.checkers.cross_checks.acts import acts_disagreements
from kchaos.checkers.cross_checks.brokers import broker_disagreements
from kchaos.checkers.cross_checks.cleaning import cleaning_disagreements
from kchaos.checkers.cross_checks.clients import client_disagreements
from kchaos.checkers.cross_checks.coordination import coordination_disagreements
from kchaos.checkers.cross_checks.copies import copy_disagreements
from kchaos.checkers.cross_checks.ending import ending_disagreements
from kchaos.checkers.cross_checks.messages import message_disagreements
from kchaos.checkers.cross_checks.metadata import metadata_disagreements
from kchaos.checkers.cross_checks.points import point_disagreements
from kchaos.checkers.cross_checks.rebuilding import rebuilding_disagreements
from kchaos.checkers.cross_checks.tiers import tier_disagreements
from kchaos.checkers.cross_checks.times import time_disagreements
from kchaos.checkers.evidence.run import RunEvidence

_CHECKS = (
    client_disagreements,
    acts_disagreements,
    broker_disagreements,
    time_disagreements,
    coordination_disagreements,
    metadata_disagreements,
    copy_disagreements,
    cleaning_disagreements,
    message_disagreements,
    point_disagreements,
    tier_disagreements,
    rebuilding_disagreements,
    ending_disagreements,
)
_MOST_OF_A_KIND = 5


def disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield a sentence for each disagreement, for the first few of each kind.

    Raises:
        CheckError: A file that none of the readers needed before cannot be read.
    """
    for check in _CHECKS:
        sentences = list(check(evidence))
        yield from sentences[:_MOST_OF_A_KIND]
        if len(sentences) > _MOST_OF_A_KIND:
            yield f"{len(sentences) - _MOST_OF_A_KIND} more like that"
