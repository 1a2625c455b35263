"""Telemetry: what a run does, told to tracing back ends and experiment trackers; off unless asked for."""
