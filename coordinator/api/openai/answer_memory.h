#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/api/openai/call_preparer.h"
#include "coordinator/api/openai/openai_response.h"

namespace quire {

// Estimates of the bytes that a call holds between its admission and the last byte of its answer.

constexpr size_t kSmallAnswerBytes = 16 << 10;            // a smaller answer is made on the I/O thread, whole
constexpr size_t kPieceBytes = 64 << 10;                  // bytes of a piece of a long answer, which is sent in pieces
constexpr int64_t kSendBytes = 3 * int64_t{kPieceBytes};  // bytes of a piece, its copy with a head, and the next piece

/// The error text for an answer that needs more memory than requests may take now.
constexpr const char* kTooLong = "the answer grew longer than the server's memory for requests allows now";

/// Returns the estimated bytes of an answer's texts, and of the text that parsers usually hold. `max_tokens`: the most
/// tokens of one choice. For a stream without beams, only the texts that the stream's last events repeat are counted.
/// The real texts may be longer.
int64_t TextBytes(const PreparedCall& prepared, int max_tokens);

/// Returns the most bytes that a call may hold besides its texts: tokens in the engine, records of log-probabilities,
/// and data that waits to be sent. `max_tokens`: the most tokens of one choice.
int64_t HeldBytes(const PreparedCall& prepared, int max_tokens);

/// Returns how many of HeldBytes() are for texts that repeat the request and have not been sent yet.
int64_t ReservedBytes(const PreparedCall& prepared);

/// Returns the bytes of the call's tools, grammar and predicted output, which the call holds until its answer is sent.
int64_t KeptBytes(const GenerateCall& call);

/// Returns the bytes of the documents of a rerank request.
int64_t DocumentBytes(const PoolingTerms& terms);

/// Returns the bytes that the choices of a finished answer hold.
int64_t RecordBytes(const std::vector<AnswerChoice>& choices);

}  // namespace quire
