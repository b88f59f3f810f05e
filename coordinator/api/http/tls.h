#pragma once

#include <chrono>
#include <memory>
#include <string>

struct ssl_st;

namespace boost::asio::ssl {
class context;
}

namespace quire {

/// A port's certificate chain and private key, from PEM files, and how TLS is spoken with them: 1.2 or later, forward
/// secrecy, authenticated encryption, HTTP/1.1. Belongs to the I/O thread.
class TlsCertificate {
 public:
  /// Throws Error that names the file: one that cannot be read, a key that others could read or that needs a
  /// passphrase, a key of another certificate, one whose signatures take too long.
  TlsCertificate(std::string certificate_file, std::string key_file);

  /// Takes what the files hold now; connections that are open go on with what they had. Throws Error and changes
  /// nothing when they are not as they must be.
  void Reload();

  /// For the next connection.
  std::shared_ptr<boost::asio::ssl::context> context() const { return context_; }
  /// What a handshake takes of the I/O thread with this key, measured when it was read.
  std::chrono::nanoseconds handshake_cost() const { return handshake_cost_; }

 private:
  std::string certificate_file_, key_file_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::chrono::nanoseconds handshake_cost_{};
};

/// What a client may make a connection do beside moving its bytes, and has made it do. It must outlive the connection.
struct TlsBounds {
  int socket = -1;              // shut down when the client says too much, or cuts it into too many records
  bool may_pass_hello = false;  // taken back when one hello has passed
  bool is_open = false;         // the handshake is over
  int records = 0, bytes = 0;   // that came of the handshake
  int messages = 0;             // of handshakes, that came after it
};
/// Holds a connection with a TlsCertificate's context to its bounds. A handshake ends at each hello of the client, as
/// soon as that is there as a whole and before anything that costs a signature, unless it may pass.
void BoundClient(ssl_st* connection, TlsBounds* bounds);
/// Whether the handshake ended there: begun again, it goes on.
bool StoppedAtHello(const ssl_st* connection);

}  // namespace quire
