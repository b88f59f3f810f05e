// Formulas in answers: \( \) and $ $ in a line, \[ \] and $$ $$ on lines of their own. KaTeX draws formulas as MathML,
// which browsers show without KaTeX's fonts and styles. A formula that KaTeX cannot read stays as text.
import {el} from "../shared/dom.js";

export const LONGEST = 4000;  // characters; the bound keeps answers with thousands of unclosed formulas quick to read
// A formula that defines its own commands could grow with each use of them.
const DEFINES = /\\(?:[gex]?def|(?:re)?newcommand|providecommand|let|futurelet)(?![a-zA-Z])/, LONGEST_DEFINING = 1000, USES = 50;
// Dollar signs also mean prices. A formula has no blank inside either sign, no digit after the second sign, and no code
// between the signs.
const DOLLARS = /^\$(?![\s$])((?:\\[^\n]|[^\\$\n`])+?)(?<!\s)\$(?!\d)/;
const PAIRS = [["$$", "$$"], ["\\[", "\\]"]];

/** Returns the formula between two signs at the beginning of a text; undefined when the text begins with no formula. */
function between(text, [begin, end]) {
  if (!text.startsWith(begin)) return undefined;
  const head = text.slice(0, LONGEST), place = head.indexOf(end, begin.length);
  if (place < 0 || head.slice(begin.length, place).trim() === "") return undefined;
  return {raw: head.slice(0, place + end.length), tex: head.slice(begin.length, place)};
}

/** Returns the index of the first of the signs; undefined when the text has none of them. */
function place(text, signs) {
  const places = signs.map((sign) => text.indexOf(sign)).filter((found) => found >= 0);
  return places.length > 0 ? Math.min(...places) : undefined;
}

const displayed = (text) => PAIRS.map((pair) => between(text, pair)).find(Boolean);

/** Extension for formulas between $$ or \\[ \\] that begin a line and have one or many lines. */
const block = {
  name: "formulaBlock",
  level: "block",
  start: (text) => place(text, ["\n$$", "\n\\["]),
  tokenizer(text) {
    const found = displayed(text);
    if (!found || !/^[ \t]*(?:\n|$)/.test(text.slice(found.raw.length))) return undefined;
    return {type: "formula", display: true, ...found};
  },
};

const inline = {
  name: "formulaInLine",
  level: "inline",
  start: (text) => place(text, ["$", "\\(", "\\["]),
  tokenizer(text) {
    const shown = displayed(text);
    if (shown) return {type: "formula", display: true, ...shown};
    const dollars = text.startsWith("$") && text.slice(0, LONGEST).match(DOLLARS);
    const found = dollars ? {raw: dollars[0], tex: dollars[1]} : between(text, ["\\(", "\\)"]);
    return found && {type: "formula", display: false, ...found};
  },
};

/** The extensions for marked. They make tokens {type: "formula", display, tex, raw}. */
export const FORMULAS = [block, inline];

const sources = new WeakMap();  // place of a formula: its token

/** Returns a placeholder element for a formula. It shows the source text until drawFormula() draws the formula. */
export function formulaPlace(token) {
  const place = el("span", {className: token.display ? "formula display" : "formula"}, token.raw);
  sources.set(place, token);
  return place;
}

/** Returns the placeholder elements of formulas in an element. */
export const formulasIn = (element) => element.querySelectorAll(".formula");

/** Returns the element of a formula in place of formulaPlace(); its source text when KaTeX cannot read the formula. */
export function drawFormula(place) {
  const {display, tex, raw} = sources.get(place), defines = DEFINES.test(tex);
  if (defines && tex.length > LONGEST_DEFINING) return el("code", {}, raw);
  const drawn = el("span", {className: display ? "formula display scroll" : "formula"});
  if (display) Object.assign(drawn, {tabIndex: 0, role: "group", ariaLabel: "Formula"});
  try {
    globalThis.katex.render(tex, drawn, {displayMode: display, output: "mathml", throwOnError: true, trust: false, strict: "ignore", maxSize: 20, maxExpand: defines ? USES : 500});
    return drawn;
  } catch {
    return el("code", {}, raw);
  }
}
