// A picture of a pool: one cell for each block, in the order of block ids. Writes pixels directly, so that 100,000
// blocks take a few milliseconds. The pointer or the arrow keys choose a block.
import {el} from "../shared/dom.js";
import {CACHED, FREE, PINNED} from "./ownership.js";
import {FOLD, heightOf, piecesOf, usedIds} from "./rows.js";
import {mix, onThemeChange, theme} from "./block_colors.js";

const LARGEST_CELL = 22, SMALLEST_CELL = 2;  // CSS pixels, including the gap
const HEIGHT = 340, HEIGHT_OF_MANY = 520, MANY = 20000;

export class BlockMap {
  /** Calls choose(id or null, box) with the block under the pointer or focus, and the block's place on the screen. */
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

  /** Dims all blocks except those of this request; null: dims no block. */
  emphasize(request) {
    const place = request === null || !this.ownership ? -1 : this.ownership.owners.findIndex((owner) => owner.request === request);
    if (place === this.highlight) return;
    this.highlight = place;
    this.draw();
  }

  /** Chooses the largest cells that fit. Sizes are in CSS pixels. */
  #layOut() {
    const width = this.canvas.parentElement.clientWidth, total = this.ownership.total;
    const height = total > MANY ? HEIGHT_OF_MANY : HEIGHT, used = usedIds(this.ownership);
    for (let cell = LARGEST_CELL; ; cell -= cell > 6 ? 1 : 0.5) {
      this.cell = cell;
      this.columns = Math.max(1, Math.floor(width / cell));
      this.pieces = piecesOf(total, this.columns, used);
      if (cell <= SMALLEST_CELL || heightOf(this.pieces, cell, FOLD) <= height) break;
    }
    this.rows = Math.ceil(total / this.columns);
    this.folded = this.pieces.reduce((sum, {count, folded}) => sum + (folded ? count * this.columns : 0), 0);
  }

  /** Computes for each row its top, in pixels, and whether the row is inside a fold. */
  #placeRows(cell, fold) {
    this.tops = new Float64Array(this.rows);
    this.hidden = new Uint8Array(this.rows);
    let top = 0;
    for (const {first, count, folded} of this.pieces) {
      for (let row = first; row < first + count; ++row) {
        this.tops[row] = top;
        this.hidden[row] = folded ? 1 : 0;
        if (!folded) top += cell;
      }
      if (folded) top += fold;
    }
  }

  draw() {
    if (!this.ownership || this.canvas.parentElement.clientWidth === 0) return;
    this.#layOut();
    const scale = window.devicePixelRatio || 1;
    const cell = Math.max(1, Math.floor(this.cell * scale));
    const fold = Math.max(2, Math.round(FOLD * scale));
    const width = this.columns * cell, height = heightOf(this.pieces, cell, fold);
    this.scale = scale;
    this.#placeRows(cell, fold);
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.canvas.style.width = `${width / scale}px`;
    this.cell = cell / scale;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(width, height);
    this.#paint(new Uint32Array(image.data.buffer), width, cell, fold);
    context.putImageData(image, 0, 0);
    if (!this.mark.hidden) this.#placeMark();
  }

  #paint(pixels, width, cell, fold) {
    const {total, kind, owner, holders, filled, owners, blockSize} = this.ownership;
    const colors = theme();
    const ofOwners = owners.map((one) => colors.owner(one.request));
    const gap = cell >= 4 ? Math.max(1, Math.round(cell / 9)) : 0, side = cell - gap;
    const corner = side >= 6 ? Math.ceil(side / 2) : 0;  // pixels of the corner that marks shared blocks; 0 when the cell is too small
    pixels.fill(colors.surface);
    const line = Math.max(1, Math.round(fold / 5));
    for (const {first, folded} of this.pieces) {
      const top = this.tops[first] + Math.floor((fold - line) / 2);
      if (folded) pixels.fill(colors.free, top * width, (top + line) * width);
    }
    for (let id = 1; id <= total; ++id) {
      const what = kind[id];
      let color = what === FREE ? colors.free : what === CACHED ? colors.cached : what === PINNED ? colors.pinned : ofOwners[owner[id]];
      if (this.highlight >= 0 && owner[id] !== this.highlight) color = mix(color, colors.surface, what === FREE ? 0.4 : 0.72);
      const row = Math.floor((id - 1) / this.columns);
      if (this.hidden[row]) continue;
      const left = ((id - 1) % this.columns) * cell, top = this.tops[row];
      const shared = holders[id] > 1;
      if (shared && corner === 0) color = mix(color, colors.mark, 0.45);
      // The filled part of a block is drawn from the bottom. The rest of a held block is paler.
      const full = owner[id] < 0 || side < 6 ? side : Math.max(1, Math.round(side * filled[id] / blockSize));
      const pale = full < side ? mix(color, colors.surface, 0.6) : color;
      for (let y = 0; y < side; ++y) {
        const begin = (top + y) * width + left;
        pixels.fill(y < side - full ? pale : color, begin, begin + side);
        if (shared && y < corner) pixels.fill(colors.mark, begin + side - corner + y, begin + side);
      }
    }
  }

  #blockAt(event) {
    if (!this.ownership) return 0;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.cell), row = this.#rowAt((event.clientY - box.top) * this.scale);
    if (column < 0 || row < 0 || column >= this.columns) return 0;
    const id = row * this.columns + column + 1;
    return id <= this.ownership.total ? id : 0;
  }

  /** Returns the row at this height, in pixels; -1 in a fold and outside of all rows. */
  #rowAt(y) {
    let row = -1;
    for (const {first, count, folded} of this.pieces) {
      const top = this.tops[first];
      if (y < top) break;
      row = folded ? -1 : Math.min(first + count - 1, first + Math.floor((y - top) / (this.cell * this.scale)));
    }
    return row;
  }

  #select(id) {
    this.mark.hidden = id === 0;
    if (id === 0) return this.choose(null, null);
    this.focused = id;
    this.#placeMark();
    this.choose(id, this.mark.getBoundingClientRect());
  }

  #placeMark() {
    const left = ((this.focused - 1) % this.columns) * this.cell, top = this.tops[Math.floor((this.focused - 1) / this.columns)] / this.scale;
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
