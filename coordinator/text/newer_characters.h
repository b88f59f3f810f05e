#pragma once

namespace quire {

/// A mark, or a character that a normal form changes or moves, that Unicode 9.0 did not have yet; of other characters
/// it says nothing. The normal forms of Hugging Face's tokenizers are those of 9.0, where such a character is one that
/// nobody knows: it stays, joins nothing, and is no mark.
bool IsNewerThanUnicode9(char32_t character);

/// A combining mark of Unicode 9.0.
bool WasMarkInUnicode9(char32_t character);

}  // namespace quire
