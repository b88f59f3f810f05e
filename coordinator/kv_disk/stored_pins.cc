#include "coordinator/kv_disk/stored_pins.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire {

namespace {

constexpr std::string_view kEnd = ".pin";
constexpr size_t kMostBytes = 64 << 20;

/// Returns the name under which a pin is sealed: a digest of the pin's own name.
BlockHash HashOf(const std::string& name) {
  const PrefixOrigin digest = OriginOf(name, 0);
  BlockHash hash;
  std::memcpy(&hash, digest.data(), sizeof(hash));
  return hash;
}

std::optional<StoredPin> Parse(const StoredBlock& block) {
  const Json json = Json::parse(reinterpret_cast<const char*>(block.data.data()),
                                reinterpret_cast<const char*>(block.data.data()) + block.data.size(), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  StoredPin pin{.tokens = block.name.tokens};
  const auto salt = json.value("salt", std::vector<uint8_t>());
  pin.name = json.value("name", "");
  pin.salt.assign(salt.begin(), salt.end());
  pin.expires_seconds = json.value("expires", 0.0);
  pin.replica = json.value("replica", 0);
  if (pin.name.empty() || pin.replica < 0 || block.name.hash != HashOf(pin.name)) return std::nullopt;
  return pin;
}

}  // namespace

std::string StoredPins::FileOf(const std::string& name) const {
  return seal_.FileNameOf(HashOf(name), StoredKind::kPin) + std::string(kEnd);
}

std::vector<StoredPin> StoredPins::List(double now) {
  std::vector<StoredPin> pins;
  for (const std::string& file : folder_.NamesEndingWith(seal_.folder(), kEnd)) {
    const auto content = folder_.Peek(seal_.folder(), file, kMostBytes);
    if (!content) continue;
    const auto block = seal_.Unseal(file.substr(0, file.size() - kEnd.size()), *content);
    auto pin = block && block->name.kind == StoredKind::kPin ? Parse(*block) : std::nullopt;
    if (pin && pin->expires_seconds > now)
      pins.push_back(std::move(*pin));
    else
      folder_.Remove(seal_.folder(), file);
  }
  std::ranges::sort(pins, {}, &StoredPin::name);
  return pins;
}

void StoredPins::Write(const StoredPin& pin) {
  const std::string file = FileOf(pin.name);
  const std::vector<std::string> files = folder_.NamesEndingWith(seal_.folder(), kEnd);
  if (files.size() >= kMost && std::ranges::find(files, file) == files.end())
    Fail("{} pins are kept already: unpin one", files.size());
  const std::string text = Json{
      {"name", pin.name},
      {"salt", std::vector<uint8_t>(pin.salt.begin(), pin.salt.end())},
      {"expires", pin.expires_seconds},
      {"replica", pin.replica}}.dump();
  const auto bytes = std::as_bytes(std::span(text));
  folder_.Write(seal_.folder(), file,
                seal_.Seal({{HashOf(pin.name), {}, pin.tokens, StoredKind::kPin}, {bytes.begin(), bytes.end()}}));
}

void StoredPins::Remove(const std::string& name) { folder_.Remove(seal_.folder(), FileOf(name)); }

}  // namespace quire
