#pragma once

namespace quire {

// The classes of characters that BertNormalizer of Hugging Face's tokenizers uses, by Unicode 8.0.

/// True for characters that the normalizer removes: control, format and private characters, and U+FFFD.
bool IsRemovedByBert(char32_t character);

/// True for marks that the normalizer strips from decomposed text.
bool IsAccentOfBert(char32_t character);

/// True for ideographs that the normalizer puts between spaces.
bool IsIdeographOfBert(char32_t character);

}  // namespace quire
