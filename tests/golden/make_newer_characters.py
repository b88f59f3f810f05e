#!/usr/bin/env python3
"""Prints the table of coordinator/text/newer_characters.cc: ranges that hold every character newer than Unicode 9.0 that is a mark, or that
a normal form changes or moves. To keep the ranges few, they also hold other characters, for which the table makes no difference. Needs: pip
install unicodedata2; perl, whose tables give the Unicode version of each character."""
import subprocess
import unicodedata2 as unicodedata

AGES = r'for my $c (0..0x10ffff) { print "$c\n" if ($c < 0xd800 || $c > 0xdfff) && chr($c) =~ /\p{Present_In: 9.0}/ }'


def matters(character):
    return unicodedata.category(character)[0] == "M" or unicodedata.decomposition(character) or unicodedata.combining(character)


def main():
    had = set(map(int, subprocess.run(["perl", "-e", AGES], capture_output=True, text=True, check=True).stdout.split()))
    ranges, current = [], None
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000 or not matters(chr(code)):
            continue
        if code in had:
            ranges, current = ranges + [current] * (current is not None), None
        else:
            current = (current[0] if current else code, code)
    ranges += [current] * (current is not None)
    # The ranges must not hold a letter or mark that a composed character of Unicode 9.0 consists of.
    parts = {int(part, 16) for code in had for text in [unicodedata.decomposition(chr(code))] if text and text[0] != "<" for part in text.split()}
    assert not any(first <= part <= last for part in parts for first, last in ranges)
    print(f"// Unicode {unicodedata.unidata_version}")
    print("\n".join(f"    {{0x{first:04x}, 0x{last:04x}}}," for first, last in ranges))


if __name__ == "__main__":
    main()
