"""What decides about a run: its evidence, the reference model, the rules and the verdict."""
