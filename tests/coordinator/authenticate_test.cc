#include "coordinator/api/access/authenticate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sodium.h>

#include <fstream>

#include "comm/base/error.h"
#include "comm/base/secret_file.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

HttpRequest Ask(const std::string& path, const std::string& authorization, const std::string& method = "GET") {
  HttpRequest request;
  request.method = method;
  request.path = path;
  request.peer = "10.1.1.1";
  request.headers["host"] = "localhost:8000";
  if (!authorization.empty()) request.headers["authorization"] = authorization;
  return request;
}

class AuthenticateTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_GE(::sodium_init(), 0); }
  /// Writes the text to a new key file and returns the file's path.
  std::string File(const std::string& text) {
    const std::string path = directory_ / std::to_string(++num_files_);
    CreateFile(path, text, 0600);
    return path;
  }
  static int Status(Gate& gate, HttpRequest request) {
    const auto refusal = gate.Refuse(request);
    return refusal ? refusal->status : 200;
  }

  TemporaryDirectory directory_;
  int num_files_ = 0;
  const NewApiKey alice_ = MakeApiKey("alice", "qk-"), bob_ = MakeApiKey("bob", "qk-");
};

TEST_F(AuthenticateTest, NewKeys_AreLongAndDistinct_AndTheirFileLineHidesTheKey) {
  EXPECT_EQ(alice_.key.size(), 3 + 43u);
  EXPECT_NE(alice_.key, bob_.key);
  EXPECT_EQ(alice_.line.find(alice_.key), std::string::npos);
}

TEST_F(AuthenticateTest, ApiKeys_AreFound_ThoughOnlyTheirHashIsStored) {
  const ApiKeys keys = ApiKeys::Load(File("# who may call\n\n" + alice_.line + bob_.line));
  ASSERT_NE(keys.Find(alice_.key), nullptr);
  EXPECT_EQ(keys.Find(alice_.key)->name, "alice");
  EXPECT_EQ(keys.Find(bob_.key)->name, "bob");
  const std::string hash = alice_.line.substr(6, 64);
  for (const std::string& wrong : {std::string(), alice_.key + "x", alice_.key.substr(1), std::string("alice"), hash})
    EXPECT_EQ(keys.Find(wrong), nullptr) << wrong;
}

