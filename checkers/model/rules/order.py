"""Every rule, in the order in which a generation is composed of them."""

from checkers.model.generations import Rule
from checkers.model.rules import kafka_7415, kip_101, kip_279

RULES: tuple[Rule, ...] = (
    kip_101.KIP_101,
    kip_101.EPOCH_REQUEST_0,
    kip_101.INITIAL_FETCH_OFFSET,
    kip_279.KIP_279,
    kip_279.EPOCH_REQUEST_1,
    kafka_7415.KAFKA_7415,
)
