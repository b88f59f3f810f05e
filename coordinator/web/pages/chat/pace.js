// Draws long texts in short turns, so that the page reacts to its reader between the turns.

const TURN_MS = 25;

const waiting = [];  // unfinished drawings; the newest is last and goes first
let timer = null;    // timer of the next turn; null: no turn has begun
let ends = 0;        // when the turn ends, in milliseconds of performance.now()

function work() {
  const drawn = new Set();
  try {
    while (waiting.length > 0 && performance.now() < ends) {
      const drawing = waiting.at(-1);
      drawn.add(drawing);
      if (!drawing.step()) waiting.splice(waiting.indexOf(drawing), 1);
    }
  } finally {
    for (const drawing of drawn) drawing.onDrawn();
  }
}

function turn() {
  timer = waiting.length > 0 ? setTimeout(turn, 0) : null;
  ends = performance.now() + TURN_MS;
  work();
}

/** Calls drawing.step(), which does a small part of the work and returns false when no work is left, and drawing.onDrawn() after each turn.
 * The first turn begins at once, or goes on if this task of the browser has begun one. */
export function draw(drawing) {
  if (!waiting.includes(drawing)) waiting.push(drawing);
  if (timer === null) {
    timer = setTimeout(turn, 0);
    ends = performance.now() + TURN_MS;
  }
  work();
}
