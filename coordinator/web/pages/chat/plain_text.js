// Shows a growing text as plain text. The text is cut into parts at line ends. A browser lays out only the parts that
// changed, so the time to show more text does not depend on the length of the text that is already shown.
import {el} from "../shared/dom.js";

const PART = 8000, LONGEST_PART = 64000;  // characters: from PART on a part ends at a line end, at LONGEST_PART anywhere

export class PlainText {
  constructor(parent) {
    this.parent = parent;
    this.shown = 0;   // number of characters shown
    this.size = LONGEST_PART;  // number of characters in the last part
    this.part = null;
  }

  /** Shows a text that begins with the text that is shown. */
  show(text) {
    if (text.length > this.shown) this.append(text.slice(this.shown));
  }

  append(text) {
    this.shown += text.length;
    for (let from = 0, to; from < text.length; from = to) {
      if (this.full) {
        this.part = document.createTextNode("");
        this.size = 0;
        this.parent.append(el("span", {className: "part"}, this.part));
      }
      const least = from + Math.max(0, PART - this.size), line = text.indexOf("\n", least) + 1;
      to = Math.min(line || text.length, from + LONGEST_PART - this.size);
      this.part.appendData(text.slice(from, to));
      this.size += to - from;
    }
  }

  get full() {
    return this.size >= LONGEST_PART || (this.size >= PART && this.part.data.endsWith("\n"));
  }
}
