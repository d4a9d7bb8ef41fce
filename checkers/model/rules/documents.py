"""What KIP-279's text says where no release does it; followed only when named.

- Scenario 1, third case: a truncation to 21 inside a batch "will truncate all the way to offset 10"
  and the follower refetches from 11. Kafka's Log.truncateTo removes the batch but sets the log end
  offset to 21, so that it fetches from 21 and keeps a hole.
- Scenario 3: when no common epoch is left the follower truncates to its high watermark. 2.0.0
  truncates to where the round before left its fetch offset.
"""

from checkers.model.epoch_cache import UNDEFINED_OFFSET, EpochEnd
from checkers.model.generation import FollowerLog, Rule, TruncationState
from checkers.model.rules import kip_279


def truncate_to_high_watermark_at_last(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
    """Truncate as KIP-279 does, but to the high watermark when the leader knows no epoch."""
    if answer.end_offset == UNDEFINED_OFFSET:
        return TruncationState(offset=follower.high_watermark, completed=True)
    return kip_279.truncate(answer, follower)


BATCH_EDGE = Rule(
    name="KIP-279's text: log ends at a batch edge",
    changes={"ends_at_batch_edge": True},
)

HIGH_WATERMARK_AT_LAST = Rule(
    name="KIP-279's text: high watermark at last",
    changes={"truncate": truncate_to_high_watermark_at_last},
)
