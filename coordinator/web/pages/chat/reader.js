// marked as this page uses it: formulas are read, too, and a text that was made to be hard to read costs little time.
import {FORMULAS} from "./formulas.js";
import {withoutTabs} from "./tabs.js";

const {marked} = globalThis;

// What marked tries at a sign goes over the rest of the paragraph, so that thousands of signs without their counterparts
// cost the square of their number. Beyond this many characters gone over, the signs of a text are text.
const WORK = 4000000;
const BEGINS = {emStrong: /^[*_]/, del: /^~/, codespan: /^`/, link: /^!?\[/, reflink: /^!?\[/, tag: /^</};

let left = 0;
const tokenizer = Object.fromEntries(Object.entries(BEGINS).map(([name, begins]) => [name, (text) => {
  if (begins.test(text)) left -= text.length;
  return left > 0 ? false : undefined;  // false: marked's own way; undefined: no such token here
}]));
marked.use({gfm: true, breaks: true, extensions: FORMULAS, tokenizer});

/** marked's tokens of a text. Throws RangeError for one that is nested deeper than a browser calls functions. */
export function tokensOf(text) {
  left = WORK;
  return marked.lexer(withoutTabs(text));
}
