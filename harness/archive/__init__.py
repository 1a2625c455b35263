"""The archive: what a run knows, durable before the next step begins."""
