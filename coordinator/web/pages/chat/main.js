// Starts the chat page: asks for a key if the server requires one, then shows the chat.
import {confirmed} from "../shared/confirm.js";
import {$, el, setText} from "../shared/dom.js";
import {Session} from "../shared/session.js";
import {Chat} from "./chat.js";

const AGAIN_MS = 1500;

const session = new Session("quire.api-key");
const chat = new Chat(session, (reason) => signIn(reason));

function signIn(reason) {
  session.key = "";
  $("app").hidden = true;
  $("sign-in").hidden = false;
  $("sign-in-error").hidden = !reason;
  setText($("sign-in-error"), reason);
  $("key").focus();
}

function show(models) {
  $("app").hidden = false;
  $("sign-in").hidden = true;
  $("sign-out").hidden = !session.key;
  $("model").replaceChildren(...models.map(({id}) => el("option", {value: id}, id)));
  chat.settings.showDefaults(models[0]);
  setText($("status"), "Enter sends, Shift+Enter begins a line.");
  $("message").focus();
}

async function enter() {
  try {
    show((await session.get("/v1/models")).data);
  } catch (error) {
    if (error.status === 401) return signIn(session.key ? "The key is not known here." : "");
    $("app").hidden = false;
    setText($("status"), error.status === 0 || error.status === 503 ? "The server is not ready; trying again." : error.message);
    setTimeout(enter, AGAIN_MS);
  }
}

$("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  session.key = $("key").value.trim();
  $("key").value = "";
  enter();
});
$("sign-out").addEventListener("click", async () => {
  // The next user of this browser must not read this user's conversations.
  if (chat.conversations.list().length > 0 && !(await confirmed("Sign out", "The conversations that this browser keeps are deleted."))) return;
  chat.forget();
  signIn("");
});
enter();
