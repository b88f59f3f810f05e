#include "coordinator/text/tokenizer/normalizer.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "comm/base/error.h"
#include "coordinator/text/characters.h"
#include "coordinator/text/newer_characters.h"
#include "coordinator/text/tokenizer/bert_characters.h"
#include "coordinator/text/tokenizer/charsmap.h"
#include "coordinator/text/tokenizer/growing_text.h"
#include "coordinator/text/tokenizer/metaspace.h"
#include "coordinator/text/tokenizer/sentencepiece_normalizer.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

// The largest factor by which normalisation may lengthen a text. One character ("ﷺ") becomes eleven times as long, a
// space three times.
constexpr size_t kMaxGrowth = 16;
constexpr size_t kMaxContentBytes = 1024;  // length of an inserted text, and of a text to be replaced
constexpr size_t kMaxNormalizers = 32;
// Composition shortens valid UTF-8 at most to a third.
constexpr size_t kComposing = 3;

template <class... Kinds>
struct Overloaded : Kinds... {
  using Kinds::operator()...;
};

template <class Each>
std::string EachCharacter(std::string_view text, size_t max_bytes, const Each& each) {
  std::string out;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    each(step.character, out);
    if (out.size() > max_bytes) FailTooLong();
    text.remove_prefix(step.length);
  }
  return out;
}

std::string_view Trimmed(std::string_view text, const normalize::Trim& step) {
  while (step.left && !text.empty() && IsSpace(CharacterAt(text, 0))) text.remove_prefix(NextUtf8(text).length);
  while (step.right && !text.empty() && IsSpace(CharacterAt(text, PreviousCharacter(text, text.size()))))
    text.remove_suffix(text.size() - PreviousCharacter(text, text.size()));
  return text;
}

