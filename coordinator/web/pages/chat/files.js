// Text files attached to a message. The model gets the files before the message, each between fences.
import {el} from "../shared/dom.js";
import {bytes} from "../shared/format.js";

const MOST_BYTES = 1 << 20;  // of all files of one message together

/** Reads a file as {name, text}; throws Error when the file is not text. */
async function readText(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} has ${bytes(file.size)}; a message takes ${bytes(MOST_BYTES)} of files.`);
  try {
    const text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return {name: file.name, text};
  } catch { /* no UTF-8 */ }
  throw new Error(`${file.name} is no text in UTF-8; only text files can be attached.`);
}

/** The files attached to the message that is being written: a row of names, each with a button that removes the file. */
export class Attachments {
  constructor(row, tell) {
    this.row = row;
    this.tell = tell;  // shows an error about a file
    this.files = [];
  }

  async add(files) {
    for (const file of files) {
      try {
        const read = await readText(file);
        const all = this.files.reduce((sum, one) => sum + one.text.length, read.text.length);
        if (all > MOST_BYTES) throw new Error(`A message takes ${bytes(MOST_BYTES)} of files; ${file.name} does not fit any more.`);
        this.show([...this.files, read]);
      } catch (error) {
        this.tell(error.message);
      }
    }
  }

  show(files) {
    this.files = files;
    this.row.hidden = files.length === 0;
    this.row.replaceChildren(...files.map((file) => el("li", {}, fileName(file), el("button", {
      className: "quiet small",
      type: "button",
      "aria-label": `Remove ${file.name}`,
      onclick: () => this.show(this.files.filter((other) => other !== file)),
    }, "✕"))));
  }
}

export function fileName({name, text}) {
  return el("span", {className: "file"}, `${name} · ${bytes(new Blob([text]).size)}`);
}

/** Returns the text that the model receives for a turn. Each fence is longer than every run of its character in the file. */
export function contentOf({content, files = []}) {
  const parts = files.map(({name, text}) => {
    const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
    const fence = "`".repeat(longest + 1);
    return `File ${name}:\n${fence}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}\n`;
  });
  return [...parts, content].filter(Boolean).join("\n");
}
