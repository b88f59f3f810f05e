// Chooses the rows of a block map that are drawn. In a large pool with few used blocks, runs of empty rows fold into
// one thin line each, so that the picture is not much larger than its content.
import {FREE} from "./ownership.js";

const FOLDED_FROM = 1000;  // number of blocks from which on rows fold
const FEWEST = 3;          // least number of empty rows that fold
export const FOLD = 5;     // CSS pixels of the line that stands for a fold

/** Returns the ids of the blocks that are not free, ascending. */
export function usedIds({total, kind}) {
  const used = [];
  for (let id = 1; id <= total; ++id) if (kind[id] !== FREE) used.push(id);
  return used;
}

/** Returns the pieces from top to bottom: {first, count, folded}, counted in rows. The first row is never folded. */
export function piecesOf(total, columns, used) {
  const rows = Math.ceil(total / columns);
  if (total < FOLDED_FROM) return [{first: 0, count: rows, folded: false}];
  const pieces = [];
  const add = (first, count, folded) => {
    const last = pieces.at(-1);
    if (count > 0 && last && !folded && !last.folded) last.count += count;
    else if (count > 0) pieces.push({first, count, folded});
  };
  let next = 0;  // the first row that is not in a piece yet
  const upTo = (row) => {
    add(next, row - next, row - next >= FEWEST);
    add(row, 1, false);
    next = row + 1;
  };
  upTo(0);
  for (const id of used) {
    const row = Math.floor((id - 1) / columns);
    if (row >= next) upTo(row);
  }
  if (next < rows) add(next, rows - next, rows - next >= FEWEST);
  return pieces;
}

/** Returns the height of all pieces, given the heights of a row and of a fold. */
export function heightOf(pieces, row, fold) {
  return pieces.reduce((sum, {count, folded}) => sum + (folded ? fold : count * row), 0);
}
