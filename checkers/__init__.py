"""Judgement of a run: its evidence, the reference model, the rules and the verdict."""
