#include "coordinator/text/jinja/budget.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire::jinja {

namespace {

constexpr uint64_t kWorkBetweenLooks = 4096;  // units; well under a millisecond
constexpr size_t kTextOverhead = 96;  // bytes per text besides its characters: two strings and a reference count
constexpr size_t kItemBytes = 64;     // bytes per item or entry, with the container's spare capacity

}  // namespace

Budget::Budget(Limits limits)
    : limits_(std::move(limits)), deadline_(std::chrono::steady_clock::now() + limits_.max_time) {}

void Budget::Look() {
  const auto bound = static_cast<uint64_t>(limits_.max_work);
  if (work_ > bound) Fail("the template runs too long: more than {} units of work", bound);
  next_look_ = std::min(work_ + kWorkBetweenLooks, bound + 1);
  if (limits_.cancelled && limits_.cancelled()) Fail("the rendering was cancelled");
  if (std::chrono::steady_clock::now() > deadline_)
    Fail("the template runs too long: more than {} ms", limits_.max_time.count());
}

void Budget::Make(size_t bytes) {
  made_ += bytes;
  if (made_ > limits_.max_made_bytes)
    Fail("the template makes too much: more than {} bytes of values", limits_.max_made_bytes);
}

void Budget::MakeText(size_t bytes) {
  CheckText(bytes);
  Scan(bytes);
  Make(2 * bytes + kTextOverhead);  // one mark per byte
}

void Budget::MakeItems(size_t count) {
  if (count > limits_.max_list_items)
    Fail("the template makes too long a list: more than {} items", limits_.max_list_items);
  Work(1 + count);
  Make(kItemBytes * (1 + count));
}

void Budget::CheckText(size_t bytes) const {
  if (bytes > limits_.max_text_bytes)
    Fail("the template makes too long a text: more than {} bytes", limits_.max_text_bytes);
}

void Budget::CheckOutput(size_t bytes) const {
  if (bytes > limits_.max_text_bytes) Fail("the template writes too much: more than {} bytes", limits_.max_text_bytes);
}

void Budget::TooDeep() {
  // Level's constructor called this function and will throw, so its destructor does not run, and this function must
  // decrement the depth.
  --depth_;
  Fail("the template nests too deep: more than {} levels of statements, expressions, macros and values",
       limits_.max_depth);
}

}  // namespace quire::jinja
