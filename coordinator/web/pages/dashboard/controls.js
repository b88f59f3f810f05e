// The operator's buttons. Actions that end or delay work ask for confirmation.
import {confirmed} from "../shared/confirm.js";
import {$, el, setText} from "../shared/dom.js";
import {counted, seconds} from "../shared/format.js";

export class Controls {
  /** Calls done() after each action, so that the page refreshes immediately. */
  constructor(session, done) {
    this.session = session;
    this.done = done;
    const button = (text, className, action) => el("button", {className, onclick: action}, text);
    this.pause = button("Pause", "", () => this.#togglePause());
    this.drain = button("Drain", "", () => this.#toggleDrain());
    const flush = button("Flush cache", "", () => this.#ask("Flush the cache", "All cached blocks and pins are forgotten. Requests go on.", "/admin/flush_cache", {},
                                                          (answer) => `${counted(answer.flushed_blocks, "block")} flushed`));
    const restart = button("Restart workers", "", () => this.#ask("Restart the workers", "Requests wait until the new workers are there, and go on.", "/admin/restart_workers", {},
                                                                  (answer) => `new workers after ${seconds(answer.seconds)}`));
    const abort = button("Abort all", "danger", () => this.#ask("Abort all requests", "Every request ends with an error.", "/admin/abort", {all: true},
                                                               (answer) => `${counted(answer.aborted, "request")} aborted`));
    this.workers = el("input", {type: "number", min: 1, max: 1024, required: true, id: "reshard-workers"});
    const reshard = el("form", {onsubmit: (event) => this.#reshard(event)}, el("label", {}, "Workers", this.workers), el("button", {}, "Reshard"));
    $("controls").append(this.pause, this.drain, el("span", {className: "divider"}), flush, restart, reshard, el("span", {className: "divider"}), abort);
    this.draining = false;
  }

  onStatus(status) {
    this.paused = status.replicas.some((replica) => replica.state === "paused");
    setText(this.pause, this.paused ? "Resume" : "Pause");
    setText(this.drain, this.draining ? "Take requests again" : "Drain");
    if (!this.workers.value && document.activeElement !== this.workers) this.workers.value = status.ranks.length;
  }

  async #togglePause() {
    if (this.paused) return this.#post("/admin/resume", {}, () => "resumed");
    await this.#ask("Pause", "No request goes on until somebody resumes; new ones are taken and wait.", "/admin/pause", {},
                    () => "paused: requests are taken and wait");
  }

  async #toggleDrain() {
    if (this.draining) return this.#post("/admin/resume", {}, () => "requests are taken again");
    await this.#ask("Drain", "New requests are refused; those that are here go on.", "/admin/drain", {}, () => "draining: new requests are refused");
  }

  async #reshard(event) {
    event.preventDefault();
    const tensor = Number(this.workers.value);
    await this.#ask("Reshard", `The workers are replaced by ${tensor} in each replica; requests wait meanwhile and go on.`, "/admin/reshard", {tensor},
                    (answer) => `${tensor} workers serve after ${seconds(answer.seconds)}`);
  }

  async abort(id) {
    await this.#ask("Abort the request", `${id} ends with an error.`, "/admin/abort", {request: id}, (answer) => (answer.aborted > 0 ? `${id} was aborted` : `${id} had ended already`));
  }

  async migrate(id, replica) {
    await this.#post("/admin/migrate", {request: id, replica}, (answer) => (answer.moving > 0 ? `${id} moves to replica ${replica}` : `${id} had ended already`));
  }

  async #ask(title, text, path, body, tell) {
    if (await confirmed(title, text)) await this.#post(path, body, tell);
  }

  async #post(path, body, tell) {
    const said = $("control-result");
    said.className = "small";
    setText(said, "…");
    try {
      const answer = await this.session.post(path, body);
      if ("draining" in answer) this.draining = answer.draining;
      setText(said, tell(answer));
    } catch (error) {
      said.className = "small pill bad";
      setText(said, error.message);
    }
    await this.done();
  }
}
