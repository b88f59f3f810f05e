#include "coordinator/api/requests/responses/sealed_text.h"

#include <sodium.h>

namespace quire {

namespace {

constexpr std::string_view kSeal = "quire1.";
constexpr int kForm = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

}  // namespace

std::string SealText(std::string_view text) {
  std::string out(sodium_base64_ENCODED_LEN(text.size(), kForm), '\0');
  ::sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(), kForm);
  out.pop_back();  // the terminating zero
  return std::string(kSeal) + out;
}

std::optional<std::string> OpenText(std::string_view sealed) {
  if (!sealed.starts_with(kSeal)) return std::nullopt;
  sealed.remove_prefix(kSeal.size());
  std::string text(sealed.size(), '\0');
  size_t bytes = 0;
  const char* end = nullptr;
  const int fault = ::sodium_base642bin(reinterpret_cast<unsigned char*>(text.data()), text.size(), sealed.data(),
                                        sealed.size(), nullptr, &bytes, &end, kForm);
  if (fault != 0 || end != sealed.data() + sealed.size()) return std::nullopt;
  text.resize(bytes);
  return text;
}

}  // namespace quire
