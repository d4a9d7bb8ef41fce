"""Upgrades of a cluster: which pairs Kafka supports, its procedure as a scenario, the sign-off."""
