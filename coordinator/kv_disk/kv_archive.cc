#include "coordinator/kv_disk/kv_archive.h"

#include <fcntl.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "comm/base/error.h"
#include "coordinator/kv_disk/kv_folder.h"

namespace quire {

namespace {

constexpr std::string_view kArchiveMagic = "QuireKA1";
constexpr size_t kSaltBytes = crypto_pwhash_SALTBYTES, kRecordTagBytes = crypto_secretstream_xchacha20poly1305_ABYTES;
constexpr unsigned char kMore = crypto_secretstream_xchacha20poly1305_TAG_MESSAGE;
constexpr unsigned char kLast = crypto_secretstream_xchacha20poly1305_TAG_FINAL;
constexpr size_t kRecordHead = 1 + 2 * sizeof(uint32_t);
// The first record must be small, because until it is decrypted, nothing shows that the file was sealed with the key.
constexpr size_t kMostFirstBytes = 1 << 20, kMostRecordBytes = KvFolder::kMostBlockBytes;

/// The bytes of the file before the first record.
struct Beginning {
  std::array<char, 8> magic;
  uint8_t kind;
  std::array<unsigned char, kSaltBytes> salt;
  std::array<unsigned char, crypto_secretstream_xchacha20poly1305_HEADERBYTES> stream;
};
static_assert(sizeof(Beginning) == 8 + 1 + 16 + 24);

using StreamKey = std::array<unsigned char, crypto_secretstream_xchacha20poly1305_KEYBYTES>;

StreamKey KeyOf(const ArchiveKey& key, const Beginning& beginning) {
  StreamKey made;
  if (key.kind == ArchiveKey::Kind::kPassphrase) {
    if (crypto_pwhash(made.data(), made.size(), key.text.data(), key.text.size(), beginning.salt.data(),
                      crypto_pwhash_OPSLIMIT_MODERATE, crypto_pwhash_MEMLIMIT_MODERATE,
                      crypto_pwhash_ALG_ARGON2ID13) != 0)
      Fail("an archive's passphrase takes {} MiB of memory, which the system does not give",
           crypto_pwhash_MEMLIMIT_MODERATE >> 20);
    return made;
  }
  const std::string text = "archives" + std::string(beginning.salt.begin(), beginning.salt.end());
  crypto_generichash(made.data(), made.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     reinterpret_cast<const unsigned char*>(key.text.data()), key.text.size());
  return made;
}

auto* StreamOf(std::vector<unsigned char>& state) {
  return reinterpret_cast<crypto_secretstream_xchacha20poly1305_state*>(state.data());
}

std::vector<unsigned char> BytesOf(const ArchiveRecord& record) {
  const auto num_tokens = static_cast<uint32_t>(record.tokens.size());
  const size_t token_bytes = num_tokens * sizeof(TokenId);
  std::vector<unsigned char> bytes(kRecordHead + token_bytes + record.data.size());
  bytes[0] = static_cast<unsigned char>(record.kind);
  std::memcpy(bytes.data() + 1, &record.after, sizeof(record.after));
  std::memcpy(bytes.data() + 1 + sizeof(record.after), &num_tokens, sizeof(num_tokens));
  const auto tokens = std::as_bytes(std::span(record.tokens));
  std::ranges::transform(tokens, bytes.data() + kRecordHead, [](std::byte b) { return std::to_integer<uint8_t>(b); });
  std::ranges::transform(record.data, bytes.data() + kRecordHead + token_bytes,
                         [](std::byte b) { return std::to_integer<uint8_t>(b); });
  return bytes;
}

/// Decodes a record. Returns false when the bytes are no valid record.
bool Parse(std::span<const unsigned char> bytes, ArchiveRecord& record) {
  if (bytes.size() < kRecordHead || bytes[0] > static_cast<uint8_t>(ArchiveRecord::Kind::kState)) return false;
  uint32_t num_tokens;
  record.kind = static_cast<ArchiveRecord::Kind>(bytes[0]);
  std::memcpy(&record.after, bytes.data() + 1, sizeof(record.after));
  std::memcpy(&num_tokens, bytes.data() + 1 + sizeof(record.after), sizeof(num_tokens));
  const auto rest = std::as_bytes(bytes.subspan(kRecordHead));
  if (num_tokens > rest.size() / sizeof(TokenId)) return false;
  record.tokens.resize(num_tokens);
  std::memcpy(record.tokens.data(), rest.data(), num_tokens * sizeof(TokenId));
  const auto data = rest.subspan(num_tokens * sizeof(TokenId));
  record.data.assign(data.begin(), data.end());
  return true;
}

}  // namespace

KvArchiveWriter::KvArchiveWriter(const std::string& path, const ArchiveKey& key)
    : path_(path), state_(crypto_secretstream_xchacha20poly1305_statebytes()) {
  Beginning beginning{};
  std::ranges::copy(kArchiveMagic, beginning.magic.begin());
  beginning.kind = static_cast<uint8_t>(key.kind);
  randombytes_buf(beginning.salt.data(), beginning.salt.size());
  StreamKey made = KeyOf(key, beginning);
  crypto_secretstream_xchacha20poly1305_init_push(StreamOf(state_), beginning.stream.data(), made.data());
  sodium_memzero(made.data(), made.size());
  file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_.open()) Fail("{}: {}", path_, std::strerror(errno));
  Put({reinterpret_cast<const unsigned char*>(&beginning), sizeof(beginning)});
}

