"""Plants bugs in kernels, each behind a switch, for a test that must find every one.

A list of bugs is a program that calls plant(BUGS) with tuples (description of the bug, file, present text, text with the bug). @
means "the bug is switched on". Every text occurs once in its file of kernels/cuda. LIST.py SOURCE_ROOT OUTPUT_ROOT writes the
files to OUTPUT_ROOT/kernels/cuda, and the descriptions, in the order of the list, to OUTPUT_ROOT/planted_bugs.h."""
import os
import sys

BARRIER, NO_BARRIER = "simt::SyncThreads();", "if (!@) simt::SyncThreads();"


def plant(bugs):
    source_root, output_root = sys.argv[1:]
    for name in sorted({file for _, file, *_ in bugs}):
        with open(os.path.join(source_root, "kernels", "cuda", name), encoding="utf-8") as f:
            text = f.read()
        for number, (what, file, original, planted) in enumerate(bugs, 1):
            if file != name:
                continue
            if text.count(original) != 1:
                sys.exit(f"{sys.argv[0]}: '{what}': its text is in {name} {text.count(original)} times; move it along")
            text = text.replace(original, planted.replace("@", f"(simt::ActiveBug() == {number})"))
        copy = os.path.join(output_root, "kernels", "cuda", name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(copy, "w", encoding="utf-8") as f:
            switches = '#include "simt/active_bug.h"\n'
            f.write(text.replace("#pragma once\n", f"#pragma once\n\n{switches}", 1) if "#pragma once" in text else switches + text)
    with open(os.path.join(output_root, "planted_bugs.h"), "w", encoding="utf-8") as f:
        f.write("#pragma once\n\ninline constexpr const char* kPlantedBugs[] = {\n")
        f.write("".join(f'    "{what}",\n' for what, *_ in bugs) + "};\n")
