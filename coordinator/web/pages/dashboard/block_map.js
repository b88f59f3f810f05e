// A picture of a pool: one cell for each block, in the order of their ids. Written straight into pixels, so that 100,000
// blocks take a few milliseconds. The pointer or the arrow keys choose a block.
import {el} from "../shared/dom.js";
import {CACHED, FREE, PINNED} from "./ownership.js";
import {mix, onThemeChange, theme} from "./block_colors.js";

const LARGEST_CELL = 22, SMALLEST_CELL = 2;  // CSS pixels, the gap counted in
const HEIGHT = 340, HEIGHT_OF_MANY = 520, MANY = 20000;

export class BlockMap {
  /** choose(id or null, box): the block under the pointer or focus, and where it is on the screen. */
  constructor(parent, label, choose) {
    this.choose = choose;
    this.canvas = el("canvas", {tabIndex: 0, role: "application", "aria-roledescription": "block map", "aria-label": label});
    this.mark = el("div", {className: "mark", hidden: true});
    parent.append(this.canvas, this.mark);
    this.ownership = null;
    this.focused = 0;
    this.highlight = -1;
    new ResizeObserver(() => this.draw()).observe(parent);
    onThemeChange(() => this.draw());
    this.canvas.addEventListener("pointermove", (event) => this.#select(this.#blockAt(event)));
    this.canvas.addEventListener("pointerdown", (event) => this.#select(this.#blockAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.#select(0));
    this.canvas.addEventListener("keydown", (event) => this.#onKey(event));
    this.canvas.addEventListener("focus", () => {
      if (this.canvas.matches(":focus-visible")) this.#select(this.focused || 1);
    });
    this.canvas.addEventListener("blur", () => this.#select(0));
  }

  show(ownership) {
    this.ownership = ownership;
    this.draw();
  }

  /** Dims all blocks but those of this request; null: none. */
  emphasize(request) {
    const place = request === null || !this.ownership ? -1 : this.ownership.owners.findIndex((owner) => owner.request === request);
    if (place === this.highlight) return;
    this.highlight = place;
    this.draw();
  }

  /** Cells as large as fit; sizes in CSS pixels. */
  #layOut() {
    const width = this.canvas.parentElement.clientWidth, total = this.ownership.total;
    const height = total > MANY ? HEIGHT_OF_MANY : HEIGHT;
    let cell = LARGEST_CELL;
    while (cell > SMALLEST_CELL && Math.ceil(total / Math.floor(width / cell)) * cell > height) cell -= cell > 6 ? 1 : 0.5;
    this.cell = cell;
    this.columns = Math.max(1, Math.floor(width / cell));
    this.rows = Math.ceil(total / this.columns);
  }

  draw() {
    if (!this.ownership || this.canvas.parentElement.clientWidth === 0) return;
    this.#layOut();
    const scale = window.devicePixelRatio || 1;
    const cell = Math.max(1, Math.floor(this.cell * scale));
    const width = this.columns * cell, height = this.rows * cell;
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.canvas.style.width = `${width / scale}px`;
    this.cell = cell / scale;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(width, height);
    this.#paint(new Uint32Array(image.data.buffer), width, cell);
    context.putImageData(image, 0, 0);
    if (!this.mark.hidden) this.#placeMark();
  }

  #paint(pixels, width, cell) {
    const {total, kind, owner, holders, filled, owners, blockSize} = this.ownership;
    const colors = theme();
    const ofOwners = owners.map((one) => colors.owner(one.request));
    const gap = cell >= 4 ? Math.max(1, Math.round(cell / 9)) : 0, side = cell - gap;
    const corner = side >= 6 ? Math.ceil(side / 2) : 0;  // of shared blocks, when there is room for one
    pixels.fill(colors.surface);
    for (let id = 1; id <= total; ++id) {
      const what = kind[id];
      let color = what === FREE ? colors.free : what === CACHED ? colors.cached : what === PINNED ? colors.pinned : ofOwners[owner[id]];
      if (this.highlight >= 0 && owner[id] !== this.highlight) color = mix(color, colors.surface, what === FREE ? 0.4 : 0.72);
      const left = ((id - 1) % this.columns) * cell, top = Math.floor((id - 1) / this.columns) * cell;
      const shared = holders[id] > 1;
      if (shared && corner === 0) color = mix(color, colors.mark, 0.45);
      // What is filled stands at the bottom; the rest of a held block is paler.
      const full = owner[id] < 0 || side < 6 ? side : Math.max(1, Math.round(side * filled[id] / blockSize));
      const pale = full < side ? mix(color, colors.surface, 0.6) : color;
      for (let y = 0; y < side; ++y) {
        const row = (top + y) * width + left;
        pixels.fill(y < side - full ? pale : color, row, row + side);
        if (shared && y < corner) pixels.fill(colors.mark, row + side - corner + y, row + side);
      }
    }
  }

  #blockAt(event) {
    if (!this.ownership) return 0;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.cell), row = Math.floor((event.clientY - box.top) / this.cell);
    if (column < 0 || row < 0 || column >= this.columns) return 0;
    const id = row * this.columns + column + 1;
    return id <= this.ownership.total ? id : 0;
  }

  #select(id) {
    this.mark.hidden = id === 0;
    if (id === 0) return this.choose(null, null);
    this.focused = id;
    this.#placeMark();
    this.choose(id, this.mark.getBoundingClientRect());
  }

  #placeMark() {
    const left = ((this.focused - 1) % this.columns) * this.cell, top = Math.floor((this.focused - 1) / this.columns) * this.cell;
    const size = Math.max(8, this.cell + 3), shift = (size - this.cell) / 2;
    this.mark.style.left = `${left - shift}px`;
    this.mark.style.top = `${top - shift}px`;
    this.mark.style.width = this.mark.style.height = `${size}px`;
  }

  #onKey(event) {
    if (!this.ownership) return;
    if (event.key === "Escape") return this.#select(0);
    const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns,
                   PageDown: 10 * this.columns, PageUp: -10 * this.columns, Home: -Infinity, End: Infinity};
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.#select(Math.min(this.ownership.total, Math.max(1, (this.focused || 1) + step)));
  }
}
