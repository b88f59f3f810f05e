// The panel of kept conversations: opens or deletes a conversation, and saves the shown one as a file.
import {confirmed} from "../shared/confirm.js";
import {$, el, keepList, setText} from "../shared/dom.js";
import {asJson, asMarkdown, fileNameOf, save} from "./saving.js";

export class KeptList {
  /** open(conversation) shows a conversation, shown() returns the conversation that is shown, remove(id) deletes one. */
  constructor(conversations, {open, shown, remove}) {
    Object.assign(this, {conversations, open, shown, remove});
    $("save-markdown").addEventListener("click", () => save(`${fileNameOf(shown())}.md`, "text/markdown", asMarkdown(shown())));
    $("save-json").addEventListener("click", () => save(`${fileNameOf(shown())}.json`, "application/json", asJson(shown())));
    addEventListener("storage", () => this.show());  // another tab kept or deleted a conversation
  }

  show() {
    if ($("kept").hidden) return;
    const all = this.conversations.list();
    $("no-kept").hidden = all.length > 0;
    $("save-markdown").disabled = $("save-json").disabled = this.shown().turns.length === 0;
    keepList($("kept-list"), all, ({id}) => id, (conversation) => this.#row(conversation), (row, conversation) => this.#fill(row, conversation));
  }

  #row({id}) {
    const open = el("button", {className: "quiet title", type: "button", onclick: () => this.open(this.conversations.find(id))});
    const remove = el("button", {className: "quiet small danger", type: "button", onclick: () => this.#ask(id)}, "Delete");
    return el("li", {}, open, remove);
  }

  #fill(row, {id, title}) {
    const [open, remove] = row.children;
    setText(open, title);
    open.setAttribute("aria-current", String(id === this.shown().id));
    remove.setAttribute("aria-label", `Delete ${title}`);
  }

  async #ask(id) {
    const title = this.conversations.find(id)?.title ?? "";
    if (await confirmed("Delete", `The conversation “${title}” is forgotten.`)) this.remove(id);
    this.show();
  }
}
