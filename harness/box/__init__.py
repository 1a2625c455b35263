"""Boxes: where candidate code runs. One protocol, one back end per file."""
