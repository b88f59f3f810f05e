// marked makes four blanks of each tab at the beginning of a line, which breaks Makefiles that somebody copies out of an
// answer. Between fences a sign that no text holds stands for the tab while marked reads.

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
