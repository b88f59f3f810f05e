#include <gtest/gtest.h>

#include <map>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/traces/otel_variables.h"
#include "coordinator/traces/spans.h"
#include "coordinator/traces/trace_context.h"

namespace quire {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736", kParent = "00f067aa0ba902b7";

TEST(TraceContextTest, ParseTraceparent_ReadsValidHeaders) {
  const auto context = ParseTraceparent("00-" + kTrace + "-" + kParent + "-01");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, kTrace);
  EXPECT_EQ(context->parent_id, kParent);
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(ParseTraceparent("00-" + kTrace + "-" + kParent + "-00")->sampled);
  EXPECT_FALSE(ParseTraceparent("00-" + kTrace + "-" + kParent + "-02")->sampled) << "another flag";
  EXPECT_TRUE(ParseTraceparent("cc-" + kTrace + "-" + kParent + "-0b-later")->sampled) << "a later version";
}

TEST(TraceContextTest, ParseTraceparent_RefusesInvalidHeaders) {
  const std::string good = "00-" + kTrace + "-" + kParent + "-01";
  for (const std::string& bad :
       {std::string(), good.substr(1), good.substr(0, good.size() - 1), good + "-x", "ff" + good.substr(2),
        "0g" + good.substr(2), "00-" + std::string(32, '0') + "-" + kParent + "-01",
        "00-" + kTrace + "-" + std::string(16, '0') + "-01", "00-" + std::string(32, 'A') + "-" + kParent + "-01",
        "cc" + good.substr(2) + "x"})
    EXPECT_FALSE(ParseTraceparent(bad)) << bad;
}

struct SpansTest : testing::Test {
  std::vector<Json> Spans() {
    return SpansOf(record, std::chrono::system_clock::time_point(std::chrono::seconds(1000)), [this](int bytes) {
      return std::string(static_cast<size_t>(2 * bytes), digits[next++ % digits.size()]);
    });
  }
  static std::string Value(const Json& span, const std::string& key) {
    for (const Json& attribute : span["attributes"]) {
      if (attribute["key"] == key) return attribute["value"].begin()->dump();
    }
    return "none";
  }
  const std::string digits = "123456789";
  size_t next = 0;
  RequestRecord record{.id = "x",
                       .traceparent = "",
                       .client = "alice",
                       .peer = "10.0.0.1",
                       .method = "POST",
                       .path = "/v1/completions",
                       .status = 200,
                       .prompt_tokens = 5,
                       .completion_tokens = 7,
                       .queue_seconds = 0.5,
                       .first_token_seconds = 1.5,
                       .parameters = "",
                       .seconds = 4};
};

TEST_F(SpansTest, Spans_CoverTheRequestAndItsQueuePrefillAndDecode) {
  const std::vector<Json> spans = Spans();
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0]["name"], "POST /v1/completions");
  EXPECT_EQ(spans[0]["kind"], 2);
  EXPECT_FALSE(spans[0].contains("parentSpanId"));
  EXPECT_FALSE(spans[0].contains("status"));
  const std::vector<std::array<std::string, 3>> expected = {{"POST /v1/completions", "996000000000", "1000000000000"},
                                                            {"queue", "996000000000", "996500000000"},
                                                            {"prefill", "996500000000", "997500000000"},
                                                            {"decode", "997500000000", "1000000000000"}};
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i]["name"], expected[i][0]);
    EXPECT_EQ(spans[i]["startTimeUnixNano"], expected[i][1]);
    EXPECT_EQ(spans[i]["endTimeUnixNano"], expected[i][2]);
    EXPECT_EQ(spans[i]["traceId"], std::string(32, '1'));
    if (i > 0) {
      EXPECT_EQ(spans[i]["parentSpanId"], spans[0]["spanId"]);
    }
  }
  EXPECT_EQ(Value(spans[0], "gen_ai.usage.completion_tokens"), "\"7\"");
  EXPECT_EQ(Value(spans[0], "gen_ai.latency.time_to_first_token"), "1.5");
  EXPECT_EQ(Value(spans[0], "http.response.status_code"), "\"200\"");
}