TEST_F(AuthenticateTest, Load_NamesTheLine_WhenAKeyFileIsWrong) {
  const std::string hex = alice_.line.substr(6, 64);
  for (const std::string& bad :
       {std::string("alice"), ":" + hex, "a b:" + hex, "alice:" + hex.substr(1), "alice:" + hex + "00",
        "alice:x" + hex.substr(1), "alice:" + hex + ":", "alice:" + hex + ":write", "alice:" + hex + ":read:generate",
        "alice:" + hex + " ", "alice\x1b:" + hex}) {
    const std::string path = File("#\n" + bad + "\n");
    try {
      (void)ApiKeys::Load(path);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path + ":2: "), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(ApiKeys::Load(File("# nobody\n")), Error);
}

TEST_F(AuthenticateTest, Gate_RequiresAKey_OnAllPathsButPublicOnes) {
  Gate gate({File(alice_.line), {"/health"}, false});
  for (const char* path :
       {"/v1/models", "/", "/health/", "/healthx", "/HEALTH", "/nope", "/metrics", "/v1/../health"}) {
    for (const char* method : {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"}) {
      const bool reads = method == std::string("GET") || method == std::string("HEAD");
      EXPECT_EQ(Status(gate, Ask(path, "", method)), path == std::string("/health") && reads ? 200 : 401)
          << method << " " << path;
    }
    gate = Gate({File(alice_.line), {"/health"}, false});  // the new gate slows no address yet
  }
  EXPECT_EQ(Status(gate, Ask("/health", "")), 200);
}

TEST_F(AuthenticateTest, Gate_AcceptsBearerKeysOnly) {
  Gate gate({File(alice_.line), {}, false});
  HttpRequest request = Ask("/v1/models", "Bearer " + alice_.key);
  EXPECT_FALSE(gate.Refuse(request));
  EXPECT_EQ(request.client, "alice");
  EXPECT_EQ(Status(gate, Ask("/v1/models", "bearer " + alice_.key)), 200);
  for (const std::string& wrong :
       std::vector<std::string>{alice_.key, "Basic " + alice_.key, "Bearer", "Bearer ", "Bearer  " + alice_.key,
                                "Bearer " + alice_.key + " ", "Bearer " + bob_.key, "Bearer alice"}) {
    HttpRequest refused = Ask("/v1/models", wrong);
    const auto response = gate.Refuse(refused);
    ASSERT_TRUE(response) << wrong;
    EXPECT_EQ(response->status, 401);
    EXPECT_EQ(response->headers.at(0), (std::pair<std::string, std::string>("WWW-Authenticate", "Bearer")));
    EXPECT_EQ(response->body.find(alice_.key), std::string::npos);
    EXPECT_EQ(refused.client, "");
  }
}

TEST_F(AuthenticateTest, Gate_RefusesRequests_BeyondTheScopesOfAKey) {
  std::string reader = alice_.line, writer = bob_.line;
  reader.insert(reader.size() - 1, ":read");
  writer.insert(writer.size() - 1, ":generate");
  Gate gate({File(reader + writer), {}, false});
  EXPECT_EQ(Status(gate, Ask("/v1/models", "Bearer " + alice_.key)), 200);
  EXPECT_EQ(Status(gate, Ask("/v1/completions", "Bearer " + alice_.key, "POST")), 403);
  EXPECT_EQ(Status(gate, Ask("/v1/models", "Bearer " + bob_.key)), 403);
  EXPECT_EQ(Status(gate, Ask("/v1/completions", "Bearer " + bob_.key, "POST")), 200);
}

TEST_F(AuthenticateTest, Gate_SlowsGuessesPerAddress_ButPassesValidKeys) {
  Gate gate({File(alice_.line), {}, false});
  int unauthorized = 0, slowed = 0;
  for (int i = 0; i < 200; ++i) {
    const int status = Status(gate, Ask("/v1/models", "Bearer guess"));
    unauthorized += status == 401;
    slowed += status == 429;
  }
  EXPECT_EQ(unauthorized + slowed, 200);
  EXPECT_GE(slowed, 200 - 3 * 20);  // the loop may last longer than a second
  EXPECT_EQ(Status(gate, Ask("/v1/models", "Bearer " + alice_.key)), 200);
  HttpRequest other = Ask("/v1/models", "");
  other.peer = "10.1.1.2";
  EXPECT_EQ(Status(gate, std::move(other)), 401);
}

/// One host may own a whole /64 network of IPv6 addresses.
TEST_F(AuthenticateTest, Gate_SlowsGuessesPerNetwork_WhenAddressesAreIpv6) {
  Gate gate({File(alice_.line), {}, false});
  int slowed = 0;
  for (int i = 0; i < 200; ++i) {
    HttpRequest request = Ask("/v1/models", "Bearer guess");
    request.peer = fmt::format("2001:db8:0:1::{:x}", i + 1);
    slowed += Status(gate, std::move(request)) == 429;
  }
  EXPECT_GE(slowed, 200 - 3 * 20);
  HttpRequest other = Ask("/v1/models", "Bearer guess");
  other.peer = "2001:db8:0:2::1";
  EXPECT_EQ(Status(gate, std::move(other)), 401);
}

TEST_F(AuthenticateTest, FailureLimit_ForgetsFailuresAfterASecond_AndBoundsItsMemory) {
  FailureLimit limit(2);
  const FailureLimit::Clock::time_point now{std::chrono::hours(1)};
  EXPECT_TRUE(limit.Allow("a", now));
  EXPECT_TRUE(limit.Allow("a", now));
  EXPECT_FALSE(limit.Allow("a", now));
  EXPECT_TRUE(limit.Allow("a", now + std::chrono::seconds(1)));
  int allowed = 0;
  for (int i = 0; i < 10000; ++i) allowed += limit.Allow(std::to_string(i), now + std::chrono::seconds(2));
  EXPECT_LT(allowed, 5000);
}

TEST_F(AuthenticateTest, Reload_TakesNewKeys_ButKeepsTheOldKeysWhenTheFileIsWrong) {
  const std::string path = File(alice_.line);
  Gate gate({path, {}, false});
  const Gate nobody({"", {}, false});
  std::ofstream(path) << bob_.line;
  gate.Reload(nobody);
  EXPECT_EQ(Status(gate, Ask("/v1/models", "Bearer " + alice_.key)), 401);
  EXPECT_EQ(Status(gate, Ask("/v1/models", "Bearer " + bob_.key)), 200);
  std::ofstream(path) << alice_.line << "rubbish\n";
  EXPECT_THROW(gate.Reload(nobody), Error);
  EXPECT_EQ(Status(gate, Ask("/v1/models", "Bearer " + bob_.key)), 200);
}

TEST_F(AuthenticateTest, Gate_AnswersOnlyLocalHostsAndOrigins_WithoutKeys) {
  Gate gate({"", {"/health"}, false});
  const auto status = [&](const std::string& host, const std::string& origin) {
    HttpRequest request = Ask("/v1/models", "");
    request.headers["host"] = host;
    if (!origin.empty()) request.headers["origin"] = origin;
    return Status(gate, std::move(request));
  };
  for (const char* host :
       {"localhost", "localhost:8000", "LOCALHOST:1", "127.0.0.1:8000", "127.0.0.2", "[::1]:8000", "[::1]", ""})
    EXPECT_EQ(status(host, ""), 200) << host;
  for (const char* host : {"evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
                           "10.0.0.1", "[::2]:8000", "localhost:8000:1"})
    EXPECT_EQ(status(host, ""), 403) << host;
  EXPECT_EQ(status("localhost:8000", "http://localhost:8000"), 200);
  for (const char* origin : {"http://evil.example", "null", "http://localhost:3000", "https://localhost:8000"})
    EXPECT_EQ(status("localhost:8000", origin), 403) << origin;
  Gate open({"", {}, true});
  HttpRequest request = Ask("/v1/models", "");
  request.headers["host"] = "models.example";
  EXPECT_EQ(Status(open, std::move(request)), 200);
}

TEST_F(AuthenticateTest, Gate_DistinguishesClientsByTheirBearerText_WithoutKeys) {
  Gate gate({"", {}, false});
  HttpRequest one = Ask("/v1/models", "Bearer one"), two = Ask("/v1/models", "Bearer two"),
              none = Ask("/v1/models", "");
  EXPECT_FALSE(gate.Refuse(one));
  EXPECT_FALSE(gate.Refuse(two));
  EXPECT_FALSE(gate.Refuse(none));
  EXPECT_NE(one.client, two.client);
  EXPECT_EQ(one.client, gate.ClientOf("one"));
  EXPECT_EQ(none.client, "");
  EXPECT_EQ(one.client.find("one"), std::string::npos);
}

TEST_F(AuthenticateTest, Network_HasOneWorkShare_WithoutKeys_WhateverTokensItsClientsSend) {
  Gate gate({"", {}, false});
  const auto share = [&](const char* peer, const char* authorization) {
    HttpRequest request = Ask("/v1/models", authorization);
    request.peer = peer;
    EXPECT_FALSE(gate.Refuse(request));
    return request.share;
  };
  EXPECT_EQ(share("192.0.2.1", "Bearer one"), share("192.0.2.1", "Bearer two"));
  EXPECT_EQ(share("192.0.2.1", "Bearer one"), share("::ffff:192.0.2.1", ""));
  EXPECT_EQ(share("2001:db8::1", ""), share("2001:db8::ffff", "Bearer two"));
  EXPECT_NE(share("192.0.2.1", "Bearer one"), share("192.0.2.2", "Bearer one"));
  EXPECT_EQ(share("2001:db8::1", ""), share("2001:db8:0:1::1", "")) << "a /48 is one network";
  EXPECT_NE(share("2001:db8::1", ""), share("2001:db8:1::1", ""));
}

TEST_F(AuthenticateTest, Key_HasItsOwnWorkShare_FromEveryAddress) {
  Gate gate({File(alice_.line + bob_.line), {}, false});
  for (const char* peer : {"192.0.2.1", "192.0.2.2"}) {
    HttpRequest request = Ask("/v1/models", "Bearer " + alice_.key);
    request.peer = peer;
    EXPECT_FALSE(gate.Refuse(request));
    EXPECT_EQ(request.share, "alice");
  }
}

TEST_F(AuthenticateTest, Keys_AreRefused_WhenOneKeyOpensBothPorts) {
  const std::string path = File(alice_.line);
  Gate data({path, {}, false});
  const Gate admin({File(bob_.line), {}, false});
  EXPECT_NO_THROW(CheckKeysDiffer(data.keys(), admin.keys()));
  const Gate both({File("root" + alice_.line.substr(5)), {}, false});
  EXPECT_THROW(CheckKeysDiffer(data.keys(), both.keys()), Error);
  std::ofstream(path) << alice_.line << "carol" << bob_.line.substr(3);
  EXPECT_THROW(data.Reload(admin), Error);
  EXPECT_EQ(Status(data, Ask("/v1/models", "Bearer " + bob_.key)), 401);  // the old keys stay valid
  EXPECT_EQ(Status(data, Ask("/v1/models", "Bearer " + alice_.key)), 200);
}

TEST_F(AuthenticateTest, Refusal_NamesTheMissingScope) {
  const NewApiKey reader = MakeApiKey("watch", "qa-", "read"), other = MakeApiKey("ops", "qa-", "control");
  Gate gate({.key_file = File(reader.line + other.line), .public_paths = {}, .kind = KeyKind::kAdmin});
  const auto message = [&](const NewApiKey& key, const char* method) {
    HttpRequest request = Ask("/admin/pause", "Bearer " + key.key, method);
    const auto refusal = gate.Refuse(request);
    EXPECT_NE(request.client, "");  // the audit log needs the key's name
    return refusal ? refusal->body : "";
  };
  EXPECT_EQ(message(reader, "GET"), "");
  EXPECT_NE(message(reader, "POST").find("the key of watch lacks the scope control"), std::string::npos);
  EXPECT_EQ(message(other, "POST"), "");
  EXPECT_NE(message(other, "GET").find("the key of ops lacks the scope read"), std::string::npos);
  const std::string generate = MakeApiKey("x", "qa-", "generate").line;
  EXPECT_THROW(ApiKeys::Load(File(generate), KeyKind::kAdmin), Error);
  EXPECT_NO_THROW(ApiKeys::Load(File(generate), KeyKind::kApi));
  EXPECT_TRUE(AreScopes("read,control", KeyKind::kAdmin));
  EXPECT_FALSE(AreScopes("generate", KeyKind::kAdmin));
  EXPECT_FALSE(AreScopes("", KeyKind::kAdmin));
}

class BrowserTest : public AuthenticateTest {
 protected:
  static HttpRequest From(const std::string& origin, const std::string& method = "POST",
                          const std::string& host = "localhost:8000") {
    HttpRequest request = Ask("/v1/completions", "", method);
    request.headers["host"] = host;
    if (!origin.empty()) request.headers["origin"] = origin;
    return request;
  }
  static std::string HeaderOf(const std::vector<std::pair<std::string, std::string>>& headers, const char* name) {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return "";
  }
};

TEST_F(BrowserTest, Gate_LetsOnlyPagesOfAllowedOriginsReadAnswers) {
  Gate gate({.key_file = "", .public_paths = {}, .origins = {"https://chat.example"}});
  HttpRequest ours = From("https://chat.example"), others = From("https://evil.example"), none = From("");
  EXPECT_FALSE(gate.Refuse(ours));
  EXPECT_EQ(HeaderOf(ours.answer_headers, "Access-Control-Allow-Origin"), "https://chat.example");
  EXPECT_EQ(HeaderOf(ours.answer_headers, "Vary"), "Origin");
  EXPECT_EQ(gate.Refuse(others)->status, 403);
  EXPECT_EQ(HeaderOf(others.answer_headers, "Access-Control-Allow-Origin"), "");
  EXPECT_EQ(HeaderOf(others.answer_headers, "Vary"), "Origin");
  EXPECT_FALSE(gate.Refuse(none));
  EXPECT_EQ(HeaderOf(none.answer_headers, "Access-Control-Allow-Origin"), "");
  // The origin is allowed, but the host is not.
  HttpRequest rebound = From("https://chat.example", "POST", "evil.example");
  EXPECT_EQ(gate.Refuse(rebound)->status, 403);
}

TEST_F(BrowserTest, PreflightRequests_AreAnsweredWithoutAKey_FromAllowedOrigins) {
  Gate gate({.key_file = File(alice_.line), .public_paths = {}, .origins = {"https://chat.example"}});
  const auto ask = [&](const std::string& origin, const std::string& fields) {
    HttpRequest request = From(origin, "OPTIONS", "api.example");
    request.headers["access-control-request-method"] = "POST";
    if (!fields.empty()) request.headers["access-control-request-headers"] = fields;
    return *gate.Refuse(request);
  };
  const HttpResponse answer = ask("https://chat.example", "authorization, content-type,x-stainless-lang");
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(HeaderOf(answer.headers, "Access-Control-Allow-Methods"), "GET, POST, DELETE");
  EXPECT_EQ(HeaderOf(answer.headers, "Access-Control-Allow-Headers"), "authorization, content-type,x-stainless-lang");
  EXPECT_EQ(HeaderOf(ask("https://chat.example", "a:b").headers, "Access-Control-Allow-Headers"), "");
  EXPECT_EQ(ask("https://evil.example", "").status, 401);
  HttpRequest request = From("https://chat.example");  // the request needs a key, and the page may read the refusal
  EXPECT_EQ(gate.Refuse(request)->status, 401);
  EXPECT_EQ(HeaderOf(request.answer_headers, "Access-Control-Allow-Origin"), "https://chat.example");
}

TEST_F(BrowserTest, OriginStar_AllowsEveryOrigin) {
  Gate gate({.key_file = File(alice_.line), .public_paths = {}, .origins = {"*"}});
  HttpRequest request = From("https://any.example");
  EXPECT_EQ(gate.Refuse(request)->status, 401);
  EXPECT_EQ(HeaderOf(request.answer_headers, "Access-Control-Allow-Origin"), "https://any.example");
}

TEST_F(BrowserTest, Gate_AnswersOnlyAllowedHostsAndLocalhost_ExceptOnPublicPaths) {
  Gate open({.key_file = "", .public_paths = {"/health"}, .hosts = {"models.example"}});
  Gate keys({.key_file = File(alice_.line), .public_paths = {"/health"}, .hosts = {"models.example"}});
  for (Gate* gate : {&open, &keys}) {
    const auto status = [&](const std::string& host, const char* path = "/v1/models") {
      HttpRequest request = Ask(path, "Bearer " + alice_.key);
      request.headers["host"] = host;
      return Status(*gate, std::move(request));
    };
    for (const char* host : {"models.example", "MODELS.example:8000", "localhost:8000", "127.0.0.1"})
      EXPECT_EQ(status(host), 200) << host;
    for (const char* host : {"evil.example", "models.example.evil.example", "10.0.0.1:8000"}) {
      EXPECT_EQ(status(host), 403) << host;
      EXPECT_EQ(status(host, "/health"), 200) << host;  // health probes address the server by its IP address
    }
  }
}

}  // namespace
}  // namespace quire
