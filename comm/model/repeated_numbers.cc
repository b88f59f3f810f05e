#include "comm/model/repeated_numbers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

__extension__ using Float16 = _Float16;

constexpr size_t kPieceBytes = size_t{16} << 20;
constexpr float kSpread = 0.05f;

[[noreturn]] void FailFor(size_t bytes) {
  Fail("load_format dummy: no room for {} bytes of random numbers: {}", bytes, std::strerror(errno));
}

/// Returns the descriptor of an unnamed file that contains the piece. The caller closes it.
int MakePiece(NumberType type) {
  const int fd = ::memfd_create("quire_dummy_weights", MFD_CLOEXEC);
  if (fd < 0) FailFor(kPieceBytes);
  void* piece = MAP_FAILED;
  if (::ftruncate(fd, kPieceBytes) == 0)
    piece = ::mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (piece == MAP_FAILED) {
    ::close(fd);
    FailFor(kPieceBytes);
  }
  std::mt19937 random;  // NOLINT(cert-msc51-cpp): all ranks need the same numbers
  const auto element = static_cast<size_t>(ByteSize(type));
  for (size_t at = 0; at < kPieceBytes; at += element) {
    const float even = static_cast<float>(random() >> 8) * 0x1p-23f - 1;
    PutNumber(kSpread * even, type, static_cast<std::byte*>(piece) + at);
  }
  ::munmap(piece, kPieceBytes);
  return fd;
}

}  // namespace

void PutNumber(float x, NumberType type, std::byte* to) {
  if (type == NumberType::kF32) {
    std::memcpy(to, &x, sizeof(x));
    return;
  }
  const auto bits = type == NumberType::kF16 ? std::bit_cast<uint16_t>(static_cast<Float16>(x))
                                             : static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
  std::memcpy(to, &bits, sizeof(bits));
}

RepeatedNumbers::RepeatedNumbers(size_t bytes, NumberType type)
    : size_((bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes) {
  const int fd = MakePiece(type);
  void* whole = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool mapped = whole != MAP_FAILED;
  for (size_t at = 0; mapped && at < size_; at += kPieceBytes)
    mapped = ::mmap(static_cast<std::byte*>(whole) + at, kPieceBytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) !=
             MAP_FAILED;
  const int error = errno;
  ::close(fd);  // the mappings stay valid after this
  if (!mapped) {
    if (whole != MAP_FAILED) ::munmap(whole, size_);
    errno = error;
    FailFor(bytes);
  }
  data_ = static_cast<const std::byte*>(whole);
}

RepeatedNumbers::RepeatedNumbers(RepeatedNumbers&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

RepeatedNumbers::~RepeatedNumbers() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace quire
