"""Reads handwritten digits with a small trained convolution net: IR and weights in, labels out, no PyTorch.

    python examples/python/classify_digits.py
"""
from pathlib import Path

import numpy as np

import npusim

MODEL = Path(__file__).parents[1] / "models" / "digits"


def main():
    test = np.load(MODEL / "test.npz")
    session = npusim.Session(npusim.compile(MODEL))
    read = np.array([session.run(image[None])["linear"][0].argmax() for image in test["images"]])
    wrong = np.flatnonzero(read != test["labels"])
    print(f"{len(read) - len(wrong)} of {len(read)} digits read as they are labelled")
    shades = " .:-=+*#%@"
    for at in [0, *wrong[:1]]:
        image = test["images"][at, 0, ::4, ::4]  # every pixel is there 16 times
        levels = ((image - image.min()) / np.ptp(image) * (len(shades) - 1)).round().astype(int)
        print(f"\nread as {read[at]}, labelled {test['labels'][at]}")
        print("\n".join("".join(shades[level] * 2 for level in row) for row in levels))


if __name__ == "__main__":
    main()
