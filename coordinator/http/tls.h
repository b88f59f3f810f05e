#pragma once

#include <chrono>
#include <memory>
#include <string>

struct ssl_st;

namespace boost::asio::ssl {
class context;
}

namespace quire {

/// A port's certificate chain and private key, from PEM files, with the rules of its TLS: version 1.2 or later, forward
/// secrecy, authenticated encryption, HTTP/1.1 only. Only the I/O thread uses this class.
class TlsCertificate {
 public:
  /// Reads the files. Throws Error that names the file when a file cannot be read, others could read the key, the key
  /// needs a passphrase or belongs to another certificate, or its signatures take too long.
  TlsCertificate(std::string certificate_file, std::string key_file);

  /// Reads both files again. Open connections use the old certificate further. Throws Error as the constructor does;
  /// the old certificate then stays in use.
  void Reload();

  /// Returns the TLS context for the next connection.
  std::shared_ptr<boost::asio::ssl::context> context() const { return context_; }
  /// Returns the I/O thread's time for one handshake with this key, measured when the key was read.
  std::chrono::nanoseconds handshake_cost() const { return handshake_cost_; }

 private:
  std::string certificate_file_, key_file_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::chrono::nanoseconds handshake_cost_{};
};

/// Bounds what a client may send on one TLS connection: counts its messages and says whether its hello may pass. Must
/// outlive the connection.
struct TlsBounds {
  int socket = -1;              // the connection's descriptor; shut down when the client sends too much
  bool may_pass_hello = false;  // true: the next hello may pass; reset when it has passed
  bool is_open = false;         // the handshake is over
  int records = 0, bytes = 0;   // received during the handshake
  int messages = 0;             // handshake messages received after the handshake
};
/// Applies the bounds to a connection of a TlsCertificate's context. Unless may_pass_hello is set, a handshake stops at
/// each whole hello of the client, before anything that costs a signature.
void BoundClient(ssl_st* connection, TlsBounds* bounds);
/// True when the handshake stopped at a hello. Calling the handshake again continues it.
bool StoppedAtHello(const ssl_st* connection);

}  // namespace quire
