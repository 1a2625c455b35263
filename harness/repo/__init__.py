"""Trees on disk: the one door they come in through, the bare repository that keeps them, and their diffs."""

import os

# without git, importing GitPython is an error of its own kind: `run_git` says it better
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
