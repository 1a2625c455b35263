import subprocess
import sys

CASES = (([3, 1, 2], 2), ([4, 1, 3, 2], 2.5), ([7], 7))
for values, expected in CASES:
    code = f"from stats import median; print(float(median({values})))"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd="/app", capture_output=True, text=True, timeout=20, check=False)
    if done.returncode or done.stdout.strip() != str(float(expected)):
        sys.exit(1)
