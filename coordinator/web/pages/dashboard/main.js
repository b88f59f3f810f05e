// The dashboard: signs in, polls the admin port, and passes the answers to the views.
import {$, el, setText} from "../shared/dom.js";
import {Refusal, Session} from "../shared/session.js";
import {BatchesView} from "./batches_view.js";
import {BlocksView} from "./blocks_view.js";
import {ClientsView} from "./clients_view.js";
import {ClusterView} from "./cluster_view.js";
import {Controls} from "./controls.js";
import {EventLog} from "./event_log.js";
import {History} from "./history.js";
import {ModelsView} from "./models_view.js";
import {RequestsView} from "./requests_view.js";

const PERIOD_MS = 1000, METRICS_EVERY = 2, HISTORY_EVERY = 5;
const STATE_CLASS = {serving: "good", paused: "warn", recovering: "warn", failed: "bad"};

class Dashboard {
  constructor(session) {
    this.session = session;
    this.blocks = new BlocksView();
    this.history = new History();
    this.cluster = new ClusterView();
    this.clients = new ClientsView();
    this.batches = new BatchesView(session);
    this.models = new ModelsView();
    this.controls = new Controls(session, () => this.look());
    this.requests = new RequestsView(session, (verb, id, replica) => (verb === "abort" ? this.controls.abort(id) : this.controls.migrate(id, replica)));
    this.blocks.open = (id) => this.requests.open(id);
    this.events = new EventLog(session);
    this.rounds = 0;
    $("replica").addEventListener("change", () => this.look());
    for (const id of ["filter-state", "filter-client"]) $(id).addEventListener("input", () => this.look());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.look(); });
  }

  start() {
    $("app").hidden = false;
    $("sign-out").hidden = !this.session.key;
    this.following = new AbortController();
    this.events.follow(this.following.signal);
    this.#loop(this.following.signal);
  }

  stop() {
    this.following?.abort();
    $("app").hidden = true;
  }

  async #loop(signal) {
    while (!signal.aborted) {
      if (!document.hidden) await this.look();
      await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
    }
  }

  /** Refreshes all views once. A second call during the refresh waits for the same refresh. */
  look() {
    this.looking ??= this.#look().finally(() => { this.looking = null; });
    return this.looking;
  }

  async #look() {
    try {
      const replica = $("replica").value || "0";
      const withMetrics = this.rounds % METRICS_EVERY === 0, withHistory = this.rounds % HISTORY_EVERY === 0;
      ++this.rounds;
      const status = await this.session.get("/admin/status");
      this.models.show(status);
      if (status.replicas.length === 0) return this.#showUnloaded(status);
      const [requests, map, topology, metrics, history] = await Promise.all([
        this.session.get(`/admin/requests?${this.requests.query()}`), this.session.get(`/admin/block_map?replica=${replica}`),
        this.session.get("/admin/topology"), withMetrics ? this.session.open("/metrics").then((response) => response.text()) : null,
        withHistory ? this.session.get(`/admin/history?${this.history.query()}`) : null]);
      $("trouble").hidden = true;
      this.#head(status);
      this.requests.replicas = status.replicas.length;
      this.blocks.show(map);
      this.requests.show(requests);
      this.cluster.show(status, topology);
      this.history.onStatus(status);
      this.clients.onStatus(status);
      this.controls.onStatus(status);
      if (metrics !== null) this.history.onMetrics(metrics);
      if (history !== null) this.history.onHistory(history);
      await this.batches.look(status);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (error.status === 401) return signIn(this.session, this.session.key ? "The token is not known here." : "");
      $("trouble").hidden = false;
      this.#pill(error.status === 0 ? "no answer" : "unknown", "bad");
      setText($("trouble"), error.status === 0 ? "The server does not answer; what is shown here is old." : error.message);
    }
  }

  /** Hides the views of blocks, ranks and requests while the shown model is not loaded. */
  #showUnloaded(status) {
    $("trouble").hidden = true;
    this.#pill(status.state, "warn");
    setText($("model"), status.model.name);
    setText($("version"), `version ${status.version}`);
    document.title = `${status.model.name} · Quire`;
  }

  #pill(state, className) {
    $("state").className = `pill ${className}`;
    setText($("state"), state);
  }

  #head(status) {
    setText($("model"), status.model.name);
    const worst = status.replicas.find((replica) => replica.state !== "serving")?.state ?? "serving";
    const state = worst === "serving" && this.controls.draining ? "draining" : worst;
    this.#pill(state, STATE_CLASS[state] ?? "warn");
    setText($("version"), `version ${status.version} · contexts of ${status.model.max_model_len.toLocaleString("en-US")} tokens`);
    document.title = `${status.model.name} · Quire`;
    $("replica-label").hidden = status.replicas.length === 1;
    if ($("replica").options.length !== status.replicas.length)
      $("replica").replaceChildren(...status.replicas.map((replica) => el("option", {value: replica.replica}, String(replica.replica))));
  }
}

let dashboard = null;

function signIn(session, reason) {
  dashboard?.stop();
  session.key = "";
  $("sign-in").hidden = false;
  $("sign-in-error").hidden = !reason;
  setText($("sign-in-error"), reason);
  $("token").focus();
}

/** Shows the dashboard when the server answers, or the sign-in when the server requires a token. */
async function enter(session) {
  try {
    await session.get("/admin/help");
  } catch (error) {
    if (error.status === 401) return signIn(session, session.key ? "The token is not known here." : "");
    if (error.status !== 0) return signIn(session, error.message);
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
    return enter(session);
  }
  $("sign-in").hidden = true;
  dashboard ??= new Dashboard(session);
  dashboard.start();
}

const session = new Session("quire.admin-token");
$("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  session.key = $("token").value.trim();
  $("token").value = "";
  enter(session);
});
$("sign-out").addEventListener("click", () => signIn(session, ""));
enter(session);
