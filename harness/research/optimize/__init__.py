"""A prompt optimizer as the agent of a run, in the run's boxes, budget and ledger."""