TEST_F(SpansTest, Spans_BelongToTheClientsTrace) {
  record.traceparent = "00-" + kTrace + "-" + kParent + "-01";
  for (const Json& span : Spans()) EXPECT_EQ(span["traceId"], kTrace);
  EXPECT_EQ(Spans()[0]["parentSpanId"], kParent);
  record.traceparent.back() = '0';
  EXPECT_TRUE(Spans().empty()) << "nobody records that trace";
}

TEST_F(SpansTest, Request_HasOneSpan_WhenItGeneratedNoTokens) {
  record.queue_seconds.reset();
  record.first_token_seconds.reset();
  record.prompt_tokens = 0;
  record.status = 503;
  const std::vector<Json> spans = Spans();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0]["status"]["code"], 2);
  EXPECT_EQ(Value(spans[0], "gen_ai.usage.prompt_tokens"), "none");
}

OtelVariables ReadOtel(const std::map<std::string, std::string>& set) {
  return ReadOtelVariables([&](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? std::string() : found->second;
  });
}

TEST(OtelVariablesTest, TracesEndpoint_OverridesTheCommonEndpoint_ToWhichAPathIsAdded) {
  EXPECT_EQ(ReadOtel({}).endpoint, "");
  EXPECT_EQ(ReadOtel({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}}).endpoint, "http://c:4318/v1/traces");
  EXPECT_EQ(ReadOtel({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/a/"}}).endpoint, "http://c:4318/a/v1/traces");
  EXPECT_EQ(ReadOtel({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"},
                      {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:4318/mine"}})
                .endpoint,
            "http://t:4318/mine");
}

TEST(OtelVariablesTest, Tracing_IsDisabled_BySdkDisabledOrByExporterNone) {
  EXPECT_FALSE(ReadOtel({{"OTEL_SDK_DISABLED", "false"}, {"OTEL_TRACES_EXPORTER", "otlp"}}).disabled);
  EXPECT_TRUE(ReadOtel({{"OTEL_SDK_DISABLED", "True"}}).disabled);
  EXPECT_TRUE(ReadOtel({{"OTEL_TRACES_EXPORTER", "none"}}).disabled);
}

TEST(OtelVariablesTest, Headers_AreDecoded_AndTracesHeadersReplaceCommonHeaders) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const std::string common = "Authorization=Bearer%20a%3Db%2c, x-scope = 7 ,";
  EXPECT_EQ(ReadOtel({{"OTEL_EXPORTER_OTLP_HEADERS", common}}).headers,
            (Pairs{{"authorization", "Bearer a=b,"}, {"x-scope", "7"}}));
  EXPECT_EQ(ReadOtel({{"OTEL_EXPORTER_OTLP_HEADERS", common}, {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "k=v=w"}}).headers,
            (Pairs{{"k", "v=w"}}));
}

TEST(OtelVariablesTest, ServiceName_ComesFromItsOwnVariable_WhenResourceAttributesNameOneToo) {
  const std::map<std::string, std::string> set = {
      {"OTEL_RESOURCE_ATTRIBUTES", "service.name=a,deployment.environment=test%21"}};
  using Attributes = std::map<std::string, std::string>;
  EXPECT_EQ(ReadOtel(set).resource, (Attributes{{"deployment.environment", "test!"}, {"service.name", "a"}}));
  std::map<std::string, std::string> named = set;
  named["OTEL_SERVICE_NAME"] = "b, c";
  EXPECT_EQ(ReadOtel(named).resource.at("service.name"), "b, c");
}

TEST(OtelVariablesTest, Errors_NameTheVariable_NotItsText) {
  for (const char* bad : {"secret", "=secret", "a=secret%0d%0aHost: b", "a=%4", "a=%zz", "a b=secret", "a:b=secret",
                          "Host=secret", "content-length=secret", "a=secret%00"}) {
    try {
      ReadOtel({{"OTEL_EXPORTER_OTLP_HEADERS", bad}});
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_TRUE(said.starts_with("OTEL_EXPORTER_OTLP_HEADERS: ")) << bad << ": " << said;
      EXPECT_EQ(said.find("secret"), std::string::npos) << said;
    }
  }
  const std::map<std::string, std::string> grpc = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"},
                                                   {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}};
  EXPECT_THROW(ReadOtel(grpc), Error);
}

}  // namespace
}  // namespace quire
