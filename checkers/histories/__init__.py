"""Histories: what clients did and were told, judged for the anomalies that Jepsen names."""
