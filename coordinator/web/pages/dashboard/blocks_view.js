// The card with the block map: both pools, the legend, the owners, and a description of the block under the pointer.
import {$, el, keepList, setText} from "../shared/dom.js";
import {count, counted, percent} from "../shared/format.js";
import {BlockMap} from "./block_map.js";
import {css, onThemeChange, ownerColor, theme} from "./block_colors.js";
import {deviceOwnership, hostOwnership} from "./ownership.js";

const MOST_OWNERS = 60;  // number of owners in the list; the map draws all owners

function placeTip(tip, box) {
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  const left = Math.min(box.left, innerWidth - width - 8);
  const below = box.bottom + 8;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${below + height > innerHeight ? Math.max(8, box.top - height - 8) : below}px`;
}

export class BlocksView {
  constructor() {
    this.device = new BlockMap($("device-map"), "Blocks on the device. Arrow keys go from block to block.", (id, box) => this.#tell(this.device, id, box));
    this.host = new BlockMap($("host-map"), "Blocks in host memory. Arrow keys go from block to block.", (id, box) => this.#tell(this.host, id, box));
    this.map = null;
    onThemeChange(() => this.#legend());
    this.#legend();
  }

  show(map) {
    this.map = map;
    this.device.show(deviceOwnership(map));
    $("host-part").hidden = map.host.total === 0;
    if (map.host.total > 0) this.host.show(hostOwnership(map));
    this.#summary();
    this.#owners();
    const folded = this.device.folded ?? 0;
    $("map-folded").hidden = folded === 0;
    setText($("map-folded"), `Lines between rows stand for ${count(folded)} blocks that are free.`);
  }

  #tell(from, id, box) {
    const tip = $("tip");
    tip.hidden = true;
    if (id === null) return;
    const {title, lines} = from.ownership.describe(id);
    const shown = lines.length > 8 ? [...lines.slice(0, 7), `and ${lines.length - 7} more`] : lines;
    tip.replaceChildren(el("b", {}, title), ...shown.map((line) => el("div", {}, line)));
    placeTip(tip, box);
    if (document.activeElement === from.canvas) setText($("said"), `${title}. ${shown.join("; ")}`);
  }

  #summary() {
    const {counts, total} = this.device.ownership;
    const parts = [`${count(total)} blocks of ${this.map.block_size} tokens`, `${percent((total - this.map.free) / total)} in use`,
                   `${count(counts.shared)} shared`, `${count(counts.cached)} cached`, `${count(this.map.free - counts.cached)} empty`];
    if (counts.pinned > 0) parts.push(`${count(counts.pinned)} pinned`);
    if (this.map.host.total > 0) parts.push(`${count(this.map.host.used)} of ${count(this.map.host.total)} on the host`);
    if (this.map.not_listed > 0) parts.push(`${count(this.map.not_listed)} table entries are not shown`);
    setText($("map-summary"), parts.join(" · "));
  }

  #owners() {
    const owners = [...this.device.ownership.owners, ...this.map.swapped_out.map((owner) => ({...owner, swapped: true}))];
    owners.sort((a, b) => b.held - a.held);
    $("no-owners").hidden = owners.length > 0;
    keepList($("owners"), owners.slice(0, MOST_OWNERS), (owner) => owner.request, (owner) => this.#ownerRow(owner), (row, owner) => this.#fillRow(row, owner));
  }

  #ownerRow(owner) {
    const button = el("button", {}, el("span", {className: "who mono"}, el("i", {className: "swatch"}), el("span", {})), el("span", {className: "what"}));
    const on = () => { this.device.emphasize(owner.request); this.host.emphasize(owner.request); };
    const off = () => { this.device.emphasize(null); this.host.emphasize(null); };
    button.addEventListener("pointerenter", on);
    button.addEventListener("focus", on);
    button.addEventListener("pointerleave", off);
    button.addEventListener("blur", off);
    button.addEventListener("click", () => this.open?.(owner.id));
    return el("li", {}, button);
  }

  #fillRow(row, owner) {
    row.querySelector(".swatch").style.background = ownerColor(owner.request);
    setText(row.querySelector(".who span"), owner.id);
    const parts = [owner.swapped ? "in host memory" : counted(owner.held, "block")];
    if (owner.tables.length > 1) parts.push(`${owner.tables.length} choices`);
    if (owner.sharedBlocks > 0) parts.push(`${count(owner.sharedBlocks)} shared inside`);
    if (owner.shared?.size > 0) parts.push(`shares with ${counted(owner.shared.size, "other")}`);
    setText(row.querySelector(".what"), parts.join(" · "));
  }

  #legend() {
    const colors = theme();
    const entry = (background, text) => {
      const swatch = el("i", {className: "swatch"});
      swatch.style.background = background;
      return el("li", {}, swatch, text);
    };
    const owned = ownerColor(1);
    $("legend").replaceChildren(
      entry(owned, "held, a colour for each request"),
      entry(`linear-gradient(to top right, ${owned} 58%, ${css(colors.mark)} 60%)`, "shared"),
      entry(css(colors.cached), "cached"),
      entry(css(colors.pinned), "pinned"),
      entry(css(colors.free), "free"));
  }
}
