// marked turns each tab at the beginning of a line into four blanks, which breaks Makefiles that users copy from an
// answer. So between fences, a character that no text contains replaces the tab while marked reads.

const SIGN = "\ufdd0";

export function withoutTabs(text) {
  if (!text.includes("\t")) return text;
  let fence = "";
  return text.split("\n").map((line) => {
    const [, found] = line.match(/^[ \t>]*(`{3,}|~{3,})/) ?? [];
    if (fence === "") {
      fence = found ?? "";
      return line;
    }
    if (found?.startsWith(fence)) fence = "";
    return line.replaceAll("\t", SIGN);
  }).join("\n");
}

export function withTabs(text) {
  return text.replaceAll(SIGN, "\t");
}
