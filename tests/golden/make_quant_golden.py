#!/usr/bin/env python3
"""Makes file_quants.json: random blocks in the quantisation formats of GGUF files, and the numbers that llama.cpp's
Python package reads from the blocks. Needs: pip install gguf"""
import json
import os
import random
import struct

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants

HERE = os.path.dirname(os.path.abspath(__file__))
# format: (offsets of the float16 numbers in a block, bytes of a block, blocks that hold 256 numbers)
FORMATS = {"Q5_0": ((0,), 22, 8), "Q5_1": ((0, 2), 24, 8), "Q4_K": ((0, 2), 144, 1), "Q5_K": ((0, 2), 176, 1), "Q6_K": ((208,), 210, 1),
           "Q2_K": ((80, 82), 84, 1), "Q3_K": ((108,), 110, 1), "IQ4_NL": ((0,), 18, 8), "IQ4_XS": ((0,), 136, 1),
           "IQ1_S": ((0,), 50, 1), "IQ1_M": ((), 56, 1), "IQ2_XXS": ((0,), 66, 1), "IQ2_XS": ((0,), 74, 1), "IQ2_S": ((0,), 82, 1), "IQ3_XXS": ((0,), 98, 1),
           "IQ3_S": ((0,), 110, 1), "TQ1_0": ((52,), 54, 1), "TQ2_0": ((64,), 66, 1)}


def main():
    rng = random.Random(5)
    out = {}
    for name, (halves, size, count) in FORMATS.items():
        data = bytearray()
        for _ in range(2 * count):
            block = bytearray(rng.randbytes(size))
            for at in halves:
                block[at : at + 2] = struct.pack("<e", rng.uniform(-0.1, 0.1))
            if name == "IQ1_M":  # IQ1_M's float16 scale is in the high four bits of four words
                bits, = struct.unpack("<H", struct.pack("<e", rng.uniform(-0.1, 0.1)))
                for i in range(4):
                    block[49 + 2 * i] = block[49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
            data += block
        numbers = quants.dequantize(np.frombuffer(bytes(data), np.uint8).reshape(2, -1), Type[name])
        out[name] = {"blocks": bytes(data).hex(), "numbers": [float(x) for x in numbers.reshape(-1)]}
    with open(os.path.join(HERE, "file_quants.json"), "w") as f:
        json.dump(out, f)


main()
