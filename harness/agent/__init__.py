"""Agents: whatever proposes a child from a parent."""
