"""Faults inside a broker's JVM: threads that an agent keeps at named points of Kafka's code."""
