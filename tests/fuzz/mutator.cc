#include "tests/fuzz/mutator.h"

#include <algorithm>

namespace quire::fuzz {

namespace {
constexpr unsigned char kOddBytes[] = {0x00, 0x01, 0x7f, 0x80, 0xff, ' ', '\n', '"', '{', '[', '0', '9', '-'};
}  // namespace

std::string Mutator::Next(size_t max_bytes) {
  std::string input = corpus_.empty() ? "" : One(corpus_);
  for (int64_t count = random_.Between(1, 6); count > 0; --count) Change(input);
  if (input.size() > max_bytes) input.resize(max_bytes);
  return input;
}

void Mutator::Change(std::string& input) {
  const size_t at = Place(input);
  const auto length = static_cast<size_t>(random_.Between(1, 16));
  switch (random_.Below(8)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ 1 << random_.Below(8));
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(kOddBytes[random_.Below(std::size(kOddBytes))]);
      break;
    case 2:
      if (at < input.size()) input[at] = static_cast<char>(input[at] + random_.Between(-4, 4));
      break;
    case 3:
      input.erase(std::min(at, input.size()), length);
      break;
    case 4:
      input.insert(at, input.substr(Place(input), length));
      break;
    case 5:
      input.insert(at, 1, static_cast<char>(random_.Below(256)));
      break;
    case 6:
      if (!words_.empty()) input.insert(at, One(words_));
      break;
    default:
      if (!corpus_.empty()) {
        const std::string& other = One(corpus_);
        input = input.substr(0, at) + other.substr(Place(other));
      }
  }
}

}  // namespace quire::fuzz
