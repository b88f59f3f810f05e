// Makes page elements from marked's tokens of a Markdown text. A model may try to attack the readers of its answer.
// Therefore this file neither makes nor parses HTML: it creates all elements itself, and all words are text nodes. HTML
// in an answer is shown as text. Pictures become links, because loading a picture would tell its server about the
// conversation.
import {el} from "../shared/dom.js";
import {copyButton} from "../shared/copy.js";
import {formulaPlace} from "./formulas.js";
import {withTabs} from "./readable_text.js";

const LEADS_OUT = /^(?:https?:\/\/|mailto:)/i;  // other addresses could lead to this server or run code
const NAMED = {amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", deg: "°", times: "×", middot: "·", bull: "•", hellip: "…", ndash: "–", mdash: "—",
  larr: "←", rarr: "→", le: "≤", ge: "≥", ne: "≠", minus: "−", euro: "€", laquo: "«", raquo: "»"};

/** Undoes marked's escaping of HTML's special characters; escapes of the original text stay. */
function unspelled(text) {
  return withTabs(text).replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,8}));/gi, (all, decimal, hex, name) => {
    if (name) return NAMED[name] ?? all;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : all;
  });
}

function link(href, title, children) {
  const address = unspelled(href ?? "");
  if (!LEADS_OUT.test(address) || !URL.canParse(address)) return el("span", {}, ...children);
  return el("a", {href: address, title: unspelled(title ?? ""), target: "_blank", rel: "noopener noreferrer nofollow"}, ...children);
}

/** Returns a block of code that is empty, under a line with its language and a button that copies it: {element, inside: where the text belongs,
 * copied(text): adds to what the button copies}. */
export function codeBlock(info) {
  let text = "";
  const language = (info ?? "").trim().split(/\s/)[0], inside = el("code");
  const bar = el("div", {className: "bar"}, el("span", {className: "muted small"}, language), copyButton("Copy", "Copy the code", () => text));
  const block = el("pre", {className: "scroll", tabIndex: 0, role: "group", "aria-label": language ? `Code in ${language}` : "Code"}, inside);
  return {element: el("div", {className: "code"}, bar, block), inside, copied: (more) => { text += more; }};
}

function code({text: words, lang}) {
  const text = withTabs(words), {element, inside, copied} = codeBlock(lang);
  inside.append(text);
  copied(text);
  return element;
}

function table({header, align, rows}) {
  const row = (tag, cells) => el("tr", {}, ...cells.map(({tokens}, column) => el(tag, {className: align[column] ?? ""}, ...elementsOf(tokens))));
  const made = el("table", {}, el("thead", {}, row("th", header)), el("tbody", {}, ...rows.map((cells) => row("td", cells))));
  return el("div", {className: "scroll", tabIndex: 0, role: "group", "aria-label": "Table"}, made);
}

function list({ordered, start, items}) {
  const made = items.map(({task, checked, tokens}) => el("li", {}, task ? (checked ? "☑ " : "☐ ") : null, ...elementsOf(tokens)));
  return ordered ? el("ol", {start: Number(start) || 1}, ...made) : el("ul", {}, ...made);
}

const inside = (tag) => ({tokens}) => el(tag, {}, ...elementsOf(tokens));
const asWritten = ({raw}) => el("span", {className: "raw"}, withTabs(raw));

const MAKERS = {
  space: () => null,
  def: () => null,
  hr: () => el("hr"),
  br: () => el("br"),
  heading: ({depth, tokens}) => el(`h${Math.min(6, depth + 1)}`, {className: `depth-${depth}`}, ...elementsOf(tokens)),
  paragraph: inside("p"),
  blockquote: inside("blockquote"),
  strong: inside("strong"),
  em: inside("em"),
  del: inside("del"),
  code,
  table,
  list,
  codespan: ({text}) => el("code", {}, unspelled(text)),
  text: ({tokens, text}) => (tokens ? el("span", {}, ...elementsOf(tokens)) : unspelled(text)),
  escape: ({text}) => unspelled(text),
  html: asWritten,
  link: ({href, title, tokens}) => link(href, title, elementsOf(tokens)),
  image: ({href, title, text}) => link(href, title, [unspelled(text) || href || "picture"]),
  formula: formulaPlace,
};

/** Returns elements and texts for marked's tokens; a token of an unknown kind is shown as its source text. */
export function elementsOf(tokens) {
  return tokens.map((token) => (Object.hasOwn(MAKERS, token.type) ? MAKERS[token.type] : asWritten)(token));
}
