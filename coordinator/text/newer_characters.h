#pragma once

namespace quire {

/// True for combining marks, and for characters that a normal form changes or moves, if they were added after Unicode
/// 9.0. For other characters the result has no meaning. Hugging Face's tokenizers normalise by Unicode 9.0, where such
/// characters are unassigned: they stay unchanged, do not compose and are no marks.
bool IsNewerThanUnicode9(char32_t character);

/// True for characters that are combining marks in Unicode 9.0.
bool WasMarkInUnicode9(char32_t character);

}  // namespace quire
