// Prepares a growing text for marked, line by line, so that every character keeps its position. marked turns each tab
// at the beginning of a line into four blanks, which breaks Makefiles that users copy from an answer. Therefore a
// character that no text contains replaces such tabs inside fences while marked reads them.

const SIGN = "\ufdd0";
const FENCE = /^((?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(`{3,}(?!.*`)|~{3,})(.*)/;
const NONE = {fence: "", before: ""};

/** Returns the block that is open after a line: {fence, before}. before: text in front of the fence that ends the block;
 * open: the block that was open before the line. */
function after(line, open) {
  const [, before = "", fence = "", rest = ""] = line.match(FENCE) ?? [];
  if (open.fence === "") return fence ? {fence, before: before.replace(/[^\s>]/g, " ")} : NONE;
  return fence.startsWith(open.fence) && rest.trim() === "" ? NONE : open;
}

/** Returns the fence that is open after a text, "" for none, and the line that would end it. */
export function openFence(text) {
  const {fence, before} = text.split("\n").reduce((open, line) => after(line, open), NONE);
  return {fence, end: fence ? `${text.endsWith("\n") ? "" : "\n"}${before}${fence}\n` : ""};
}

export function withTabs(text) {
  return text.replaceAll(SIGN, "\t");
}

export class ReadableText {
  #lines = "";  // whole lines, prepared
  #taken = 0;   // number of the text's characters in #lines
  #open = NONE;  // what kind of block is open after #lines

  /** Returns the whole text, prepared. Each call's text begins with the text of the previous call. */
  of(text) {
    const end = text.lastIndexOf("\n") + 1;
    if (end > this.#taken) {
      this.#lines += this.#prepared(text.slice(this.#taken, end));
      this.#taken = end;
    }
    const open = this.#open, last = this.#prepared(text.slice(end));
    this.#open = open;
    return this.#lines + last;
  }

  #prepared(text) {
    return text.replace(/\r\n?/g, "\n").split("\n").map((line) => {
      const before = this.#open;
      this.#open = after(line, before);
      if (before !== NONE && this.#open !== NONE) return line.replaceAll("\t", SIGN);
      return line.replace(/^( *)(\t+)/, (_, blanks, tabs) => blanks + "    ".repeat(tabs.length));
    }).join("\n");
  }
}
