#pragma once

#include <algorithm>
#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/base/error.h"

namespace quire {

/// One value of an enumeration and the word that files, flags and messages have for it.
template <class E>
struct Choice {
  E value;
  std::string_view word;
};

/// An enumeration with words: ChoicesOf(E) lists all of its values, in the order in which people are told them.
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

/// Nothing: there is no such word.
template <ChosenByWord E>
std::optional<E> Named(std::string_view word) {
  static constexpr auto kChoices = ChoicesOf(E{});
  const auto found = std::ranges::find(kChoices, word, &Choice<E>::word);
  return found == kChoices.end() ? std::nullopt : std::optional(found->value);
}

/// All words, for error messages.
template <ChosenByWord E>
std::vector<std::string_view> NamesOf() {
  std::vector<std::string_view> names;
  for (const auto& [value, word] : ChoicesOf(E{})) names.push_back(word);
  return names;
}

}  // namespace quire
