// The part of DataPort that sends long texts piece by piece. Each piece is made when the client has read the piece
// before, and is charged while it exists.
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

#include "coordinator/api/openai/answer_memory.h"
#include "coordinator/api/openai/exchange.h"
#include "coordinator/api/openai/on_pool.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr auto kUntilThereIsRoom = std::chrono::milliseconds(50);  // pause between two tries
constexpr int kMostWaits = 200;                                    // most waits of AwaitRoom for memory: 10 s in all

/// Makes the next piece on the pool. Returns nullopt when the client left meanwhile. While the pool is full, tries
/// again, because an answer that has begun cannot be refused.
asio::awaitable<std::optional<std::string>> NextPiece(std::shared_ptr<PiecewiseText> text, WorkPool& pool,
                                                      HttpResponder& responder, const std::string& share) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor);
  while (!responder.gone()) {
    std::function<std::string(const std::stop_token&)> work = [text](const std::stop_token&) {
      return text->Next(kPieceBytes);
    };
    try {
      std::optional<std::string> piece = co_await OnPool(pool, responder, share, kPieceBytes, std::move(work));
      co_return piece;
    } catch (const ApiError&) {  // the pool is full
    }
    timer.expires_after(kUntilThereIsRoom);
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_return std::nullopt;
}

}  // namespace

/// Sends the text to its end, or until the client leaves.
asio::awaitable<void> DataPort::WritePieces(std::shared_ptr<PiecewiseText> text, Exchange& exchange) {
  while (!text->done()) {
    co_await AwaitRoom(text->most_bytes(), exchange);
    std::optional<std::string> piece = co_await NextPiece(text, means_.pool, exchange.responder, exchange.share);
    if (!piece) co_return;  // the client left
    (void)exchange.HoldMade(text->made_bytes() + piece->size());
    co_await exchange.responder.Write(std::move(*piece));
  }
  (void)exchange.HoldMade(0);
}

/// Charges `bytes` bytes for a text that will be made. While the memory is full, waits. Throws ApiError 503 after
/// kMostWaits waits, or without waiting if the bytes can never fit. If the answer has begun, the error ends the
/// connection.
asio::awaitable<void> DataPort::AwaitRoom(size_t bytes, Exchange& exchange) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor);
  for (int waits = 0; !exchange.responder.gone(); ++waits) {
    const ByteBudget::Verdict verdict = exchange.HoldMade(bytes);
    if (verdict == ByteBudget::Verdict::kTaken) co_return;
    if (verdict == ByteBudget::Verdict::kNever || waits == kMostWaits) throw ApiError(503, kTooLong);
    timer.expires_after(kUntilThereIsRoom);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

/// Sends a part of a stream: a short text in one write, a long text piece by piece.
asio::awaitable<void> DataPort::SendText(std::shared_ptr<PiecewiseText> text, Exchange& exchange) {
  if (text->estimated_bytes() > kSmallAnswerBytes) {
    co_await WritePieces(text, exchange);
  } else {
    std::string all = text->Next(SIZE_MAX);
    co_await exchange.responder.Write(std::move(all));
  }
}

/// Sends the start of a stream. A large start is charged: each choice repeats the prompts that are echoed or reported
/// as ids.
asio::awaitable<void> DataPort::SendOpenings(size_t choices, Exchange& exchange) {
  const GenerateCall& call = exchange.call;
  if (exchange.form) {
    const std::shared_ptr<PiecewiseText> opening = exchange.form->Opening(exchange.usage);
    co_await SendText(opening, exchange);
    co_return;
  }
  if (!call.chat && exchange.echo.empty() && !call.return_token_ids) co_return;
  std::string opening;
  for (size_t i = 0; i < choices; ++i) {
    const size_t most = exchange.OpeningBytes(i);
    if (most > kSmallAnswerBytes) co_await AwaitRoom(opening.capacity() + most, exchange);
    opening += exchange.ChunkText(exchange.OpeningChunk(i));
    if (opening.size() < kPieceBytes) continue;
    std::string piece = std::exchange(opening, {});
    co_await exchange.responder.Write(std::move(piece));
  }
  co_await exchange.responder.Write(std::move(opening));
  (void)exchange.HoldMade(0);
}

/// Sends the end of a stream.
asio::awaitable<void> DataPort::SendEnding(Exchange& exchange) {
  if (exchange.form) {
    const std::shared_ptr<PiecewiseText> ending = exchange.form->Ending(exchange.usage);
    exchange.kept_bytes = 0;
    co_await SendText(ending, exchange);
    co_return;
  }
  std::string last;
  if (exchange.call.include_usage) last = exchange.EventText(exchange.builder.UsageChunk(exchange.usage));
  last += "data: [DONE]\n\n";
  co_await exchange.responder.Write(std::move(last));
}

}  // namespace quire
