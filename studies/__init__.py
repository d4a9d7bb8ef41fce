"""Studies: what the model says of small clusters, and what documents weigh, beside the product.

Nothing of the product imports this package. It brings the commands `explore` and `compare`, the
mixes of walks and a section of reports, each by an entry point (pyproject.toml).

- `explorer`: breadth-first search, which knows no Kafka
- `explore`: the machine of the model, every interleaving of it, and schedules that are searched
- `documents`: alternatives of a KIP or Jira, side by side
- `schedule_scenarios`, `walks`: schedules of the model on real brokers
- `shadow`: what KIP-501's solutions would have done in a run
- `commands`: options and words
"""
