#!/usr/bin/env python3
"""Makes kernels/cpu/quant_grids.cc: the tables of numbers that codes of GGUF's IQ1, IQ2 and IQ3 formats encode, as llama.cpp's
Python package has them. Needs: pip install gguf"""
import os

from gguf import quants

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kernels", "cpu", "quant_grids.cc")
# name: class of the package, bits of a number's index into the values of the format
GRIDS = {"kGridOfIQ1": (quants.IQ1_S, 2), "kGridOfIQ2XXS": (quants.IQ2_XXS, 2), "kGridOfIQ2XS": (quants.IQ2_XS, 2),
         "kGridOfIQ2S": (quants.IQ2_S, 2), "kGridOfIQ3XXS": (quants.IQ3_XXS, 3), "kGridOfIQ3S": (quants.IQ3_S, 3)}


def words(of, bits):
    of.init_grid()
    places = {value: index for index, value in enumerate(of.grid_map)}
    for row in of.grid.reshape(of.grid_shape):
        yield sum(places[int(value)] << (bits * i) for i, value in enumerate(row))


def lines(numbers):
    line = " "
    for number in numbers:
        if len(line) + len(f"{number},") > 119:
            yield line
            line = " "
        line += f"{number},"
    yield line


def main():
    with open(OUT, "w", encoding="utf-8") as out:
        out.write('// Made by tests/golden/make_quant_grids.py.\n#include "kernels/cpu/quant_grids.h"\n\nnamespace quire::kernels {\n\n// clang-format off\n')
        for name, (of, bits) in GRIDS.items():
            numbers = list(words(of, bits))
            out.write(f"const uint16_t {name}[{len(numbers)}] = {{\n" + "\n".join(lines(numbers)) + "\n};\n")
        out.write("// clang-format on\n\n}  // namespace quire::kernels\n")


main()
