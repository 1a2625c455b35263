"""Other people's optimizers, run unchanged in a worker thread: their engines, our budget, rollouts and models."""
