"""Trees on disk: the one door they come in through, the bare repository that keeps them, and their diffs."""
