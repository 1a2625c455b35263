"""Teach a small network to read handwritten digits. Plain numpy.

Trains on data/train, then answers every image in /data and writes /out/predictions.csv.
By hand:  python train.py --data data/visible/inputs --out out
"""

import argparse
from pathlib import Path

import numpy as np

# ---- what to tune ----------------------------------------------------------------------------------------------
HIDDEN = 16  # units of the hidden layer
ACTIVATION = "sigmoid"  # sigmoid, tanh or relu
INIT_SCALE = 0.5  # spread of the first weights, over the root of the fan-in

OPTIMIZER = "sgd"  # sgd or momentum
LEARNING_RATE = 0.05
DECAY = 0.1  # the rate is divided by 1 + DECAY * epoch
MOMENTUM = 0.5
EPOCHS = 500
BATCH_SIZE = 8
PATIENCE = 25  # epochs without a better check before training stops

WEIGHT_DECAY = 0.003
DROPOUT = 0.3  # share of hidden units left out in training
LABEL_SMOOTHING = 0.1

PIXEL_SCALE = 16.0  # pixels are divided by this
CENTER = False  # take the mean image off
AUGMENT = False  # also train on shifted copies
SHIFT = 2  # how far the copies are shifted, in pixels
CHECK_SHARE = 0.25  # share of the training images kept back for the checks
# ----------------------------------------------------------------------------------------------------------------

WORK_LIMIT = 1.5e10  # multiplications a run may spend: more epochs or units must fit in here
STEP_COST = 4.0e5  # what numpy spends on a step, however small
SEED = 7


def generator():
    """The one source of randomness. The seed is fixed: luck is not a setting."""
    return np.random.default_rng(SEED)


def load_training(folder):
    """Images as (n, 8, 8) floats, labels as (n,) integers."""
    images = np.load(folder / "images.npy", allow_pickle=False).astype(float)
    labels = np.loadtxt(folder / "labels.csv", delimiter=",", skiprows=1, usecols=1, dtype=int)
    return images, labels


def shifted(images, down, right):
    """The images moved by whole pixels; what leaves is lost, what enters is white."""
    moved = np.zeros_like(images)
    height, width = images.shape[1:]
    rows_to, rows_from = slice(max(down, 0), height + min(down, 0)), slice(max(-down, 0), height + min(-down, 0))
    cols_to, cols_from = slice(max(right, 0), width + min(right, 0)), slice(max(-right, 0), width + min(-right, 0))
    moved[:, rows_to, cols_to] = images[:, rows_from, cols_from]
    return moved


def augment(images, labels):
    """The images, and four copies shifted up, down, left and right."""
    ways = [(0, 0), (SHIFT, 0), (-SHIFT, 0), (0, SHIFT), (0, -SHIFT)]
    return np.concatenate([shifted(images, *way) for way in ways]), np.tile(labels, len(ways))


def activate(x):
    if ACTIVATION == "relu":
        return np.maximum(x, 0.0)
    if ACTIVATION == "tanh":
        return np.tanh(x)
    if ACTIVATION == "sigmoid":
        return 1.0 / (1.0 + np.exp(-np.clip(x, -50.0, 50.0)))
    raise ValueError(f"unknown activation {ACTIVATION}")


