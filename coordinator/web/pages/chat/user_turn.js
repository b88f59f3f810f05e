// Shows a message of the user, who can edit it and send it again.
import {el} from "../shared/dom.js";
import {fileName} from "./files.js";

export class UserTurn {
  /** send(text) replaces the turn, and all turns after it, by a message with this text. */
  constructor(turn, send) {
    this.turn = turn;
    const files = turn.files?.length > 0 ? el("div", {className: "with-files"}, ...turn.files.map(fileName)) : null;
    this.edit = el("button", {className: "quiet small change", type: "button", "aria-label": "Edit the message", onclick: () => this.#open()}, "Edit");
    this.shown = el("div", {className: "text raw"}, files, turn.content);
    this.actions = el("span", {className: "actions"}, this.edit);
    this.field = el("textarea", {rows: 3, "aria-label": "The message"});
    this.editor = el("form", {className: "card editor", hidden: true}, this.field, el("div", {className: "actions"},
      el("button", {type: "button", onclick: () => this.#close()}, "Cancel"), el("button", {className: "primary"}, "Send")));
    this.editor.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.field.value.trim() || this.turn.files?.length > 0) send(this.field.value.trim());
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#close();
    });
    this.element = el("div", {className: "turn user"}, this.shown, this.editor, el("div", {className: "under"}, this.actions));
  }

  #open() {
    this.field.value = this.turn.content;
    this.#show(true);
    this.field.focus();
  }

  #close() {
    this.#show(false);
    this.edit.focus();
  }

  #show(editing) {
    this.editor.hidden = !editing;
    this.shown.hidden = this.actions.hidden = editing;
  }
}
