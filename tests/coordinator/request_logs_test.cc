#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/api/access/access_log.h"
#include "coordinator/api/access/audit_log.h"
#include "coordinator/log/line_log.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

const std::chrono::system_clock::time_point kNow{std::chrono::milliseconds(1763800000123)};

RequestRecord Generated() {
  RequestRecord record;
  record.id = "req-1";
  record.client = "alice";
  record.peer = "10.0.0.1";
  record.method = "POST";
  record.path = "/v1/completions";
  record.status = 200;
  record.bytes = 321;
  record.prompt_tokens = 5;
  record.completion_tokens = 16;
  record.queue_seconds = 0.001;
  record.first_token_seconds = 0.25;
  record.seconds = 1.5;
  return record;
}

TEST(AccessLogTest, AccessLine_DescribesARequestInOneLine) {
  EXPECT_EQ(
      AccessLine(Generated(), "data", false, kNow),
      "2025-11-22T08:26:40.123Z data client=alice peer=10.0.0.1 POST \"/v1/completions\" status=200 prompt_tokens=5 "
      "completion_tokens=16 queue=0.001000 first_token=0.250000 total=1.500000 bytes=321 id=\"req-1\"");
  const Json line = Json::parse(AccessLine(Generated(), "data", true, kNow));
  EXPECT_EQ(line, Json::parse(R"({"time": "2025-11-22T08:26:40.123Z", "port": "data", "client": "alice",
      "request_id": "req-1", "peer": "10.0.0.1", "method": "POST", "path": "/v1/completions", "status": 200,
      "prompt_tokens": 5, "completion_tokens": 16, "queue_seconds": 0.001, "first_token_seconds": 0.25,
      "total_seconds": 1.5, "bytes": 321})"));
}

TEST(AccessLogTest, AccessLine_QuotesAndCutsTextsOfClients) {
  RequestRecord record;
  record.method = "GET";
  record.path = "/a\" status=200 x=\"" + std::string(5000, 'b');
  record.id = "x\" y=\"";
  record.status = 404;
  const std::string line = AccessLine(record, "data", false, kNow);
  EXPECT_NE(line.find(R"(GET "/a\" status=200 x=\"bbb)"), std::string::npos) << line;
  EXPECT_NE(line.find(R"(id="x\" y=\"")"), std::string::npos) << line;
  EXPECT_NE(line.find("client=- peer=-"), std::string::npos) << line;
  EXPECT_LT(line.size(), 600u);
  EXPECT_EQ(Json::parse(AccessLine(record, "data", true, kNow))["queue_seconds"], Json());
}

TEST(AuditLogTest, AuditedParameters_ShowNeitherPromptsNorKeys) {
  const auto shown = [](const std::string& body) { return Json::parse(AuditedParameters(body)); };
  EXPECT_EQ(AuditedParameters(""), "{}");
  const std::string plain = R"({"request": "cmpl-1", "replica": 1})";
  EXPECT_EQ(shown(plain), Json::parse(plain));
  const Json pin = shown(R"({"prompt": "hush", "api_key": "qk-1", "cache_salt": "s", "ttl_seconds": 5})");
  EXPECT_EQ(pin["ttl_seconds"], 5);
  for (const char* name : {"prompt", "api_key", "cache_salt"}) EXPECT_EQ(pin[name], "(not shown)") << name;
  EXPECT_EQ(shown("hush"), "(no JSON)");
  EXPECT_EQ(shown("[1]"), "(no object)");
  EXPECT_EQ(shown(std::string(5000, 'x')), "(5000 bytes)");
  EXPECT_EQ(shown(DumpJson({{"request", std::string(1000, 'x')}}))["request"], "(not shown)");
}

TEST(AuditLogTest, Audit_LogsPostsOfKnownTokens_WithTheirOutcome) {
  std::vector<Json> lines;
  int passed_on = 0;
  HttpService service;
  service.answered = [&](const RequestRecord&) { ++passed_on; };
  const HttpService audited =
      Audited(std::move(service), [&](const std::string& line) { lines.push_back(Json::parse(line)); });
  RequestRecord record;
  record.client = "ops";
  record.path = "/admin/abort";
  record.parameters = R"({"all":true})";
  for (const auto& [method, status] :
       {std::pair("POST", 200), {"POST", 403}, {"POST", 500}, {"GET", 200}, {"POST", 401}}) {
    record.method = method;
    record.status = status;
    audited.answered(record);
  }
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(passed_on, 5);
  EXPECT_EQ(lines[0]["audit"], "/admin/abort");
  EXPECT_EQ(lines[0]["token"], "ops");
  EXPECT_EQ(lines[0]["parameters"], Json({{"all", true}}));
  EXPECT_EQ(lines[0]["outcome"], "done");
  EXPECT_EQ(lines[1]["outcome"], "refused");
  EXPECT_EQ(lines[2]["outcome"], "failed");
}

class RequestLineLogTest : public ::testing::Test {
 protected:
  /// Waits until the file, which another thread writes, has this many lines; returns its text.
  static std::string TextOf(const std::string& path, int lines) {
    std::string text;
    for (int i = 0; i < 3000 && std::count(text.begin(), text.end(), '\n') < lines; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      std::stringstream content;
      content << std::ifstream(path).rdbuf();
      text = content.str();
    }
    return text;
  }
  TemporaryDirectory directory_;
};

TEST_F(RequestLineLogTest, Log_ContinuesInANewFile_WhenTheOldFileWasMoved) {
  const std::string path = directory_ / "access.log";
  std::ofstream(path) << "before\n";
  LineLog log(path);
  log.Write("one %d {}");
  EXPECT_EQ(TextOf(path, 2), "before\none %d {}\n");
  std::filesystem::rename(path, path + ".1");
  log.Write("two");
  EXPECT_EQ(TextOf(path + ".1", 3), "before\none %d {}\ntwo\n");
  log.Reopen();
  log.Write("three");
  EXPECT_EQ(TextOf(path, 1), "three\n");
}

TEST_F(RequestLineLogTest, Log_Throws_WhenItsFileCannotBeOpened) {
  const std::string path = (directory_ / "no") + "/log";
  std::ofstream(directory_ / "no") << "a file";
  EXPECT_THROW(LineLog log(path), Error);
}

}  // namespace
}  // namespace quire
