// The table of batches: the progress of each batch, its owner, and what it waits for. A server without a directory for
// batches shows no table.
import {$, el, keepList, setText} from "../shared/dom.js";
import {bytes, count, counted, seconds} from "../shared/format.js";
import {stateName} from "./requests_view.js";

const STATE_CLASS = {in_progress: "good", finalizing: "good", completed: "", failed: "bad", expired: "bad", cancelling: "warn", cancelled: "warn", validating: ""};
const LISTED = 50;

export class BatchesView {
  constructor(session) {
    this.session = session;
  }

  /** Requests the batches, if the server's status says that the server keeps batches. */
  async look(status) {
    $("batches-card").hidden = !status.batches;
    if (!status.batches) return;
    this.show(status.batches, await this.session.get(`/admin/batches?limit=${LISTED}`));
  }

  show(numbers, page) {
    const rest = page.not_listed > 0 ? `; ${count(page.not_listed)} more are not listed` : "";
    setText($("batches-summary"), `${counted(numbers.running_requests, "request")} running; ${counted(numbers.files, "file")}, ${bytes(numbers.bytes)} of ${bytes(numbers.most_bytes)}${rest}`);
    $("no-batches").hidden = page.batches.length > 0;
    keepList($("batches"), page.batches, ({id}) => id, (batch) => this.#row(batch), (row, batch) => this.#fill(row, batch));
  }

  #row(batch) {
    const cell = (className, ...children) => el("td", {className}, ...children);
    const meter = el("span", {className: "meter", "aria-hidden": "true"}, el("i"));
    return el("tr", {}, cell("name mono", batch.id), cell("client"), cell("state", el("span", {className: "pill"})), cell("done", meter, el("span")),
              cell("number failed"), cell("number running"), cell("endpoint"), cell("number age"), cell("why"));
  }

  #fill(row, batch) {
    const at = (name) => row.querySelector(name);
    setText(at(".client"), batch.client ?? "no key");
    const pill = at(".pill");
    pill.className = `pill ${STATE_CLASS[batch.status] ?? ""}`;
    setText(pill, stateName(batch.status));
    const done = batch.completed + batch.failed;
    at(".meter > i").style.width = `${batch.total > 0 ? Math.min(100, 100 * done / batch.total) : 0}%`;
    setText(at(".done > span:last-child"), batch.total > 0 ? `${count(batch.completed)} of ${count(batch.total)}` : count(batch.completed));
    setText(at(".failed"), count(batch.failed));
    setText(at(".running"), count(batch.running));
    setText(at(".endpoint"), batch.endpoint);
    setText(at(".age"), seconds(Date.now() / 1000 - batch.created_at));
    setText(at(".why"), batch.why_waiting ?? "");
  }
}
