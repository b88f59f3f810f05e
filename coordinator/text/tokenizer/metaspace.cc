#include "coordinator/text/tokenizer/metaspace.h"

#include <charconv>

namespace quire {

std::string WriteMarks(std::string_view text, bool in_front) {
  if (text.empty()) return {};
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  if (in_front && !text.starts_with(' ') && !text.starts_with(Metaspace::kMark)) out += Metaspace::kMark;
  for (const char c : text) {
    if (c == ' ') {
      out += Metaspace::kMark;
    } else {
      out += c;
    }
  }
  return out;
}

void CutAtMarks(std::string_view text, bool every_mark, std::vector<std::string_view>& pieces) {
  size_t begin = 0;
  for (size_t at = text.find(Metaspace::kMark); at != std::string_view::npos;
       at = text.find(Metaspace::kMark, at + Metaspace::kMark.size())) {
    const bool continues = !every_mark && text.substr(begin, at - begin).ends_with(Metaspace::kMark);
    if (at == begin || continues) continue;
    pieces.push_back(text.substr(begin, at - begin));
    begin = at;
  }
  if (begin < text.size()) pieces.push_back(text.substr(begin));
}

std::string ReadMarks(std::string_view token) {
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const bool mark = token.substr(at).starts_with(Metaspace::kMark);
    out += mark ? ' ' : token[at];
    at += mark ? Metaspace::kMark.size() : 1;
  }
  return out;
}

std::optional<unsigned char> ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned char byte = 0;
  const char* end = token.data() + 5;
  const auto read = std::from_chars(token.data() + 3, end, byte, 16);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return byte;
}

}  // namespace quire
