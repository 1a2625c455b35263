"""The `strop` command. Imports stay inside the commands, so that `--help` is quick."""
