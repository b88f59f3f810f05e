// The owners of each block, read from /admin/block_map into arrays over block ids. Ids run from 1 to total.

export const FREE = 0, CACHED = 1, HELD = 2, PINNED = 3;

/** Calls visit(id, index) for the blocks of a table, where index is the block's index in the table. */
function eachBlock(ranges, visit) {
  let index = 0;
  for (const [first, count] of ranges) {
    if (first !== 0) for (let i = 0; i < count; ++i) visit(first + i, index + i);
    index += count;
  }
}

export class Ownership {
  /** owners: [{id, request, client, tables}]; pins, cached, keptStates: as in /admin/block_map. */
  constructor({total, blockSize, owners, pins, cached, keptStates}) {
    this.total = total;
    this.blockSize = blockSize;
    this.owners = owners;
    this.pins = pins;
    this.behind = new Map();  // for each block of a kept state: the cached block to which the state belongs
    for (const kept of keptStates) eachBlock(kept.blocks, (id) => { this.behind.set(id, kept.behind); });
    this.kind = new Uint8Array(total + 1);
    this.owner = new Int32Array(total + 1).fill(-1);  // index of the block's first owner
    this.holders = new Uint16Array(total + 1);        // number of tables that name the block
    this.filled = new Uint16Array(total + 1);         // number of computed tokens in the block
    this.counts = {held: 0, shared: 0, cached: 0, pinned: 0};
    eachBlock(cached, (id) => { this.kind[id] = CACHED; });
    for (const pin of pins) eachBlock(pin.blocks, (id) => { this.kind[id] = PINNED; this.filled[id] = blockSize; });
    this.sharers = new Map();  // for each block with several owners: the owners' indices, ascending
    owners.forEach((owner, place) => this.#take(owner, place));
    this.#relate();
    for (let id = 1; id <= total; ++id) {
      if (this.holders[id] > 1) ++this.counts.shared;
      if (this.kind[id] === HELD) ++this.counts.held;
      else if (this.kind[id] === CACHED) ++this.counts.cached;
      else if (this.kind[id] === PINNED) ++this.counts.pinned;
    }
  }

  #take(owner, place) {
    owner.held = 0;
    owner.shared = new Set();  // indices of the owners that share a block with this owner
    owner.sharedBlocks = 0;
    for (const table of owner.tables) {
      eachBlock(table.blocks, (id, index) => {
        if (id > this.total) return;
        this.#hold(id, owner, place);
        const filled = Math.min(this.blockSize, Math.max(0, table.computed_tokens - index * this.blockSize));
        if (filled > this.filled[id]) this.filled[id] = filled;
      });
      eachBlock(table.state, (id) => {
        if (id > this.total) return;
        this.#hold(id, owner, place);
        this.filled[id] = this.blockSize;
      });
    }
  }

  #hold(id, owner, place) {
    if (this.owner[id] < 0) this.owner[id] = place;
    else if (this.owner[id] === place) ++owner.sharedBlocks;
    else this.#shares(id, place);
    if (this.kind[id] !== PINNED) this.kind[id] = HELD;
    ++this.holders[id];
    ++owner.held;
  }

  #shares(id, place) {
    const known = this.sharers.get(id);
    if (!known) this.sharers.set(id, [this.owner[id], place]);
    else if (known.at(-1) !== place) known.push(place);
  }

  /** Finds the requests that share blocks with each other. Blocks of a common prefix have the same sharers, which are examined once. */
  #relate() {
    const groups = new Map();
    for (const sharers of this.sharers.values()) groups.set(sharers.join(), sharers);
    for (const sharers of groups.values()) {
      for (const one of sharers) {
        for (const other of sharers) if (one !== other) this.owners[one].shared.add(other);
      }
    }
  }

  /** Describes one block for people: {title, lines}. */
  describe(id) {
    const title = `Block ${id}`;
    const lines = [], holds = (ranges) => ranges.some(([first, count]) => id >= first && id < first + count);
    let isState = this.behind.has(id);
    for (const owner of this.owners) {
      for (const table of owner.tables) {
        let index = 0;
        for (const [first, count] of table.blocks) {
          if (first !== 0 && id >= first && id < first + count) {
            const begin = (index + id - first) * this.blockSize;
            const choice = owner.tables.length > 1 ? `, choice ${table.choice}` : "";
            lines.push(`${owner.id}${choice}: tokens ${begin} to ${begin + this.blockSize - 1}`);
          }
          index += count;
        }
        if (!holds(table.state)) continue;
        isState = true;
        lines.push(`${owner.id}${owner.tables.length > 1 ? `, choice ${table.choice}` : ""}: its state`);
      }
    }
    for (const pin of this.pins) {
      if (holds(pin.blocks)) lines.push(`pin ${pin.pin} keeps it`);
    }
    if (this.behind.has(id)) lines.push(`a state that is kept behind block ${this.behind.get(id)}`);
    if (this.kind[id] === CACHED) return {title, lines: ["cached: nobody holds it, its content is kept", ...lines]};
    if (lines.length === 0) return {title, lines: ["free"]};
    const state = this.holders[id] > 1 ? `shared by ${this.holders[id]}` : this.holders[id] === 1 ? "held by one" : "pinned";
    const content = isState ? "part of a state" : `${this.filled[id]} of ${this.blockSize} tokens filled`;
    return {title: `${title}: ${state}, ${content}`, lines};
  }
}

export function deviceOwnership(map) {
  return new Ownership({total: map.total, blockSize: map.block_size, owners: map.requests, pins: map.pins, cached: map.cached, keptStates: map.kept_states});
}

export function hostOwnership(map) {
  return new Ownership({total: map.host.total, blockSize: map.block_size, owners: map.swapped_out, pins: [], cached: [], keptStates: []});
}
