// Copies text to the clipboard, also on pages without TLS, which have no clipboard API.
import {el, setText} from "./dom.js";

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = el("textarea", {value: text, className: "unseen", tabIndex: -1, "aria-hidden": "true"});
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("the browser does not copy");
  return undefined;
}

/** Returns a button that copies the result of text() when pressed, and shows for a moment whether the copy succeeded. */
export function copyButton(word, label, text) {
  const button = el("button", {className: "quiet small", type: "button", "aria-label": label}, word);
  button.addEventListener("click", async () => {
    let said = "Copied";
    try {
      await copy(text());
    } catch {
      said = "Not copied";
    }
    setText(button, said);
    setTimeout(() => setText(button, word), 1500);
  });
  return button;
}
