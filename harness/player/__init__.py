"""The random player: schedules drawn from a seed, played many times, and shrunk."""
