// Shows a model's Markdown as elements of the page while the text grows. The time for each piece of text is bounded:
// marked reads one window of the text at a time, and blocks that later text cannot change are not read again.
import {el} from "../shared/dom.js";
import {codeBlock, elementsOf} from "./elements.js";
import {LONGEST, drawFormula, formulasIn} from "./formulas.js";
import {draw} from "./pace.js";
import {PlainText} from "./plain_text.js";
import {openFence, ReadableText, withTabs} from "./readable_text.js";
import {blocksOf, noNames} from "./reader.js";

const WINDOW = 8000;  // characters: a longer block is read in pieces
const MOST_CHARACTERS = 200000, MOST_ELEMENTS = 30000;  // beyond either limit, the rest is shown as plain text
const LONGEST_FENCE = 1000;  // characters: a longer line does not end code
const UNINDENTED = " {0,3}";
const OPENS = /^ {0,3}(`{3,}(?=[^`\n]*\n)|~{3,})([^\n]*)\n/;
const NAME_AT_END = /(?<![^\n]) {0,3}\[[^\]\n]*\]:[ \t]*(?:\n[ \t]*)?[^\s]*$/, LONGEST_NAME = 3000;  // characters
const SPENT = "The rest is shown as it was written: this answer is too long for the page to format all of it.";

/** Returns the number of tokens that end before the last `blocks` blocks and the last `characters`. */
function before({tokens, begins}, blocks, characters) {
  const end = begins[tokens.length] - characters;
  let count = tokens.length;
  while (count > 0 && (blocks > 0 || begins[count] > end)) if (tokens[--count].type !== "space") --blocks;
  return count;
}

/** Returns the number of tokens that further text cannot change: it may change the last two blocks, and make a formula of text that is near the end. */
const settled = (read) => before(read, 2, LONGEST);

/** Returns a text without a definition of a link's name at its end, because the definition's address may go on. */
function withoutName(text) {
  const place = text.slice(-LONGEST_NAME).search(NAME_AT_END);
  return place < 0 ? text : text.slice(0, Math.max(0, text.length - LONGEST_NAME) + place);
}

/** Returns where to cut a block that is longer than a window: before a line without indentation, else at a line's or a word's end. */
function cutOf(window) {
  const half = window.length / 2;
  for (const ends of [/\n(?=\S)/g, /\n/g, / /g]) {
    const place = [...window.matchAll(ends)].at(-1)?.index ?? 0;
    if (place > half) return place + 1;
  }
  return /[\ud800-\udbff]$/.test(window) ? window.length - 1 : window.length;
}

/** Returns the pattern of the line that ends code. */
const endOf = (fence, indent) => new RegExp(`^${indent}${fence}${fence[0]}*[ \\t]*(?:\\n|$)`, "m");

/** Returns the head of a cut table, which makes the rest of the table a table, too. */
const headOf = (token) => (token?.type === "table" ? token.raw.split("\n", 2).map((line) => `${line}\n`).join("") : "");

export class Markdown {
  /** drawn() is called after each turn of drawing. */
  constructor(body, drawn) {
    this.body = body;
    this.drawn = drawn;
    this.readable = new ReadableText();
    this.text = "";
    this.whole = false;    // true: no more text follows
    this.stale = false;    // true: text has arrived that is not being drawn
    this.running = null;   // the running drawing, a generator
    this.closed = 0;       // characters in blocks that are not read again
    this.blocks = [];      // all blocks: {raw, element, names}; names: how many names of links were known
    this.open = 0;         // index of the first block that is read again
    this.lead = "";        // text put before the next window: the head of a cut table
    this.names = noNames();
    this.elements = 0;     // number of elements in closed blocks
    this.formulas = new Map();  // source: the drawn element
    this.code = null;      // {end, text, copied} while a block of code is longer than a window
    this.rest = null;      // shows the rest as plain text once a MOST_ limit is reached
  }

  /** Shows a text that begins with the text of the call before. Unchanged blocks are kept, so a selection in them stays. */
  show(text, whole = false) {
    this.text = this.readable.of(text);
    this.whole = whole;
    this.stale = true;
    this.body.ariaBusy = "true";
    draw(this);
  }

  /** Does a small part of the work. Returns false when no work is left. */
  step() {
    if (this.running === null) {
      if (!this.stale) return false;
      this.stale = false;
      this.running = this.#drawing(this.text, this.whole);
    }
    try {
      if (this.running.next().done) this.running = null;
    } catch (error) {
      this.running = null;
      throw error;
    }
    return true;
  }

  onDrawn() {
    this.body.ariaBusy = String(this.stale || this.running !== null);
    this.drawn();
  }

