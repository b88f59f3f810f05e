#pragma once

namespace quire {

/// The word after the program's name that makes it a compiler of grammars.
inline constexpr const char* kCompileGrammars = "compile-grammars";

/// The life of that process: its standard input is a FrameSocket. A Vocabulary comes first, whose model has vocab_size
/// tokens, and is answered with GrammarReady 0; then every GrammarMessage is answered with GrammarReady. Ends when the
/// other side does. Returns the exit status.
int CompileGrammars(int vocab_size);

}  // namespace quire
