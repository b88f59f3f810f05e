// The list of the latest events.
import {$, el, setText} from "../shared/dom.js";

const KEPT = 200, RETRY_MS = 2000;

export class EventLog {
  constructor(session) {
    this.session = session;
    this.last = 0;
  }

  /** Reads events as long as the page is open, beginning with those that the server still keeps. */
  async follow(signal) {
    while (!signal.aborted) {
      try {
        setText($("events-state"), "");
        for await (const {event, data} of this.session.events(`/admin/events?since=${this.last}`, {signal})) this.#add(event, JSON.parse(data));
      } catch (error) {
        if (signal.aborted) return;
        setText($("events-state"), error.status ? error.message : "not connected");
        if (error.status === 0) this.last = 0;  // the next answer may come from another server, with new numbers
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  #add(event, data) {
    if (event === "lost" || event === "left_out") return this.#line(Date.now() / 1000, `${data.events} events are missing: ${data.reason}`);
    if (data.number <= this.last) return;
    this.last = data.number;
    const where = data.replica === null ? "" : `replica ${data.replica}, `;
    this.#line(data.time, `${event.replaceAll("_", " ")}: ${where}${data.text}`);
  }

  #line(time, text) {
    const line = el("li", {}, el("time", {}, new Date(time * 1000).toLocaleTimeString([], {hour12: false})), el("span", {className: "text"}, text));
    $("events").prepend(line);
    while ($("events").children.length > KEPT) $("events").lastElementChild.remove();
  }
}
