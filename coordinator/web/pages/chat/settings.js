// The page's form for the fields of requests. The browser keeps their values.
import {$} from "../shared/dom.js";

const FIELDS = ["system", "max-tokens", "temperature", "top-p", "top-k", "seed", "logprobs"];
const TOP_LOGPROBS = 5;
// Fields that a request contains only if the user filled them in. Otherwise the server's sampling defaults apply.
const SAMPLING = {"temperature": "temperature", "top-p": "top_p", "top-k": "top_k"};

export class Settings {
  constructor(conversations) {
    this.conversations = conversations;
    const kept = conversations.settings;
    for (const id of FIELDS) {
      const field = $(id);
      if (field.type === "checkbox" && typeof kept[id] === "boolean") field.checked = kept[id];
      if (field.type !== "checkbox" && typeof kept[id] === "string") field.value = kept[id];
    }
    $("settings").addEventListener("change", () => this.#keep());
  }

  #keep() {
    this.conversations.settings = Object.fromEntries(FIELDS.map((id) => [id, $(id).type === "checkbox" ? $(id).checked : $(id).value]));
  }

  /** Shows the server's defaults (`default_sampling` of the model in /v1/models) as hints in empty fields. */
  showDefaults(model) {
    for (const [id, name] of Object.entries(SAMPLING)) $(id).placeholder = model?.default_sampling?.[name] ?? "";
  }

  get logprobs() {
    return $("logprobs").checked;
  }

  /** Shows the first field with an invalid value. Returns false when a field is invalid. */
  check() {
    for (const input of $("settings").querySelectorAll("input")) {
      if (input.checkValidity()) continue;
      $("settings").hidden = false;
      input.reportValidity();
      return false;
    }
    return true;
  }

  /** Returns the body of a request that continues these messages. */
  body(messages) {
    const system = $("system").value.trim();
    const body = {
      model: $("model").value,
      messages: [...(system ? [{role: "system", content: system}] : []), ...messages],
      max_tokens: Number($("max-tokens").value),
      stream: true,
      stream_options: {include_usage: true},
    };
    for (const [id, name] of Object.entries(SAMPLING)) {
      if ($(id).value !== "") body[name] = Number($(id).value);
    }
    if ($("seed").value) body.seed = Number($("seed").value);
    if (this.logprobs) Object.assign(body, {logprobs: true, top_logprobs: TOP_LOGPROBS});
    return body;
  }
}
