"""Clusters of real brokers: specification, releases as data, what starts when, and the drivers."""
