"""Answers that a link gives in a leader's place, as acts; `checkers.acts` lists them."""

from collections.abc import Mapping
from dataclasses import dataclass

FORGED_ERRORS: Mapping[str, int] = {
    "UNKNOWN_SERVER_ERROR": -1,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "NOT_LEADER_FOR_PARTITION": 6,
    "REQUEST_TIMED_OUT": 7,
}
"""The errors that a `ForgeAnswers` may put in an answer, and their codes; every release has them.

FENCED_LEADER_EPOCH is none of them: it does not say that the question failed, and is obeyed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeAnswers:
    """A leader's answers to OffsetForLeaderEpoch do not arrive; an error does, in their place.

    The leader has handled the request. Every partition of the answer gets the error, with epoch
    and end offset -1, as a leader writes it that cannot answer. Cuts and holds come before it.

    Attributes:
        name: Names it for `EndForgery`.
        source: The broker that asks.
        target: The broker whose answers are replaced.
        error: Kafka's name, one of `FORGED_ERRORS`.
    """

    name: str
    source: int
    target: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndForgery:
    """The answers that the `ForgeAnswers` of that name replaced pass unchanged again."""

    name: str
