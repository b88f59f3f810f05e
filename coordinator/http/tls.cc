#include "coordinator/http/tls.h"

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/secret_file.h"
#include "comm/base/thread_time.h"
#include "comm/model/formats/mapped_file.h"

namespace quire {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;

namespace {

constexpr size_t kMaxPemBytes = 1 << 20;
constexpr int kMostRsaBits = 4096;
// The processor time of a handshake without its signature. OpenSSL does two scalar multiplications on an elliptic curve
// and derives keys, and the program makes a dozen system calls.
constexpr std::chrono::microseconds kBesideSigning(300);

/// OpenSSL's ALPN callback; it chooses http/1.1. A client that offers only other protocols (h2) gets a fatal alert.
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                   unsigned int offered_size, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* out = nullptr;
  const int found = ::SSL_select_next_proto(&out, size, kOurs, sizeof(kOurs) - 1, offered, offered_size);
  *chosen = out;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/// Returns the index under which an SSL object stores its TlsBounds.
int BoundsIndex() {
  static const int index = ::SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

/// Returns the most bytes that an extension may have: somewhat more than real clients send.
size_t MostBytes(int extension) {
  switch (extension) {
    case TLSEXT_TYPE_supported_groups:
      return 128;
    case TLSEXT_TYPE_signature_algorithms:
    case TLSEXT_TYPE_signature_algorithms_cert:
      return 256;
    case TLSEXT_TYPE_certificate_authorities:  // OpenSSL stores each name, in 200 bytes, until the connection ends
    case TLSEXT_TYPE_status_request:
    case TLSEXT_TYPE_application_layer_protocol_negotiation:
      return 256;
    case TLSEXT_TYPE_key_share:
      return 8192;
    case TLSEXT_TYPE_psk:
    case TLSEXT_TYPE_session_ticket:
      return 4096;
    case TLSEXT_TYPE_padding:
      return SSL3_RT_MAX_PLAIN_LENGTH;
    default:
      return 1024;
  }
}

/// True when a list of the hello is longer than real clients send. OpenSSL compares both sides' lists in nested loops,
/// and parses the names of authorities one by one: a hello with 4,000 groups and ciphers costs OpenSSL 0.1 s. OpenSSL
/// skips extensions that it does not know, so this function does not check them.
bool HasLongLists(SSL* connection) {
  const unsigned char* list = nullptr;
  if (::SSL_client_hello_get0_ciphers(connection, &list) > 512) return true;
  int* found = nullptr;
  size_t count = 0;
  if (::SSL_client_hello_get1_extensions_present(connection, &found, &count) != 1) return true;
  const std::unique_ptr<int, void (*)(int*)> kept(found, [](int* types) { OPENSSL_free(types); });
  return std::ranges::any_of(std::span(found, count), [&](int extension) {
    size_t bytes = 0;
    return ::SSL_client_hello_get0_ext(connection, static_cast<unsigned>(extension), &list, &bytes) == 1 &&
           bytes > MostBytes(extension);
  });
}

int StopOrPass(SSL* connection, int*, void*) {
  if (HasLongLists(connection)) return SSL_CLIENT_HELLO_ERROR;
  auto* const bounds = static_cast<TlsBounds*>(::SSL_get_ex_data(connection, BoundsIndex()));
  return std::exchange(bounds->may_pass_hello, false) ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_RETRY;
}

/// Ends the connection. OpenSSL will read no further byte of the connection, not even one that has arrived.
void CutOff(SSL* connection, const TlsBounds& bounds) {
  ::SSL_set_shutdown(connection, SSL_RECEIVED_SHUTDOWN);
  ::shutdown(bounds.socket, SHUT_RDWR);
}

/// OpenSSL's message callback. Counts what the client sends: records and bytes during the handshake, and handshake
/// messages after it. Cuts off a client that sends too much. A usual handshake has about five records and 0.5 to 4 KiB;
/// a hello that must be repeated could have 128 records. After the handshake a client may update its keys (TLS 1.3).
/// Each update takes as much time as a page of data; real clients update after 2^24 records, if ever.
void CountMessages(int is_sent, int, int type, const void* content, size_t size, SSL* connection, void* argument) {
  constexpr int kMostRecords = 64, kMostBytes = 24 << 10, kMostMessages = 16;
  if (is_sent != 0) return;
  auto& bounds = *static_cast<TlsBounds*>(argument);
  const auto* const bytes = static_cast<const unsigned char*>(content);
  const bool is_head = type == SSL3_RT_HEADER && size >= SSL3_RT_HEADER_LENGTH;
  if (bounds.is_open) {
    const bool is_message = type == SSL3_RT_HANDSHAKE || (is_head && bytes[0] == SSL3_RT_HANDSHAKE);
    if (is_message && ++bounds.messages >= kMostMessages) CutOff(connection, bounds);
  } else if (is_head) {
    bounds.bytes += bytes[SSL3_RT_HEADER_LENGTH - 2] * 256 + bytes[SSL3_RT_HEADER_LENGTH - 1];
    if (++bounds.records >= kMostRecords || bounds.bytes > kMostBytes) CutOff(connection, bounds);
  }
}

void SetRules(SSL_CTX* context) {
  const bool set = ::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
                   ::SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&  // the ciphers of TLS 1.2
                   ::SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1;
  QUIRE_CHECK(set, "OpenSSL knows none of our ciphers or groups");
  ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  ::SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // saves memory while thousands of streams are open
  ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_alpn_select_cb(context, ChooseProtocol, nullptr);
  ::SSL_CTX_set_client_hello_cb(context, StopOrPass, nullptr);
}

/// Returns the processor time for one signature with the key: the shortest of three measurements.
std::chrono::nanoseconds SigningTime(EVP_PKEY* key, const std::string& key_file) {
  auto shortest = std::chrono::nanoseconds::max();
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(::EVP_MD_CTX_new(), ::EVP_MD_CTX_free);
    const std::vector<unsigned char> text(64);
    std::vector<unsigned char> signature(static_cast<size_t>(::EVP_PKEY_size(key)));
    size_t size = signature.size();
    const auto begin = ThreadTime();
    const bool has_signed = ::EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key) == 1 &&
                            ::EVP_DigestSign(context.get(), signature.data(), &size, text.data(), text.size()) == 1;
    if (!has_signed) Fail("{} holds a key that cannot sign", key_file);
    shortest = std::min(shortest, ThreadTime() - begin);
  }
  return shortest;
}

std::shared_ptr<ssl::context> Load(const std::string& certificate_file, const std::string& key_file) {
  const std::string chain = ReadTextFile(certificate_file, kMaxPemBytes);
  const Secret key = ReadGuardedFile(key_file, FileAccess::kOwnerOnly, kMaxPemBytes);
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SetRules(context->native_handle());
  boost::system::error_code error;
  bool asked = false;
  context->set_password_callback([&asked](size_t, ssl::context::password_purpose) {
    asked = true;
    return std::string();
  });
  context->use_certificate_chain(asio::buffer(chain), error);
  if (error) Fail("{} holds no certificate chain in PEM: {}", certificate_file, error.message());
  context->use_private_key(asio::buffer(key.view()), ssl::context::pem, error);
  if (asked) Fail("{} needs a passphrase; nobody is there to give it: store it without one, mode 0600", key_file);
  if (error) Fail("{} is not the private key, in PEM, of {}: {}", key_file, certificate_file, error.message());
  context->set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); });
  // An SSL_CTX stores one key pair for each type of key. So it accepts a key of another type than the certificate's,
  // and stores this key without a certificate.
  const X509* certificate = ::SSL_CTX_get0_certificate(context->native_handle());
  if (certificate == nullptr || ::SSL_CTX_check_private_key(context->native_handle()) != 1)
    Fail("{} is not the private key, in PEM, of {}: it belongs to another certificate", key_file, certificate_file);
  const EVP_PKEY* key_of = ::SSL_CTX_get0_privatekey(context->native_handle());
  if (::EVP_PKEY_base_id(key_of) == EVP_PKEY_RSA && ::EVP_PKEY_bits(key_of) > kMostRsaBits) {
    Fail("{} holds an RSA key of {} bits: handshakes would take too long; use P-256, or RSA of at most {} bits",
         key_file, ::EVP_PKEY_bits(key_of), kMostRsaBits);
  }
  if (::X509_cmp_current_time(::X509_get0_notAfter(certificate)) < 0)
    spdlog::warn("the certificate {} has expired: clients will refuse it", certificate_file);
  return context;
}

}  // namespace

void BoundClient(ssl_st* connection, TlsBounds* bounds) {
  ::SSL_set_ex_data(connection, BoundsIndex(), bounds);
  ::SSL_set_msg_callback(connection, CountMessages);
  ::SSL_set_msg_callback_arg(connection, bounds);
}

bool StoppedAtHello(const ssl_st* connection) { return ::SSL_want(connection) == SSL_CLIENT_HELLO_CB; }

TlsCertificate::TlsCertificate(std::string certificate_file, std::string key_file)
    : certificate_file_(std::move(certificate_file)), key_file_(std::move(key_file)) {
  Reload();
}

void TlsCertificate::Reload() {
  std::shared_ptr<ssl::context> context = Load(certificate_file_, key_file_);
  handshake_cost_ = kBesideSigning + SigningTime(::SSL_CTX_get0_privatekey(context->native_handle()), key_file_);
  context_ = std::move(context);
}

}  // namespace quire
