#!/bin/sh
# the reward is what the outputs are worth, whatever the exit code of the program
cd /app || exit 1
if python3 /tests/check.py; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
