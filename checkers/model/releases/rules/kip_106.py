"""KIP-106: the default of unclean.leader.election.enable."""

from kchaos.checkers.model.releases.rule import Rule

KIP_106 = Rule(
    name="KIP-106",
    since=("0.11.0.0",),
    source="kafka.server.KafkaConfig, 0.11.0.0",
    meaning="Unclean elections are off unless they are asked for.",
    followed="elsewhere",
)
