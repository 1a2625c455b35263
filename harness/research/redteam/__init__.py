"""The red team: cheating candidates, run against a user's own subject through the real door, boxes, gate and holdout.

`base` says what an attack is; one module per kind of cheating holds the built-in ones; `catalogue` collects them with
those of the entry-point group `harness.attacks`; `trial` runs one and says what stopped it; `unguarded` shows what the
same cheat gains where nothing does.
"""
