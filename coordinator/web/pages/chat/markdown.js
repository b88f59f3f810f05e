// Shows a model's Markdown as elements of the page while the text grows.
import {el} from "../shared/dom.js";
import {elementsOf} from "./elements.js";
import {tokensOf} from "./reader.js";

/** Longer answers stay plain text: the page reads an answer anew at every drawing, which would be too slow. */
const MOST_CHARACTERS = 200000;

/** Shows a text in `body`. Unchanged blocks are kept, so a selection in them stays. */
export class Markdown {
  constructor(body) {
    this.body = body;
    this.blocks = [];  // {raw, element}
  }

  show(text, whole = false) {
    try {
      if (text.length > MOST_CHARACTERS) throw new RangeError("too long");
      this.#show(text, whole);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.blocks = [];  // longer than above, or nested deeper than a browser calls functions
      this.body.replaceChildren(el("div", {className: "raw"}, text));
    }
  }

  #show(text, whole) {
    const tokens = tokensOf(text);
    // A block may use the name of a link that a later block explains.
    if (whole && Object.keys(tokens.links).length > 0) this.#drop(0);
    let same = 0;
    for (; same < Math.min(this.blocks.length, tokens.length) && this.blocks[same].raw === tokens[same].raw; ++same);
    this.#drop(same);
    for (const token of tokens.slice(same)) {
      const element = el("div", {className: "block"}, ...elementsOf([token]));
      this.body.append(element);
      this.blocks.push({raw: token.raw, element});
    }
  }

  #drop(from) {
    if (this.blocks.length === 0) this.body.replaceChildren();
    for (const {element} of this.blocks.splice(from)) element.remove();
  }
}
