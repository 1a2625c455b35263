"""Evaluation: how a variant is run, and how what it wrote becomes a score."""
