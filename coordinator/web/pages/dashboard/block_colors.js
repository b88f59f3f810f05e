// Chooses the colours of blocks. The hues of successive owners are a golden angle apart, so that they look different.

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Returns the hue of a request, constant for the request's life. */
export function ownerHue(request) {
  return (request * 137.508) % 360;
}

export function ownerColor(request) {
  return dark.matches ? `hsl(${ownerHue(request)} 48% 62%)` : `hsl(${ownerHue(request)} 45% 48%)`;
}

function toPixel(r, g, b) {  // little-endian, as canvases store pixels
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}

function hslPixel(h, s, l) {
  const a = s * Math.min(l, 1 - l);
  const part = (n) => {
    const k = (n + h / 30) % 12;
    return Math.round(255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return toPixel(part(0), part(8), part(4));
}

/** Returns a mixture of two pixels. share: the second pixel's part, from 0 to 1. */
export function mix(one, other, share) {
  const part = (shift) => Math.round(((one >>> shift) & 255) * (1 - share) + ((other >>> shift) & 255) * share);
  return toPixel(part(0), part(8), part(16));
}

export function theme() {
  return dark.matches
    ? {surface: toPixel(26, 29, 33), free: toPixel(39, 43, 49), cached: toPixel(84, 94, 106), pinned: toPixel(214, 168, 74), mark: toPixel(250, 248, 242),
       owner: (request) => hslPixel(ownerHue(request), 0.48, 0.62)}
    : {surface: toPixel(255, 255, 255), free: toPixel(234, 231, 223), cached: toPixel(170, 176, 180), pinned: toPixel(201, 148, 32), mark: toPixel(255, 255, 255),
       owner: (request) => hslPixel(ownerHue(request), 0.45, 0.48)};
}

/** Returns the colour of a pixel as CSS text. */
export function css(pixel) {
  return `rgb(${pixel & 255} ${(pixel >>> 8) & 255} ${(pixel >>> 16) & 255})`;
}

export function onThemeChange(listener) {
  dark.addEventListener("change", listener);
}
