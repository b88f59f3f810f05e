// The table of models: which are loaded, how many requests each has, and what memory each takes. The views below show one of them.
import {$, el, keepList, setText} from "../shared/dom.js";
import {bytes, count, counted, seconds} from "../shared/format.js";

const STATE_CLASS = {ready: "good", loading: "warn", unloading: "warn", restarting: "warn", lost: "bad", unloaded: "",
                     falling_asleep: "warn", asleep: ""};

export class ModelsView {
  /** Shows the models of the server's status. One model that is ready needs no table. */
  show({models, model}) {
    const plain = models.length === 1 && models[0].state === "ready";
    $("models-card").hidden = plain;
    if (plain) return;
    const loaded = models.filter(({state}) => state === "ready" || state === "restarting");
    setText($("models-summary"), `${count(loaded.length)} of ${counted(models.length, "model")} loaded; the views below show ${model.name}`);
    keepList($("models"), models, ({name}) => name, (one) => this.#row(one), (row, one) => this.#fill(row, one));
  }

  #row(one) {
    const cell = (className, ...children) => el("td", {className}, ...children);
    return el("tr", {}, cell("name mono", one.name), cell("state", el("span", {className: "pill"})), cell("number running"), cell("number waiting"),
              cell("number weights"), cell("number kv"), cell("number left"), cell("why"));
  }

  #fill(row, one) {
    const at = (name) => row.querySelector(name);
    const pill = at(".pill");
    pill.className = `pill ${STATE_CLASS[one.state] ?? ""}`;
    setText(pill, one.state);
    setText(at(".running"), count(one.requests));
    setText(at(".waiting"), count(one.waiting));
    setText(at(".weights"), one.weight_bytes ? bytes(one.weight_bytes) : "");
    setText(at(".kv"), one.kv_bytes ? bytes(one.kv_bytes) : "");
    setText(at(".left"), one.unloads_in_seconds === null ? "" : seconds(one.unloads_in_seconds));
    setText(at(".why"), one.problem ?? "");
  }
}
