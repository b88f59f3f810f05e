// Sets up the Markdown parser marked: it reads formulas, too, and a text that was made to be slow to read costs little time.
import {FORMULAS} from "./formulas.js";
import {withoutTabs} from "./tabs.js";

const {marked} = globalThis;

// marked scans the rest of the paragraph at each sign, so thousands of unpaired signs cost the square of their number.
// Once marked has scanned this many characters, further signs of the text are plain text.
const WORK = 4000000;
const BEGINS = {emStrong: /^[*_]/, del: /^~/, codespan: /^`/, link: /^!?\[/, reflink: /^!?\[/, tag: /^</};

let left = 0;
const tokenizer = Object.fromEntries(Object.entries(BEGINS).map(([name, begins]) => [name, (text) => {
  if (begins.test(text)) left -= text.length;
  return left > 0 ? false : undefined;  // false: marked's own rule follows; undefined: no such token here
}]));
marked.use({gfm: true, breaks: true, extensions: FORMULAS, tokenizer});

/** Returns marked's tokens of a text. Throws RangeError for a text that is nested deeper than the browser's call stack allows. */
export function tokensOf(text) {
  left = WORK;
  return marked.lexer(withoutTabs(text));
}
