"""The controller: what it decides, and what it sends to brokers."""
