"""Reports: what a run found, for a person in the morning."""
