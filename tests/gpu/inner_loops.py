#!/usr/bin/env python3
"""Counts the instructions that a kernel executes for one iteration of its main loop, from its machine code, without a GPU.

inner_loops.py SASS FUNCTION PRODUCTS COPIES

SASS is the output of `cuobjdump -sass` for a cubin. FUNCTION is a regular expression for mangled names. The program looks at all paths from the head
of a loop to its end that execute exactly PRODUCTS tensor-core instructions (HMMA, or HGMMA of warpgroups) and COPIES asynchronous copies (LDGSTS),
and prints the length of the shortest path, which is the iteration of an ordinary tile. It does not count instructions outside of loops, iterations
that do more (masks, rescaling, the end of an item), or time. The number serves to compare two versions of a kernel."""
import collections
import re
import sys



def functions(sass):
    """Maps the name of each function to its instructions: [(address, text)]."""
    found, lines = {}, None
    for line in sass:
        if name := re.search(r"Function : (\S+)", line):
            lines = found.setdefault(name.group(1), [])
        elif (code := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?);", line)) and lines is not None:
            lines.append((int(code.group(1), 16), code.group(2)))
    return found


def operation(text):
    bare = re.sub(r"^@!?U?P\w+\s+", "", text)
    name = re.match(r"[A-Z0-9]+", bare)
    return (name.group(0) if name else ""), bare


def successors(index, text, target):
    """Returns the indices of the later instructions that may follow this instruction."""
    name, bare = operation(text)
    if name == "EXIT" and not text.startswith("@"):
        return []
    if name != "BRA":
        return [index + 1]
    conditional = text.startswith("@") or re.search(r"BRA\.\w*DIV|BRA\s+!?U?P\d", bare)
    return ([target] if target is not None and target > index else []) + ([index + 1] if conditional else [])


def shortest_turn(code, products, copies):
    """Returns the indices of the instructions in the shortest iteration of any loop that executes exactly so many products and copies;
    None if there is none."""
    index_of = {address: i for i, (address, _) in enumerate(code)}
    targets = []
    for _, text in code:
        to = re.search(r"BRA.*?0x([0-9a-f]+)", text)
        targets.append(index_of.get(int(to.group(1), 16)) if to else None)
    best = None
    for end, head in enumerate(targets):
        if head is None or head >= end:
            continue
        # For each instruction: (products, copies) before it -> (number of instructions, predecessor). Inner loops run
        # once.
        ways = collections.defaultdict(dict)
        ways[head][(0, 0)] = (0, None)
        for i in range(head, end + 1):
            name, _ = operation(code[i][1])
            for place, (length, _) in ways.get(i, {}).items():
                after = (place[0] + (name in ("HMMA", "HGMMA")), place[1] + (name == "LDGSTS"))
                if after[0] > products or after[1] > copies:
                    continue
                if i == end and after == (products, copies) and (best is None or length + 1 < best[0]):
                    best = (length + 1, (i, place), ways)
                for to in successors(i, code[i][1], targets[i]):
                    if to <= end and ways[to].get(after, (sys.maxsize,))[0] > length + 1:
                        ways[to][after] = (length + 1, (i, place))
    if best is None:
        return None
    _, at, ways = best
    turn = []
    while at is not None:
        turn.append(at[0])
        at = ways[at[0]][at[1]][1]
    return turn[::-1]


def main():
    path, pattern, products, copies = sys.argv[1:]
    with open(path, encoding="utf-8") as f:
        found = {name: code for name, code in functions(f).items() if re.search(pattern, name)}
    for name, code in found.items():
        turn = shortest_turn(code, int(products), int(copies))
        if turn is None:
            print(f"{name}: no loop with {products} products and {copies} copies")
            continue
        kinds = collections.Counter(operation(code[i][1])[0] for i in turn)
        print(f"{name}: {len(turn)} instructions: " + ", ".join(f"{n} {kind}" for kind, n in kinds.most_common(12)))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main()
