"""Strop: agents improve themselves overnight; only what is really sharper is kept.

Layers, from the bottom; each imports only what stands above it in this list, siblings never each other:

    0  errors records tree streams clock failpoint events resources untrusted
    1  policy
    2  box repo archive
    3  agent
    4  evaluation
    5  research
    6  report
    7  cli

One step: research/engine selects a parent, an agent proposes, repo/door judges the tree, evaluation runs it in
boxes, research/gate and research/guard decide, archive makes it durable, events tell.
"""
