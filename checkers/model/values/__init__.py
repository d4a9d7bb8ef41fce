"""Values of the model: replicas, their logs and epoch caches, requests, events, predictions."""
