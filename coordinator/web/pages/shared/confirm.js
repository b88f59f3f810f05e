// Asks for confirmation before an action that cannot be undone. The page must have the dialog "confirm".
import {$, setText} from "./dom.js";

/** Resolves to true when the user confirms, and to false when the user cancels. */
export function confirmed(title, text) {
  const dialog = $("confirm");
  setText($("confirm-title"), title);
  setText($("confirm-text"), text);
  setText($("confirm-yes"), title);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), {once: true}));
}
