"""Policies: strict, frozen types for everything a run obeys."""
