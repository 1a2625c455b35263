#!/bin/sh
# says nothing at all unless the work is done: a verifier without a reward is a reward of 0, exit code 0 or not
if [ "$(cat /app/state)" = ready ]; then
    echo 1 > /logs/verifier/reward.txt
fi
exit 0
