"""Records what OpenCV makes of pictures: grey ones of coloured ones, and smaller ones by area.

    python3 record_pictures.py OUTPUT_FOLDER

Needs opencv-python-headless and numpy. README.md, section 13, says what the file contains.
"""
import json
import os
import sys

import cv2
import numpy


def numbers(seed, count):
    """The pictures' numbers: a congruential generator that is quickly written in any language."""
    state, out = seed, numpy.empty(count, dtype=numpy.uint8)
    for i in range(count):
        state = (1103515245 * state + 12345) & 0x7FFFFFFF
        out[i] = (state >> 16) & 255
    return out


def picture(case):
    """[H, W, 3]; `block`: so many pixels each way have one colour."""
    height, width, block = case["height"], case["width"], case["block"]
    rows, columns = -(-height // block), -(-width // block)
    small = numbers(case["seed"], rows * columns * 3).reshape(rows, columns, 3)
    return small.repeat(block, axis=0).repeat(block, axis=1)[:height, :width]


def main():
    cases = []
    for seed, (height, width, block, to_height, to_width) in enumerate(
            [(210, 160, 1, 84, 84), (210, 160, 7, 84, 84), (210, 160, 23, 84, 84), (250, 160, 1, 84, 84),
             (84, 84, 1, 84, 84), (168, 84, 1, 84, 42), (50, 61, 1, 7, 60), (10, 9, 1, 1, 1)], start=1):
        case = {"seed": seed, "height": height, "width": width, "block": block}
        grey = cv2.cvtColor(picture(case), cv2.COLOR_RGB2GRAY)
        small = cv2.resize(grey, (to_width, to_height), interpolation=cv2.INTER_AREA)
        cases.append({**case, "to_height": to_height, "to_width": to_width,
                      "grey_sum": int(grey.astype(numpy.int64).sum()), "grey_start": grey.tobytes()[:500].hex(),
                      "small": small.tobytes().hex()})
    content = {"format": "rl-golden-1", "versions": {"opencv": cv2.__version__, "numpy": numpy.__version__},
               "pictures": cases}
    with open(os.path.join(sys.argv[1], "pictures.json"), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
