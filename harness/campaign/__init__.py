"""Campaigns: what plays many runs, and what each command of them has due."""
