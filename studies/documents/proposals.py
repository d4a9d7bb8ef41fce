"""Every proposal that can be named: followed where it is asked for, and by no release."""

from kchaos.studies.documents import (
    kafka_7601_options,
    kip_279_alternatives,
    kip_279_text,
    kip_501_proposals,
)
from kchaos.studies.documents.proposal import Proposal

PROPOSALS: tuple[Proposal, ...] = (
    kip_279_text.BATCH_EDGE,
    kip_279_text.HIGH_WATERMARK_AT_LAST,
    kip_279_alternatives.AS_WRITTEN,
    kip_279_alternatives.ALTERNATIVE_1,
    kip_279_alternatives.ALTERNATIVE_2,
    kip_279_alternatives.HIGH_WATERMARK_EPOCH,
    kip_279_alternatives.OLD_LEADER_LEAVES,
    kafka_7601_options.MAXIMUM_FORMAT,
    kafka_7601_options.ONE_FORMAT_PER_SEGMENT,
    kafka_7601_options.FETCHED_SETS_SPLIT,
    kip_501_proposals.PENDING_READS,
    kip_501_proposals.CAUGHT_UP_NOW,
    kip_501_proposals.SLOW_LEADER_GIVES_UP,
    kip_501_proposals.ISR_ORDER,
)
"""In the order in which several are laid over a release."""
