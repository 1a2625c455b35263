"""Made data/ once: talks with shopkeepers, from templates, with what a good reply holds; `--check` checks it.

No talk is in two splits. Names, towns and prices are made up.
"""

import argparse
import itertools
import json
import random
import sys
from pathlib import Path

SEED = 20260103
SIZES = {"visible": 48, "holdout": 48, "vault": 80}
HERE = Path(__file__).parent
KEEPERS = (
    ("Ada", "gruff tinker", "Upper Wick", "Friday", "Hm. {said} I haggle with no one."),
    ("Bo", "cheerful chandler", "Saltby", "Monday", "With pleasure! {said} I am glad you came by."),
    ("Cleo", "shy saddler", "Marsh End", "Tuesday", "Oh. {said} I hope that suits you."),
    ("Dov", "proud smith", "Ironford", "Saturday", "Listen. {said} You will find no better work than mine."),
)
STOCK = {
    "Ada": {"lantern": 7, "kettle": 12, "whistle": 3},
    "Bo": {"candle": 2, "rope": 9, "barrel": 21},
    "Cleo": {"saddle": 48, "bridle": 17, "strap": 5},
    "Dov": {"hinge": 4, "plough": 66, "knife": 14},
}
OPENINGS = (
    "I was looking at the {item}.",
    "My sister told me of your {item}.",
    "That {item} over there is handsome.",
    "I lost my old {item} on the road.",
)
QUESTIONS = {
    "price": ("What do you ask for it?", "How much would it be?"),
    "day": ("When can I fetch it?", "On which day are you open?"),
    "both": ("What is it, and when may I come for it?",),
    "town": ("Where is your workshop?",),
}
NEVER = ["as an ai", "language model", "assistant", "chatbot"]


def told(question, price, day, town):
    """The facts that a question asks for, and the reference's sentence that holds them."""
    return {
        "price": ([price], f"It is {price}."),
        "day": ([day], f"Come on {day}."),
        "both": ([price, day], f"It is {price}, and you may have it on {day}."),
        "town": ([town], f"The workshop is in {town}."),
    }[question]


def talks():
    """(question, inputs, label) of every talk."""
    for name, trade, town, day, manner in KEEPERS:
        prices = {item: f"{price} coppers" for item, price in STOCK[name].items()}
        sold = ", ".join(f"the {item} for {price}" for item, price in prices.items())
        persona = f"You are {name}, a {trade} of {town}. You sell {sold}. Your shop opens on {day} only."
        every = [*prices.values(), day, town]
        for item, opening in itertools.product(prices, OPENINGS):
            history = f"Customer: {opening.format(item=item)}\n{name}: It is one of my best."
            for question, texts in QUESTIONS.items():
                facts, said = told(question, prices[item], day, town)
                label = {
                    "reply": manner.format(said=said),
                    "facts": facts,
                    "others": [fact for fact in every if fact not in facts],
                    "never": NEVER,
                    "words": [6, 40],
                }
                for text in texts:
                    yield question, {"persona": persona, "history": history, "message": text}, label


def files():
    rng, by_question = random.Random(SEED), {}
    for question, inputs, label in talks():
        by_question.setdefault(question, []).append((inputs, label))
    for found in by_question.values():
        rng.shuffle(found)
    total = sum(SIZES.values())
    pairs, turn = [], itertools.cycle(sorted(by_question))
    while len(pairs) < total:
        found = by_question[next(turn)]
        if found:
            pairs.append(found.pop())
    made, taken = {}, 0
    for split, size in SIZES.items():
        mine = pairs[taken : taken + size]
        rng.shuffle(mine)
        taken += size
        ids = [f"d{number:03}" for number in range(1, size + 1)]
        made[f"{split}/inputs/examples.jsonl"] = [
            {"id": key, **inputs} for key, (inputs, _) in zip(ids, mine, strict=True)
        ]
        made[f"{split}/labels/labels.jsonl"] = [
            {"id": key, "answer": label} for key, (_, label) in zip(ids, mine, strict=True)
        ]
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