  *#drawing(text, whole) {
    for (let more = true; more;) {
      if (this.rest === null && (this.closed >= MOST_CHARACTERS || this.elements > MOST_ELEMENTS) && this.closed < text.length) this.#spend();
      if (this.rest !== null) {
        more = this.#addRest(text);
      } else if (this.code !== null) {
        more = this.#addCode(text, whole);
      } else if (this.#beginCode(text)) {
        more = true;
      } else {
        more = yield* this.#window(text, whole);
      }
      yield;
    }
    if (whole) yield* this.#explainNames();
  }

  /** Reads a window and shows its blocks. Returns true when text is left after the window. */
  *#window(text, whole) {
    const more = this.closed + WINDOW < text.length, last = whole && !more, all = text.slice(this.closed, this.closed + WINDOW);
    const window = last ? all : withoutName(all);
    let read = this.#read(window), count = settled(read), then = "", fence = "";
    if (last) count = read.tokens.length;
    if (more && count === 0) count = before(read, 1, 0);
    const cut = more && count === 0;
    if (cut) {
      const piece = window.slice(0, cutOf(window));
      read = this.#read(piece);
      count = read.tokens.length;
      then = /^[^\S\n]*\n/.test(text.slice(this.closed + piece.length, this.closed + WINDOW)) ? "" : headOf(read.tokens.at(-1));
      ({fence} = openFence(piece));
    }
    const shown = more ? count : read.tokens.length;
    let same = 0;
    while (same < Math.min(this.blocks.length - this.open, shown) && this.blocks[this.open + same].raw === read.tokens[same].raw) ++same;
    const made = [];
    for (const token of read.tokens.slice(same, shown)) {
      made.push(yield* this.#made(token));
    }
    this.#drop(this.open + same);
    this.blocks.push(...made);
    this.body.append(...made.map(({element}) => element));
    if (count > 0 || cut) this.#close(count, read.begins[count] - this.lead.length, then);
    if (fence !== "") this.#openCode(fence, "[ \\t>]*", "");
    return more;
  }

  #close(count, characters, lead) {
    for (const {element} of this.blocks.slice(this.open, this.open + count)) this.elements += 1 + element.getElementsByTagName("*").length;
    this.open += count;
    this.closed += characters;
    this.lead = lead;
  }

  #read(window) {
    try {
      const read = blocksOf(this.lead + window, this.names);
      if (this.lead === "" || read.tokens[0]?.rows?.length > 0) return read;
      this.lead = "";  // the table ended where the window ended
      return blocksOf(window, this.names);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.lead = "";
      return {tokens: [{type: "raw", raw: window}], begins: [0, window.length]};  // nested deeper than the call stack
    }
  }

  *#made(token) {
    const block = {raw: token.raw, element: this.#elementOf([token]), names: Object.keys(this.names).length};
    yield* this.#drawFormulas(block.element);
    return block;
  }

  #elementOf(tokens) {
    try {
      return el("div", {className: "block"}, ...elementsOf(tokens));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return el("div", {className: "block"}, ...elementsOf(tokens.map(({raw}) => ({type: "raw", raw}))));
    }
  }

  *#drawFormulas(element) {
    for (const place of formulasIn(element)) {
      const source = place.className + place.textContent, known = this.formulas.get(source);
      if (known) {
        place.replaceWith(known.cloneNode(true));
        continue;
      }
      if (this.formulas.size > 1000) this.formulas.clear();
      const drawn = drawFormula(place);
      place.replaceWith(drawn);
      this.formulas.set(source, drawn.cloneNode(true));
      yield;
    }
  }

  #drop(from) {
    for (const {element} of this.blocks.splice(from)) element.remove();
  }

  /** Begins a block of code that is longer than a window; marked does not read it. */
  #beginCode(text) {
    const window = text.slice(this.closed, this.closed + WINDOW), [opening, fence, language] = this.closed + WINDOW < text.length ? window.match(OPENS) ?? [] : [];
    if (!opening || this.lead !== "" || endOf(fence, UNINDENTED).test(window.slice(opening.length))) return false;
    this.#drop(this.open);
    this.closed += opening.length;
    this.#openCode(fence, UNINDENTED, language);
    return true;
  }

  #openCode(fence, indent, language) {
    const {element, inside, copied} = codeBlock(language);
    this.code = {end: endOf(fence, indent), text: new PlainText(inside), copied};
    const block = el("div", {className: "block"}, element);
    this.body.append(block);
    this.blocks.push({raw: "", element: block, names: Infinity});
    this.open = this.blocks.length;
  }

  /** Shows more of the code. Returns true when there is more to do. */
  #addCode(text, whole) {
    const window = text.slice(this.closed, this.closed + WINDOW), more = this.closed + WINDOW < text.length, end = window.match(this.code.end);
    // While text grows, its last line is no sure end of code, because the line may go on.
    const known = end && (end[0].endsWith("\n") || (whole && !more)) ? end.index : null;
    let length = known ?? window.length;
    if (known === null && !(whole && !more)) {
      const line = window.lastIndexOf("\n") + 1;
      if (window.length - line <= LONGEST_FENCE) length = line;
    }
    const shown = withTabs(window.slice(0, length));
    this.code.text.append(shown);
    this.code.copied(shown);
    this.closed += length;
    if (known === null) return more;
    this.closed += end[0].length;
    this.code = null;
    return this.closed < text.length;
  }

  /** Shows the rest of the text as plain text. */
  #spend() {
    this.#drop(this.open);
    const rest = el("div", {className: "raw"});
    this.body.append(el("p", {className: "muted small"}, SPENT), rest);
    this.rest = new PlainText(rest);
  }

  #addRest(text) {
    const end = Math.min(this.closed + 4 * WINDOW, text.length);
    this.rest.append(withTabs(text.slice(this.closed, end)));
    this.closed = end;
    return end < text.length;
  }

  /** Draws blocks again that were read before a later block defined the name of a link. */
  *#explainNames() {
    const known = Object.keys(this.names).length;
    for (const block of this.blocks) {
      if (block.names >= known || !block.raw.includes("[")) continue;
      const {tokens} = blocksOf(block.raw, this.names), element = this.#elementOf(tokens);
      yield* this.#drawFormulas(element);
      block.element.replaceWith(element);
      Object.assign(block, {element, names: known});
      yield;
    }
  }
}
