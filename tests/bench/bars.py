"""Bar charts as SVG: what peers.py draws. Nothing but text is written, so that a report can be read and compared as code."""
from xml.sax.saxutils import escape

COLOURS = ["#1b6ca8", "#7fb2d6", "#b3b3b3", "#dda15e"]
WIDTH, LABELS, BAR, GAP = 860, 270, 13, 12


def text(x, y, words, size=12, anchor="start", weight="normal"):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'


def panel(top, title, groups, names):
    """groups: (label, a length for each of the names). Returns the shapes and where the panel ends."""
    longest = max(max(lengths) for _, lengths in groups)
    unit = (WIDTH - LABELS - 70) / longest
    shapes, y = [text(10, top + 16, title, 14, weight="bold")], top + 30
    for label, lengths in groups:
        shapes.append(text(LABELS - 8, y + BAR * len(names) / 2 + 4, label, anchor="end"))
        for colour, length in zip(COLOURS, lengths):
            shapes.append(f'<rect x="{LABELS}" y="{y:.0f}" width="{unit * length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            shapes.append(text(LABELS + unit * length + 5, y + BAR - 4, f"{length:.2f}", 10))
            y += BAR
        y += GAP
    for i, name in enumerate(names):
        shapes.append(f'<rect x="{LABELS}" y="{y + 16 * i:.0f}" width="10" height="10" fill="{COLOURS[i]}"/>')
        shapes.append(text(LABELS + 16, y + 16 * i + 9, name, 11))
    return shapes, y + 16 * len(names) + 16


def chart(heading, panels):
    """panels: (title, groups, names) one below the other. The whole SVG document."""
    shapes, y = [text(10, 22, heading, 15, weight="bold")], 34
    for title, groups, names in panels:
        more, y = panel(y, title, groups, names)
        shapes += more
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:.0f}" font-family="sans-serif">'
            f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(shapes) + "\n</svg>\n")