def slope(y):
    """The derivative of the activation, from its own output."""
    if ACTIVATION == "relu":
        return (y > 0).astype(float)
    if ACTIVATION == "tanh":
        return 1.0 - y * y
    return y * (1.0 - y)


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class Network:
    """One hidden layer, softmax on top."""

    def __init__(self, inputs, classes, rng):
        self.weights = [
            rng.normal(size=(inputs, HIDDEN)) * INIT_SCALE / np.sqrt(inputs),
            np.zeros(HIDDEN),
            rng.normal(size=(HIDDEN, classes)) * INIT_SCALE / np.sqrt(HIDDEN),
            np.zeros(classes),
        ]
        self.speed = [np.zeros_like(w) for w in self.weights]

    def predict(self, x):
        w1, b1, w2, b2 = self.weights
        return softmax(activate(x @ w1 + b1) @ w2 + b2)

    def gradients(self, x, targets, rng):
        w1, b1, w2, b2 = self.weights
        hidden = activate(x @ w1 + b1)
        kept = (rng.random(hidden.shape) >= DROPOUT) / (1.0 - DROPOUT)
        answer = softmax((hidden * kept) @ w2 + b2)
        back = (answer - targets) / len(x)
        inner = (back @ w2.T) * kept * slope(hidden)
        return [
            x.T @ inner + WEIGHT_DECAY * w1,
            inner.sum(axis=0),
            (hidden * kept).T @ back + WEIGHT_DECAY * w2,
            back.sum(axis=0),
        ]

    def step(self, x, targets, rate, rng):
        for place, gradient in enumerate(self.gradients(x, targets, rng)):
            if OPTIMIZER == "momentum":
                self.speed[place] = MOMENTUM * self.speed[place] - rate * gradient
                self.weights[place] = self.weights[place] + self.speed[place]
            else:
                self.weights[place] = self.weights[place] - rate * gradient


def prepare(images, mean):
    x = images.reshape(len(images), -1) / PIXEL_SCALE
    return x - mean / PIXEL_SCALE if CENTER else x


def train(images, labels):
    """A trained network, and the mean image its inputs are centred on."""
    rng = generator()
    order = rng.permutation(len(images))
    images, labels = images[order], labels[order]
    checks = int(len(images) * CHECK_SHARE)
    check_images, check_labels = images[:checks], labels[:checks]
    images, labels = images[checks:], labels[checks:]
    mean = images.mean(axis=0).ravel()
    if AUGMENT:
        images, labels = augment(images, labels)

    x, x_check = prepare(images, mean), prepare(check_images, mean)
    classes = labels.max() + 1
    targets = np.eye(classes)[labels] * (1.0 - LABEL_SMOOTHING) + LABEL_SMOOTHING / classes
    network = Network(x.shape[1], classes, rng)
    cost = STEP_COST + 6.0 * min(BATCH_SIZE, len(x)) * HIDDEN * (x.shape[1] + classes)
    best, best_weights, waited, spent = np.inf, network.weights, 0, 0.0
    for epoch in range(EPOCHS):
        rate = LEARNING_RATE / (1.0 + DECAY * epoch)
        order = rng.permutation(len(x))
        for start in range(0, len(x), BATCH_SIZE):
            spent += cost
            if spent > WORK_LIMIT:
                break
            batch = order[start : start + BATCH_SIZE]
            network.step(x[batch], targets[batch], rate, rng)
        if checks:
            sure = network.predict(x_check)[np.arange(checks), check_labels]
            loss = -np.log(np.maximum(sure, 1e-12)).mean()
            waited = 0 if loss < best else waited + 1
            if loss < best:
                best, best_weights = loss, network.weights
            if waited >= PATIENCE:
                break
        else:
            best_weights = network.weights
        if spent > WORK_LIMIT:
            break
    network.weights = list(best_weights)
    return network, mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, default=Path(__file__).resolve().parent / "data" / "train")
    parser.add_argument("--data", type=Path, default=Path("/data"))
    parser.add_argument("--out", type=Path, default=Path("/out"))
    args = parser.parse_args()

    network, mean = train(*load_training(args.train))
    images = np.load(args.data / "images.npy", allow_pickle=False).astype(float)
    ids = (args.data / "ids.txt").read_text().split()
    answers = network.predict(prepare(images, mean)).argmax(axis=1)
    rows = [f"{one},{answer}" for one, answer in zip(ids, answers, strict=True)]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "predictions.csv").write_text("\n".join(["id,label", *rows]) + "\n")


if __name__ == "__main__":
    main()
