#pragma once

#include <algorithm>
#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/base/error.h"

namespace quire {

/// Pairs one value of an enumeration with its spelling in files, flags and messages.
template <class E>
struct Choice {
  E value;
  std::string_view word;
};

/// An enumeration whose values have spellings: a function ChoicesOf(E) returns all values with their spellings, in the
/// order of help texts.
template <class E>
concept ChosenByWord = requires(E e) {
  { ChoicesOf(e)[0] } -> std::convertible_to<Choice<E>>;
};

template <ChosenByWord E>
std::string_view NameOf(E value) {
  static constexpr auto kChoices = ChoicesOf(E{});
  const auto found = std::ranges::find(kChoices, value, &Choice<E>::value);
  QUIRE_CHECK(found != kChoices.end(), "value {} of an enumeration has no word", static_cast<int>(value));
  return found->word;
}

/// Returns the value that `word` spells; nullopt when no value has this spelling.
template <ChosenByWord E>
std::optional<E> Named(std::string_view word) {
  static constexpr auto kChoices = ChoicesOf(E{});
  const auto found = std::ranges::find(kChoices, word, &Choice<E>::word);
  return found == kChoices.end() ? std::nullopt : std::optional(found->value);
}

/// Returns all spellings, for error messages.
template <ChosenByWord E>
std::vector<std::string_view> NamesOf() {
  std::vector<std::string_view> names;
  for (const auto& [value, word] : ChoicesOf(E{})) names.push_back(word);
  return names;
}

}  // namespace quire
