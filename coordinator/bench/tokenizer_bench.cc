#include "coordinator/bench/tokenizer_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/percentile.h"
#include "comm/model/model_files.h"
#include "coordinator/text/tokenizer/detokenizer.h"

namespace quire {

namespace {

constexpr std::string_view kPage =
    "The quick brown fox jumps over the lazy dog, 1,234 times in 5.6 seconds.\n"
    "    for (int i = 0; i < count; ++i) total += values[i] * 0.5f;  // indented\n"
    "Der Fuchs fragt: \"Wären 42 Äpfel genug?\" Le garçon répond: peut-être.\n"
    "Быстрая лиса прыгает через ленивую собаку. 敏捷的棕色狐狸跳过了懒狗。\n"
    "| name | size |\n| --- | --- |\n| {\"key\": [1, 2, 3]} | https://example.org/a?b=c |\n\n";

/// Repeats the text up to about `bytes` bytes and cuts it at the end of a character.
std::string Repeated(std::string_view text, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += text;
  while (bytes > 0 && bytes < out.size() && (static_cast<unsigned char>(out[bytes]) & 0xc0) == 0x80) --bytes;
  out.resize(std::min(bytes, out.size()));
  return out;
}

template <class Work>
double Seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int RunTokenizerBench(const TokenizerBench& bench) {
  const std::string page =
      bench.text_file.empty() ? std::string(kPage) : ReadTextFile(bench.text_file, size_t{256} << 20);
  if (page.empty()) Fail("{} is empty", bench.text_file);
  std::string text = Repeated(page, static_cast<size_t>(bench.kilobytes) * 1024);
  std::optional<Tokenizer> tokenizer;
  const double load = Seconds(
      [&] { tokenizer.emplace(ReadAsSettings([&] { return TokenizerDataOf(ModelFiles::Open(bench.model)); })); });
  const auto puts_space = [](const PreTokenizerStep& step) {
    return std::holds_alternative<pre_tokenize::PrefixSpace>(step);
  };
  if (std::ranges::any_of(tokenizer->data().pre_tokenizer, puts_space) && !text.starts_with(' '))
    text.insert(0, 1, ' ');  // the tokenizer would add this space itself
  std::vector<TokenId> tokens;
  std::string decoded;
  std::vector<double> encode, decode;
  for (int i = 0; i < bench.rounds; ++i) {
    encode.push_back(Seconds([&] { tokens = tokenizer->EncodePrompt(text, false); }));
    decode.push_back(Seconds([&] {
      decoded.clear();
      for (const TokenId token : tokens) decoded += tokenizer->Bytes(token);
    }));
  }
  if (!decoded.empty()) DropFront(*tokenizer, tokenizer->Bytes(tokens[0]), decoded);
  const auto bytes = static_cast<double>(text.size()), count = static_cast<double>(tokens.size());
  const double encoding = Percentile(encode, 0.5), decoding = Percentile(decode, 0.5);
  if (bench.json) {
    fmt::print("{}\n", DumpJson({{"load_seconds", load},
                                 {"bytes", text.size()},
                                 {"tokens", tokens.size()},
                                 {"encode_bytes_per_second", bytes / encoding},
                                 {"encode_tokens_per_second", count / encoding},
                                 {"decode_tokens_per_second", count / decoding},
                                 {"same_text", decoded == text}}));
  } else {
    fmt::print("load {:.0f} ms\n", load * 1e3);
    fmt::print("encode {:.1f} MB/s, {:.2f} M tok/s ({} bytes, {:.2f} to a token)\n", bytes / encoding / 1e6,
               count / encoding / 1e6, text.size(), bytes / count);
    fmt::print("decode {:.1f} M tok/s\n", count / decoding / 1e6);
  }
  if (decoded == text) return 0;
  fmt::print(stderr, "decoding does not give the text back (the tokenizer normalises it, or it holds added tokens)\n");
  return 1;
}

}  // namespace quire
