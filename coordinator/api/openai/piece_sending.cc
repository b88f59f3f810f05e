// How long texts of answers go out: piece by piece, each of them made when the client took the one before, and charged
// while it is there.
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

constexpr auto kUntilThereIsRoom = std::chrono::milliseconds(50);  // for a piece, while too much is taken
constexpr int kMostWaits = 200;                                    // for memory, which others may wait for, too

/// Nothing when the client went meanwhile. An answer that has begun cannot be refused any more: while too much work
/// waits, so does the piece.
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
    } catch (const ApiError&) {  // too much work waits
    }
    timer.expires_after(kUntilThereIsRoom);
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_return std::nullopt;
}

}  // namespace

/// Until the text or the client is gone.
asio::awaitable<void> DataPort::WritePieces(std::shared_ptr<PiecewiseText> text, Exchange& exchange) {
  while (!text->done()) {
    co_await AwaitRoom(text->most_bytes(), exchange);
    std::optional<std::string> piece = co_await NextPiece(text, means_.pool, exchange.responder, exchange.share);
    if (!piece) co_return;  // nobody waits for it any more
    (void)exchange.HoldMade(text->made_bytes() + piece->size());
    co_await exchange.responder.Write(std::move(*piece));
  }
  (void)exchange.HoldMade(0);
}

/// Charges what a text may come to hold. While there is no room, it is not made. What does not fit for long ends the
/// answer: 503, or its connection where it has begun.
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

/// A part of a stream: what is short at once.
asio::awaitable<void> DataPort::SendText(std::shared_ptr<PiecewiseText> text, Exchange& exchange) {
  if (text->estimated_bytes() > kSmallAnswerBytes) {
    co_await WritePieces(text, exchange);
  } else {
    std::string all = text->Next(SIZE_MAX);
    co_await exchange.responder.Write(std::move(all));
  }
}

/// What stands at the beginning of a stream. Prompts that are echoed, or told as ids, for many choices are no small
/// matter.
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

/// What stands at the end of a stream.
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
