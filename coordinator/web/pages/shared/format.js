// Formats numbers for people.

export function count(value) {
  return Math.round(value).toLocaleString("en-US");
}

/** Returns a number with its noun: "1 block", "2 blocks". */
export function counted(value, word) {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

export function short(value) {
  if (value >= 1e9) return (value / 1e9).toFixed(1) + " G";
  if (value >= 1e6) return (value / 1e6).toFixed(1) + " M";
  if (value >= 1e4) return (value / 1e3).toFixed(1) + " k";
  return value >= 100 || Number.isInteger(value) ? count(value) : value.toFixed(1);
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  const both = (large, small) => (small === "0 s" || small === "0 min" ? large : `${large} ${small}`);
  if (value < 3600) return both(`${Math.floor(value / 60)} min`, `${Math.floor(value % 60)} s`);
  return both(`${Math.floor(value / 3600)} h`, `${Math.floor((value % 3600) / 60)} min`);
}

export function percent(share) {
  return `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}
