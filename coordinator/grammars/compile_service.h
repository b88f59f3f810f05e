#pragma once

namespace quire {

/// The first command-line argument with which the program runs as a grammar compiler (CompileGrammars).
inline constexpr const char* kCompileGrammars = "compile-grammars";

/// The main function of the grammar compiler's process. The process's standard input is a FrameSocket. First receives a
/// Vocabulary, for a model of vocab_size tokens, and answers with a GrammarReady for ticket 0. Then answers every
/// GrammarMessage with a GrammarReady. Ends when the process at the other end closes the socket. Returns the exit
/// status.
int CompileGrammars(int vocab_size);

}  // namespace quire
