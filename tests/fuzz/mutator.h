#pragma once

#include <string>
#include <vector>

#include "tests/support/random.h"

namespace quire::fuzz {

/// Makes new inputs from given ones: flips, cuts and repeats bytes, and inserts bytes of another input or words of a
/// list.
class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::vector<std::string> words, uint64_t seed)
      : corpus_(std::move(corpus)), words_(std::move(words)), random_(seed) {}

  /// Returns a new input of at most max_bytes.
  std::string Next(size_t max_bytes);

 private:
  void Change(std::string& input);
  size_t Place(const std::string& input) {
    return static_cast<size_t>(random_.Below(static_cast<int64_t>(input.size()) + 1));
  }
  const std::string& One(const std::vector<std::string>& of) {
    return of[static_cast<size_t>(random_.Below(static_cast<int64_t>(of.size())))];
  }

  std::vector<std::string> corpus_, words_;
  test::Random random_;
};

}  // namespace quire::fuzz
