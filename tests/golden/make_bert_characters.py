#!/usr/bin/env python3
"""Prints the tables of coordinator/text/tokenizer/bert_characters.cc: the characters that BertNormalizer of Hugging Face's
tokenizers removes from texts, and those that it strips as accents. Its classes of characters are those of Unicode 8.0.
Needs: pip install tokenizers"""
import unicodedata

from tokenizers import normalizers

OFF = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)


def ranges(characters):
    found = []
    for c in characters:
        if found and c == found[-1][1] + 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def show(name, characters):
    print(f"constexpr BertCharacters {name}[] = {{")
    entries = [f"{{0x{first:04x}, 0x{last:04x}}}," for first, last in ranges(characters)]
    for i in range(0, len(entries), 5):
        print("    " + " ".join(entries[i:i + 5]))
    print("};")


def main():
    clean, strip = normalizers.BertNormalizer(**{**OFF, "clean_text": True}), normalizers.BertNormalizer(**{**OFF, "strip_accents": True})
    every = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    show("kRemoved", [c for c in every if clean.normalize_str(chr(c)) == ""])
    # A character that decomposes is stripped part by part.
    show("kAccents", [c for c in every if strip.normalize_str(chr(c)) == "" and len(unicodedata.normalize("NFD", chr(c))) == 1])


if __name__ == "__main__":
    main()
