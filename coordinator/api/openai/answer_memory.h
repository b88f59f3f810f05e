#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/api/openai/call_preparer.h"
#include "coordinator/api/openai/openai_response.h"

namespace quire {

// What a call holds in memory between its admission and the last byte of its answer.

constexpr size_t kSmallAnswerBytes = 16 << 10;            // made at once, without waking a thread
constexpr size_t kPieceBytes = 64 << 10;                  // of a long answer, which is sent as it is made
constexpr int64_t kSendBytes = 3 * int64_t{kPieceBytes};  // one piece, its copy with a head, and the next

/// Said of an answer that there is no room for.
constexpr const char* kTooLong = "the answer grew longer than the server's memory for requests allows now";

/// Bytes that the texts of a whole answer, or of beams, are thought to take, and what parsers usually hold of them; of
/// another stream's texts only those that its last events repeat. Texts may turn out longer.
int64_t TextBytes(const PreparedCall& prepared, int max_tokens);

/// The most that a call may come to hold, its texts excepted: tokens in the engine, records of log-probabilities, what
/// waits to be sent.
int64_t HeldBytes(const PreparedCall& prepared, int max_tokens);

/// The part of it that is for texts which wait to be sent and repeat the request.
int64_t ReservedBytes(const PreparedCall& prepared);

/// What the call keeps until its answer is sent.
int64_t KeptBytes(const GenerateCall& call);

/// Bytes of the documents that a ranking is asked for with.
int64_t DocumentBytes(const PoolingTerms& terms);

/// What the choices of a finished answer hold.
int64_t RecordBytes(const std::vector<AnswerChoice>& choices);

}  // namespace quire
