"""Made data/ once: requests to a shopkeeper, from templates, with the call each one means; `--check` checks it.

No request is in two splits. The persona and the functions are made up.
"""

import argparse
import itertools
import json
import random
import sys
from pathlib import Path

SEED = 20260102
SIZES = {"visible": 48, "holdout": 48, "vault": 80}
HERE = Path(__file__).parent
FUNCTIONS = (
    "check_stock(item), quote_price(item, count), place_order(item, count, day), opening_hours(day), "
    "none() when the customer only chats"
)
ITEMS = ("lantern", "rope", "map", "kettle", "whetstone", "blanket", "compass", "flask")
DAYS = ("Monday", "Tuesday", "Friday", "Saturday")
COUNTS = (2, 3, 5, 12)
CHAT = (
    "Lovely weather today.",
    "How long have you kept this shop?",
    "My brother sends his regards.",
    "What a fine sign!",
)
NAMES = ("Ada", "Bo", "Cleo", "Dov", "Esi", "Finn")


def calls():
    for item in ITEMS:
        yield f"Do you have a {item} left?", "check_stock", {"item": item}
        yield f"Is the {item} sold out?", "check_stock", {"item": item}
    for item, count in itertools.product(ITEMS, COUNTS):
        yield f"What would {count} of the {item} come to?", "quote_price", {"item": item, "count": count}
        for day in DAYS:
            text = f"Put {count} of the {item} aside for me, I fetch them on {day}."
            yield text, "place_order", {"item": item, "count": count, "day": day}
    for day, name in itertools.product(DAYS, NAMES):
        yield f"{name} here. When do you open on {day}?", "opening_hours", {"day": day}
    for text, name in itertools.product(CHAT, NAMES):
        yield f"{name} here. {text}", "none", {}


def files():
    rng, by_function = random.Random(SEED), {}
    for text, function, arguments in calls():
        by_function.setdefault(function, []).append((text, {"function": function, "arguments": arguments}))
    for found in by_function.values():
        rng.shuffle(found)
    total = sum(SIZES.values())
    pairs, turn = [], itertools.cycle(sorted(by_function))
    while len(pairs) < total:
        found = by_function[next(turn)]
        if found:
            pairs.append(found.pop())
    made, taken = {}, 0
    for split, size in SIZES.items():
        mine = pairs[taken : taken + size]
        rng.shuffle(mine)
        taken += size
        ids = [f"r{number:03}" for number in range(1, size + 1)]
        inputs = [
            {"id": key, "request": text, "functions": FUNCTIONS} for key, (text, _) in zip(ids, mine, strict=True)
        ]
        labels = [{"id": key, "answer": call} for key, (_, call) in zip(ids, mine, strict=True)]
        made[f"{split}/inputs/examples.jsonl"] = inputs
        made[f"{split}/labels/labels.jsonl"] = labels
    return {name: "".join(json.dumps(row) + "\n" for row in rows) for name, rows in made.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for name, text in files().items():
        path = HERE / "data" / name
        if check and (not path.is_file() or path.read_text("utf-8") != text):
            sys.exit(f"{path} is not what this script makes")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