KvArchiveWriter::~KvArchiveWriter() {
  sodium_memzero(state_.data(), state_.size());
  if (file_.open() && !finished_) ::unlink(path_.c_str());
}

void KvArchiveWriter::Put(std::span<const unsigned char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) Fail("{}: {}", path_, std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void KvArchiveWriter::Add(const ArchiveRecord& record) {
  const std::vector<unsigned char> text = BytesOf(record);
  const auto bytes = static_cast<uint32_t>(text.size() + kRecordTagBytes);
  std::vector<unsigned char> sealed(bytes);
  crypto_secretstream_xchacha20poly1305_push(StreamOf(state_), sealed.data(), nullptr, text.data(), text.size(),
                                             nullptr, 0, record.kind == ArchiveRecord::Kind::kEnd ? kLast : kMore);
  Put({reinterpret_cast<const unsigned char*>(&bytes), sizeof(bytes)});
  Put(sealed);
}

void KvArchiveWriter::Finish() {
  Add({});
  if (::fdatasync(file_.get()) != 0) Fail("{}: {}", path_, std::strerror(errno));
  finished_ = true;
}

KvArchiveReader::KvArchiveReader(const std::string& path)
    : file_(RegularFile::Open(path, RegularFile::Links::kRefused)), beginning_(sizeof(Beginning)) {
  left_ = file_.size();
  Get(beginning_);
  Beginning beginning;
  std::memcpy(&beginning, beginning_.data(), sizeof(beginning));
  if (!std::ranges::equal(beginning.magic, kArchiveMagic) || beginning.kind < 1 || beginning.kind > 2)
    Refuse("no archive of quire cache export");
  kind_ = static_cast<ArchiveKey::Kind>(beginning.kind);
}

KvArchiveReader::~KvArchiveReader() { sodium_memzero(key_.data(), key_.size()); }

void KvArchiveReader::Unlock(const ArchiveKey& key) {
  Beginning beginning;
  std::memcpy(&beginning, beginning_.data(), sizeof(beginning));
  StreamKey made = KeyOf(key, beginning);
  key_.assign(made.begin(), made.end());
  sodium_memzero(made.data(), made.size());
}

void KvArchiveReader::Refuse(const std::string& why) const { Fail("{}: {}", file_.path(), why); }

void KvArchiveReader::Get(std::span<unsigned char> bytes) {
  const bool is_there =
      bytes.size() <= left_ && file_.Read({reinterpret_cast<char*>(bytes.data()), bytes.size()}) == bytes.size();
  if (!is_there) Refuse("is cut off");
  left_ -= bytes.size();
}

void KvArchiveReader::ReadAll(const std::function<void(ArchiveRecord)>& each) {
  QUIRE_CHECK(!key_.empty(), "{} was not unlocked", file_.path());
  if (::lseek(file_.fd(), sizeof(Beginning), SEEK_SET) < 0) Refuse(std::strerror(errno));
  left_ = file_.size() - sizeof(Beginning);
  Beginning beginning;
  std::memcpy(&beginning, beginning_.data(), sizeof(beginning));
  std::vector<unsigned char> state(crypto_secretstream_xchacha20poly1305_statebytes());
  crypto_secretstream_xchacha20poly1305_init_pull(StreamOf(state), beginning.stream.data(), key_.data());
  for (size_t number = 1;; ++number) {
    uint32_t bytes;
    Get({reinterpret_cast<unsigned char*>(&bytes), sizeof(bytes)});
    if (bytes < kRecordTagBytes + kRecordHead || bytes > left_) Refuse(fmt::format("record {} is cut off", number));
    if (const size_t most = number == 1 ? kMostFirstBytes : kMostRecordBytes; bytes > most)
      Refuse(fmt::format("record {} has {} bytes, at most {} are allowed", number, bytes, most));
    std::vector<unsigned char> sealed(bytes), text(bytes - kRecordTagBytes);
    Get(sealed);
    unsigned char tag = 0;
    ArchiveRecord record;
    if (crypto_secretstream_xchacha20poly1305_pull(StreamOf(state), text.data(), nullptr, &tag, sealed.data(),
                                                   sealed.size(), nullptr, 0) != 0)
      Refuse(number == 1 ? "was sealed with another key, or is damaged" : fmt::format("record {} is damaged", number));
    if (!Parse(text, record)) Refuse(fmt::format("record {} has no known form", number));
    const bool is_last = record.kind == ArchiveRecord::Kind::kEnd;
    if (is_last != (tag == kLast)) Refuse(fmt::format("record {} is out of place", number));
    if (is_last) break;
    each(std::move(record));
  }
  if (left_ > 0) Refuse("goes on behind its end");
}

}  // namespace quire
