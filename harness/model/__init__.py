"""Models: one gateway for every call, with keys, budgets, a journal, and patience for upstreams that fail."""
