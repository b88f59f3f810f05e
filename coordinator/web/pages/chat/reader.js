// Sets up the Markdown parser marked so that it also reads formulas, and so that texts made to be slow to read take
// little time.
import {FORMULAS} from "./formulas.js";
import {openFence} from "./readable_text.js";

const {marked} = globalThis;

// marked scans the rest of the paragraph at each sign, so the time for thousands of unpaired signs grows with the
// square of their number. After marked has scanned WORK characters, further signs of the text are plain text.
const WORK = 2000000;
const MOST_NAMES = 1000;  // number of a text's link names; marked compares each pair of brackets with all of them
const BEGINS = {emStrong: /^[*_]/, del: /^~/, codespan: /^`/, link: /^!?\[/, reflink: /^!?\[/, tag: /^</};

let left = 0, length = 0, begins = [];
const tokenizer = Object.fromEntries(Object.entries(BEGINS).map(([name, begin]) => [name, (text) => {
  if (begin.test(text)) left -= text.length;
  return left > 0 ? false : undefined;  // false: marked's own rule follows; undefined: no such token here
}]));

/** An extension for marked that reads nothing. It records where each token of the top level begins, because marked does not,
 * and some texts belong to no token. */
const places = {
  name: "places",
  level: "block",
  tokenizer(rest, tokens) {
    if (tokens === this.lexer.tokens) begins[tokens.length] = length - rest.length;
  },
};
marked.use({gfm: true, breaks: true, extensions: [...FORMULAS, places], tokenizer});  // marked asks the last one first

/** Returns an empty set of link names, for a text that has not defined any yet. */
export const noNames = () => Object.create(null);

/** Returns marked's tokens of a prepared text, and the index where each begins; the last index is the end. Code may lack its end. Adds the
 * link names that the text defines to `names`. Throws RangeError for a text that is nested deeper than the browser's call stack allows. */
export function blocksOf(text, names) {
  const lexer = new marked.Lexer();
  lexer.tokens.links = names;
  left = WORK;
  const ended = text + openFence(text).end;
  length = ended.length;
  begins = [];
  const tokens = lexer.lex(ended);
  begins[tokens.length] = text.length;
  for (const name of Object.keys(names).slice(MOST_NAMES)) delete names[name];
  return {tokens, begins};
}
