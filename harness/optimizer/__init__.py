"""Prompt optimizers: methods that rewrite declared slots of text, hosted under one budget."""
