// Reads the histograms that the dashboard shows from /metrics, in Prometheus's text form.

/** Returns the named histograms: {name: {bounds: [0.1, …, Infinity], counts: [in each bucket], sum, count}}. */
export function histograms(text, names) {
  const found = {};
  for (const name of names) found[name] = {bounds: [], counts: [], sum: 0, count: 0};
  for (const line of text.split("\n")) {
    const match = /^([\w:]+?)_(bucket|sum|count)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match || !(match[1] in found)) continue;
    const family = found[match[1]], value = Number(match[4]);
    if (match[2] === "bucket") {
      const bound = /le="([^"]+)"/.exec(match[3])[1];
      family.bounds.push(bound === "+Inf" ? Infinity : Number(bound));
      family.counts.push(value);
    } else {
      family[match[2]] += value;
    }
  }
  for (const family of Object.values(found)) {
    for (let i = family.counts.length - 1; i > 0; --i) family.counts[i] -= family.counts[i - 1];
  }
  return found;
}

/** Returns the sum of a counter over its labels. */
export function total(text, name) {
  let sum = 0;
  for (const line of text.split("\n")) {
    if (line.startsWith(name + "{") || line.startsWith(name + " ")) sum += Number(line.slice(line.lastIndexOf(" ") + 1));
  }
  return sum;
}

/** Returns the quantile `share`, interpolated between the bounds of its bucket; null when the histogram is empty. */
export function quantile({bounds, counts, count}, share) {
  if (count === 0) return null;
  let before = 0;
  for (let i = 0; i < counts.length; ++i) {
    if (before + counts[i] >= share * count) {
      const low = i === 0 ? 0 : bounds[i - 1];
      const high = bounds[i] === Infinity ? low : bounds[i];
      return low + (high - low) * (share * count - before) / Math.max(1, counts[i]);
    }
    before += counts[i];
  }
  return bounds.at(-2);
}