/// Appends the character by SentencePiece's "nmt" rules: control characters are dropped, and whitespace becomes a
/// space.
void CleanControl(char32_t c, std::string& out) {
  const auto among = [&](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (among(0x01, 0x08) || c == 0x0b || among(0x0e, 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return;
  const bool blank = c == 0x09 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 || among(0x200b, 0x200f) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  AppendUtf8(blank ? U' ' : c, out);
}

void StripMark(char32_t c, std::string& out) {
  if (!WasMarkInUnicode9(c)) AppendUtf8(c, out);
}

void CleanForBert(char32_t c, std::string& out) {
  if (IsRemovedByBert(c)) return;
  AppendUtf8(IsSpace(c) ? U' ' : c, out);
}

void SetIdeographApart(char32_t c, std::string& out) {
  const bool apart = IsIdeographOfBert(c);
  if (apart) out += ' ';
  AppendUtf8(c, out);
  if (apart) out += ' ';
}

void StripAccentOfBert(char32_t c, std::string& out) {
  if (!IsAccentOfBert(c)) AppendUtf8(c, out);
}

std::string ReplaceText(std::string_view text, const normalize::Replace& step, size_t max_bytes) {
  GrowingText out(max_bytes);
  // memmem is linear in the text, while std::string_view's search compares at every position.
  while (const void* place = ::memmem(text.data(), text.size(), step.pattern.data(), step.pattern.size())) {
    const auto found = static_cast<size_t>(static_cast<const char*>(place) - text.data());
    out.Append(text.substr(0, found));
    out.Append(step.content);
    text.remove_prefix(found + step.pattern.size());
  }
  out.Append(text);
  return out.Take();
}

std::string ReplaceMatches(std::string_view text, const Splitter& pattern, std::string_view content, size_t max_bytes,
                           SplitBudget& budget) {
  std::vector<Splitter::Match> matches;
  pattern.Find(text, matches, budget);
  GrowingText out(max_bytes);
  size_t done = 0;
  for (const Splitter::Match& match : matches) {
    out.Append(text.substr(done, match.begin - done));
    out.Append(content);
    done = match.end;
  }
  out.Append(text.substr(done));
  return out.Take();
}

/// Applies the charsmap to each grapheme. If a grapheme of fewer than 6 bytes begins with an entry, the entry's
/// replacement replaces the whole grapheme, also the bytes after the entry. In other graphemes each character is looked
/// up and replaced separately.
std::string ByGraphemes(std::string_view text, const Charsmap& charsmap, size_t max_bytes) {
  constexpr size_t kShort = 6;
  GrowingText out(max_bytes);
  while (!text.empty()) {
    std::string_view grapheme = text.substr(0, FirstGrapheme(text));
    text.remove_prefix(grapheme.size());
    const Charsmap::Match whole = grapheme.size() < kShort ? charsmap.Shortest(grapheme) : Charsmap::Match();
    if (whole.length > 0) {
      out.Append(whole.text);
      continue;
    }
    while (!grapheme.empty()) {
      const std::string_view character = grapheme.substr(0, NextUtf8(grapheme).length);
      const Charsmap::Match match = charsmap.Shortest(character);
      out.Append(match.length > 0 ? match.text : character);
      grapheme.remove_prefix(character.size());
    }
  }
  return out.Take();
}

void CheckContent(std::string_view text) {
  if (text.size() > kMaxContentBytes)
    Fail("tokenizer: a normalizer puts in {} bytes, at most {} are allowed", text.size(), kMaxContentBytes);
}

}  // namespace

void Normalizer::Add(const normalize::Replace& step) {
  CheckContent(step.content);
  if (step.pattern.empty()) Fail("tokenizer: a normalizer replaces an empty text");
  if (!step.is_regex && step.pattern.size() > kMaxContentBytes)
    Fail("tokenizer: a normalizer replaces a text of {} bytes, at most {} are allowed", step.pattern.size(),
         kMaxContentBytes);
  const bool to_marks = !step.is_regex && step.pattern == " " && step.content == Metaspace::kMark;
  if (!to_marks) shrinking_ = 0;
  if (!step.is_regex) {
    work_.emplace_back(
        [step](std::string_view text, size_t max_bytes, SplitBudget&) { return ReplaceText(text, step, max_bytes); });
    return;
  }
  std::shared_ptr<const Splitter> pattern;
  try {
    pattern = std::make_shared<const Splitter>(step.pattern);
  } catch (const Error& error) {
    Fail("tokenizer: a normalizer's pattern \"{}\": {}", ValidUtf8(step.pattern.substr(0, 60)), error.what());
  }
  is_linear_ = is_linear_ && pattern->is_linear();
  work_.emplace_back([step, pattern](std::string_view text, size_t max_bytes, SplitBudget& budget) {
    return ReplaceMatches(text, *pattern, step.content, max_bytes, budget);
  });
}

void Normalizer::AddByCharacter(void (*append)(char32_t character, std::string& out)) {
  shrinking_ = 0;
  work_.emplace_back([append](std::string_view text, size_t max_bytes, SplitBudget&) {
    return EachCharacter(text, max_bytes, append);
  });
}

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  if (steps.size() > kMaxNormalizers)
    Fail("tokenizer: {} normalizers, at most {} are allowed", steps.size(), kMaxNormalizers);
  for (const NormalizerStep& step : steps) {
    std::visit(
        Overloaded{
            [&](UnicodeForm form) {
              shrinking_ *= form == UnicodeForm::kNfc ? kComposing : 0;
              work_.emplace_back([form](std::string_view text, size_t, SplitBudget&) { return ToForm(text, form); });
            },
            [&](const normalize::Lowercase&) { AddByCharacter(AppendLower); },
            [&](const normalize::StripMarks&) { AddByCharacter(StripMark); },
            [&](const normalize::CleanControls&) { AddByCharacter(CleanControl); },
            [&](const normalize::BertClean&) { AddByCharacter(CleanForBert); },
            [&](const normalize::BertIdeographs&) { AddByCharacter(SetIdeographApart); },
            [&](const normalize::BertStrip&) { AddByCharacter(StripAccentOfBert); },
            [&](const normalize::Trim& trim) {
              shrinking_ = 0;
              work_.emplace_back(
                  [trim](std::string_view text, size_t, SplitBudget&) { return std::string(Trimmed(text, trim)); });
            },
            [&](const normalize::Prepend& prepend) {
              CheckContent(prepend.text);
              work_.emplace_back([prepend](std::string_view text, size_t, SplitBudget&) {
                return text.empty() ? std::string() : std::string(prepend.text).append(text);
              });
            },
            [&](const normalize::Replace& replace) { Add(replace); },
            [&](const normalize::Precompiled& precompiled) {
              shrinking_ = 0;
              auto charsmap = std::make_shared<const Charsmap>(precompiled.charsmap);
              work_.emplace_back([charsmap](std::string_view text, size_t max_bytes, SplitBudget&) {
                return ByGraphemes(text, *charsmap, max_bytes);
              });
            },
            [&](const normalize::SentencePiece& whole) {
              if (!whole.charsmap.empty() || whole.remove_extra_whitespaces) shrinking_ = 0;
              auto rules = std::make_shared<const SentencePieceNormalizer>(whole);
              work_.emplace_back([rules](std::string_view text, size_t max_bytes, SplitBudget&) {
                return rules->Apply(text, max_bytes);
              });
            },
        },
        step);
  }
}

size_t Normalizer::RoomFor(size_t bytes) { return kMaxGrowth * bytes + (64 << 10); }

std::string_view Normalizer::Apply(std::string_view text, std::string& storage, SplitBudget& budget,
                                   size_t room) const {
  const size_t max_bytes = std::min(room, RoomFor(text.size()));
  for (const Work& work : work_) {
    budget.Check(text.size());
    storage = work(text, max_bytes, budget);
    if (storage.size() > max_bytes) FailTooLong();
    text = storage;
  }
  return text;
}

}  // namespace quire
