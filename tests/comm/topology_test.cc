#include "comm/topology/topology.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <set>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

std::string ErrorOf(const std::string& yaml) {
  return ErrorThrownBy([&] { ValidateTopology(TopologyFromYaml(yaml, "t.yaml"), "t.yaml"); });
}

TEST(TopologyTest, TopologyFromYaml_ReadsEveryKey) {
  const Topology t = TopologyFromYaml(R"(
model: {path: /m, name: x}
backend: cpu
parallel: {tensor: 4, pipeline: 2, stages: [9, 8], replicas: 2, shares: [3, 3, 2, 2.5], experts: true}
nodes:
  - {host: node-a, devices: [0, 1], interface: eth0}
  - {host: 10.0.0.2, slots: 3, spare: true}
cache: {block_size: 32, dtype: fp8, memory: 0.5, memory_bytes: 1GiB, num_blocks: 9, host_swap: 8GiB,
   prefix_caching: false, watermark: 0.02}
scheduler: {max_running: 8, max_step_tokens: 64, max_model_len: 100, preemption: recompute, plan_ahead: false,
   target_inter_token_ms: 40}
server:
  listen: "127.0.0.1:9000"
  api_keys: keys/api.keys
  allow_unauthenticated: true
  tls: {certificate: c.pem, key: k.pem}
  allowed_origins: ["https://a.example", "*"]
  allowed_hosts: [b.example]
  chat_page: false
  limits: {head_seconds: 1, body_seconds: 2, idle_seconds: 3, write_seconds: 4, connections: 5,
     connections_per_address: 6,
           memory_bytes: 70MiB, queue_seconds: 8, request_seconds: 9, memory_bytes_per_client: 40MiB,
           body_bytes_per_second: 10, write_bytes_per_second: 11, drain_seconds: 12}
  key_limits: {default: {max_running_seqs: 1, max_queued_reqs: 0},
     a.b@c: {tokens_per_minute: 2147483647, max_blocks: 7}}
admin: {listen: "[::1]:9001", token: t, tls: {certificate: c2.pem, key: k2.pem}}
logs: {access: json, access_file: a.log, audit_file: b.log}
metrics: {listen: "10.0.0.1:9100"}
transport: {bind: 10.0.0.1, ports: [5570, 5571], keys: keys/, mpi_ports: [47000, 47031], insecure: true,
   private_network: on}
launch: {method: external, agent: rsh, worker: /opt/quire-worker, args: [-x, A]}
threads_per_worker: 3
)",
                                      "t.yaml");
  EXPECT_EQ(t.parallel.shares, (std::vector<double>{3, 3, 2, 2.5}));
  EXPECT_EQ(t.parallel.stages, (std::vector{9, 8}));
  EXPECT_EQ(t.parallel.num_ranks(), 8);
  EXPECT_TRUE(t.compute.expert_parallel);
  EXPECT_EQ(t.scheduler.target_inter_token_ms, 40);
  EXPECT_FALSE(t.scheduler.auto_step_tokens);
  EXPECT_EQ(t.nodes[0].devices, (std::vector<int>{0, 1}));
  EXPECT_EQ(t.nodes[1].slots, 3);
  EXPECT_TRUE(t.nodes[1].spare && !t.nodes[0].spare);
  EXPECT_EQ(t.transport.mpi_ports, (std::vector<int>{47000, 47031}));
  EXPECT_TRUE(t.transport.insecure);
  EXPECT_EQ(t.launch.worker, "/opt/quire-worker");
  EXPECT_EQ(t.cache.host_swap_bytes, int64_t{8} << 30);
  EXPECT_FALSE(t.cache.prefix_caching);
  EXPECT_EQ(t.scheduler.preemption, PreemptionMode::kRecompute);
  EXPECT_FALSE(t.scheduler.plan_ahead);
  EXPECT_EQ(t.admin.listen, "[::1]:9001");
  EXPECT_EQ(t.launch.args, (std::vector<std::string>{"-x", "A"}));
  EXPECT_EQ(t.threads_per_worker, 3);
  EXPECT_EQ(t.server.key_file, "keys/api.keys");
  EXPECT_EQ(t.transport.keys, "keys/");
  EXPECT_TRUE(t.server.allow_unauthenticated && t.transport.insecure);
  EXPECT_EQ(t.transport.private_network, PrivateNetworkMode::kOn);
  EXPECT_EQ(t.logs.access, AccessLog::kJson);
  EXPECT_FALSE(t.server.chat_page);
  const std::vector<std::string> doors = {t.server.certificate,
                                          t.server.key,
                                          t.admin.certificate,
                                          t.admin.key,
                                          t.server.allowed_origins.at(0),
                                          t.server.allowed_origins.at(1),
                                          t.server.allowed_hosts.at(0),
                                          t.logs.access_file,
                                          t.logs.audit_file,
                                          t.metrics.listen};
  EXPECT_EQ(doors, (std::vector<std::string>{"c.pem", "k.pem", "c2.pem", "k2.pem", "https://a.example", "*",
                                             "b.example", "a.log", "b.log", "10.0.0.1:9100"}));
  const Topology::Limits& limits = t.limits;
  EXPECT_EQ((std::vector<int64_t>{limits.head_seconds, limits.body_seconds, limits.idle_seconds, limits.write_seconds,
                                  limits.connections, limits.connections_per_address, limits.memory_bytes,
                                  limits.queue_seconds, limits.request_seconds, limits.memory_bytes_per_client,
                                  limits.body_bytes_per_second, limits.write_bytes_per_second, limits.drain_seconds}),
            (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 70 << 20, 8, 9, 40 << 20, 10, 11, 12}));
  const auto of_key = [&](const char* name) {
    const Topology::KeyLimits& key = t.key_limits.at(name);
    return std::vector<int64_t>{key.max_running_seqs, key.max_queued_reqs, key.tokens_per_minute, key.max_blocks};
  };
  EXPECT_EQ(of_key("default"), (std::vector<int64_t>{1, 0, 0, 0}));
  EXPECT_EQ(of_key("a.b@c"), (std::vector<int64_t>{0, -1, INT32_MAX, 7}));
}

TEST(TopologyTest, Errors_NameFileLineAndReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "t.yaml:1: the file is empty"},
      {"model: {path: /m}\nmodle: 1\n", "t.yaml:2: unknown key \"modle\""},
      {"model: {path: /m}\nmodel: {path: /n}\n", "t.yaml:2: key \"model\" is given twice"},
      {"model: {path: /m, path: /n}\n", "t.yaml:1: key \"path\" is given twice"},
      {"model: &a {path: /m}\n", "t.yaml:1: anchors are not allowed"},
      {"model: {path: /m}\nnodes: *a\n", "t.yaml:2:"},
      {"model: !!map {path: /m}\n", "t.yaml:1: tags are not allowed"},
      {"model: {path: /m}\n---\nmodel: {path: /m}\n", "a second document"},
      {"model: {path: /m}\nparallel: {tensor: 010}\n", "tensor must be an integer"},
      {"model: {path: /m}\nparallel: {tensor: 1.5}\n", "tensor must be an integer"},
      {"model: {path: /m}\nparallel: {tensor: 0}\n", "from 1 to 1024"},
      {"model: {path: /m}\nparallel: {tensor: 99999999999999999999}\n", "tensor must be an integer"},
      {"model: {path: /m}\nparallel: {tensor: [1]}\n", "single value"},
      {"model: {path: /m}\nparallel: {tensor: 2, shares: [1, -1]}\n", "numbers from 1e-6 to 1e6"},
      {"model: {path: /m}\nparallel: {tensor: 2, shares: [1, nan]}\n", "numbers from 1e-6 to 1e6"},
      {"model: {path: /m}\nparallel: {tensor: 2, shares: [1, 1e308]}\n", "numbers from 1e-6 to 1e6"},
      {"model: {path: /m}\nparallel: {tensor: 2, shares: [1, 5e-324]}\n", "numbers from 1e-6 to 1e6"},
      {"model: {path: /m}\nparallel: {tensor: 2, shares: [1]}\n", "1 shares for tensor parallel size 2"},
      {"model: {path: /m}\nparallel: {pipeline: 0}\n", "from 1 to 1024"},
      {"model: {path: /m}\nparallel: {pipeline: 2, stages: [3]}\n", "lists 1 stages for pipeline parallel size 2"},
      {"model: {path: /m}\nparallel: {stages: [3, 4]}\n", "lists 2 stages for pipeline parallel size 1"},
      {"model: {path: /m}\nparallel: {pipeline: 2, stages: [3, 0]}\n", "stages must be an integer from 1"},
      {"model: {path: /m}\nparallel: {tensor: 33, pipeline: 32}\n", "is more than 1024 workers; use replicas"},
      {"model: {path: /m}\nbackend: rocm\n", "must be one of auto, cpu, cuda"},
      {"model: {path: /m}\ncache: {dtype: int4}\n", "must be one of auto, fp8, float32, float16, int8"},
      {"model: /m\n", "model: expected a mapping"},
      {"[1, 2]\n", "expected a mapping"},
      {"model: {path: /m}\nnodes: [{host: -oProxyCommand=x}]\n", "host must be a host name"},
      {"model: {path: /m}\nnodes: [{host: \"a;id\"}]\n", "host must be a host name"},
      {"model: {path: /m}\nnodes: [{host: \"$(id)\"}]\n", "host must be a host name"},
      {"model: {path: /m}\ncache: {host_swap: 8 apples}\n", "a size such as 8GiB"},
      {"model: {path: /m}\ncache: {memory: 1.5}\n", "from 0 to 1"},
      {"model: {path: /m}\ncache: {prefix_caching: yes}\n", "true or false"},
      {"model: {path: /m}\nserver: {listen: nowhere}\n", "must be ADDRESS:PORT"},
      {"model: {path: /m}\nserver: {listen: \"127.0.0.1:70000\"}\n", "must be ADDRESS:PORT"},
      {"model: {path: /m}\nserver: {listen: \"127.0.0.1:8001\"}\n", "both listen on"},
      {"model: {path: /m}\nserver: {limits: {head_seconds: 0}}\n",
       "server.limits: head_seconds must be an integer from 1"},
      {"model: {path: /m}\nserver: {limits: {request_seconds: 1.5}}\n", "request_seconds must be an integer"},
      {"model: {path: /m}\nserver: {limits: {connections: 0}}\n", "connections must be an integer from 1"},
      {"model: {path: /m}\nserver: {limits: {memory_bytes: 31MiB}}\n", "memory_bytes must be at least 33554432 bytes"},
      {"model: {path: /m}\nserver: {limits: {body_bytes: 1MiB}}\n", "unknown key \"body_bytes\"; known: head_seconds"},
      {"model: {path: /m}\nserver: {limits: 5}\n", "server.limits: expected a mapping"},
      {"model: {path: /m}\nserver: {key_limits: 5}\n", "t.yaml:2: server.key_limits: expected a mapping"},
      {"model: {path: /m}\nserver: {key_limits: {a: 5}}\n", "t.yaml:2: server.key_limits.a: expected a mapping"},
      {"model: {path: /m}\nserver: {key_limits: {a: {max_seqs: 1}}}\n", "unknown key \"max_seqs\"; known: max_running"},
      {"model: {path: /m}\nserver: {key_limits: {a: {max_running_seqs: 0}}}\n",
       "server.key_limits.a: max_running_seqs must be an integer from 1"},
      {"model: {path: /m}\nserver: {key_limits: {a: {max_queued_reqs: -1}}}\n",
       "max_queued_reqs must be an integer from 0"},
      {"model: {path: /m}\nserver: {key_limits: {a: {tokens_per_minute: 0}}}\n",
       "tokens_per_minute must be an integer from 1"},
      {"model: {path: /m}\nserver: {key_limits: {a: {tokens_per_minute: 2147483648}}}\n",
       "tokens_per_minute must be an integer"},
      {"model: {path: /m}\nserver: {key_limits: {a: {max_blocks: 1.5}}}\n", "max_blocks must be an integer"},
      {"model: {path: /m}\nserver: {key_limits: {\"a b\": {max_blocks: 1}}}\n", "must stand under the name of a key"},
      {"model: {path: /m}\nserver: {key_limits: {a: {max_blocks: 1}, a: {max_blocks: 2}}}\n",
       "key \"a\" is given twice"},
      {"model: {path: /m}\nserver: {key_limits: {a: {max_blocks: 1}}}\n",
       "server.key_limits are for clients with keys"},
      {"model: {path: /m}\nadmin: {limits: {}}\n", "unknown key \"limits\""},
      {"model: {path: /m}\nserver: {tls: {certificate: c}}\n", "server.tls needs both a certificate and its key"},
      {"model: {path: /m}\nadmin: {tls: {key: k}}\n", "admin.tls needs both"},
      {"model: {path: /m}\nadmin: {allowed_origins: []}\n", "unknown key \"allowed_origins\""},
      {"model: {path: /m}\nlogs: {access: loud}\n", "must be one of off, text, json"},
      {"model: {path: /m}\nlogs: {access_file: f}\n", "needs --access-log text or json"},
      {"model: {path: /m}\nlogs: {format: json, access: text}\n", "give --access-log json, or --access-log-file FILE"},
      {"model: {path: /m}\ntransport: {private_network: yes}\n", "must be one of auto, on, off"},
      {"model: {path: /m}\ntransport: {bind: 10.0.0.1}\n", "two different ports"},
      {"model: {path: /m}\nlaunch: {method: external}\n", "needs transport.bind"},
      {"model: {path: /m}\nscheduler: {max_running: 100, max_step_tokens: 50}\n", "cannot serve 100"},
      {"backend: cpu\n", "no model"},
      {"model: {path: /m\n", "t.yaml:"},
      {"a: \"\\x\"\n", "hex number"},
  };
  for (const auto& [yaml, reason] : cases)
    EXPECT_NE(ErrorOf(yaml).find(reason), std::string::npos) << yaml << "gave: " << ErrorOf(yaml);
  EXPECT_NE(ErrorOf(std::string(100000, '[')), "");
  EXPECT_NE(ErrorOf(std::string(2 << 20, ' ')).find("at most"), std::string::npos);
}

/// Reading a file of a megabyte of keys once took 19 s. The largest allowed file, whatever its structure, must be
/// refused quickly.
TEST(TopologyTest, LargeFiles_AreRefusedQuickly_WhateverTheirStructure) {
  constexpr size_t kBytes = 256 << 10;
  const auto filled = [](const std::string& begin, const std::function<std::string(int)>& part) {
    std::string text = begin;
    for (int i = 0; text.size() < kBytes - 40; ++i) text += part(i);
    return text;
  };
  const auto always = [](const char* part) { return [part](int) { return std::string(part); }; };
  const auto key = [](int i) { return fmt::format("k{:05}: 1\n", i); };
  EXPECT_NE(ErrorOf(filled("", key)).find("t.yaml:1001: more than 1000 keys in one mapping"), std::string::npos);
  EXPECT_NE(ErrorOf(filled("a:\n", always("- 1\n"))).find("more than 50000 values and keys"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string(kBytes + 1, ' ')).find("at most 262144"), std::string::npos);
  const std::vector<std::string> shapes = {
      filled("", [](int i) { return fmt::format("? k{}\n", i); }),
      filled("{", [](int i) { return fmt::format("k{}, ", i); }),
      filled("a: {", [](int i) { return fmt::format("k{}: 1, ", i); }),
      filled("nodes: [", always("{host: a}, ")),
      filled("", always("- ")),
      filled("", always("[")),
      filled("", always("{")),
      filled("", always("? ")),
      filled("", always("a: ")),
      filled("", always("---\n")),
      filled("", always("...\n")),
      filled("", always("#\n")),
      filled("", always("&a ")),
      filled("", always("*a ")),
      filled("", always("!")),
      filled("", always("!<a> ")),
      filled("", always("%a\n")),
      filled("", always("\t")),
      filled("", always("\n")),
      filled("a: ", always("b ")),
      filled("a: ", always("b\n ")),
      filled("a: |\n", always(" b\n")),
      filled("a: >\n", always(" b\n\n")),
      filled("a: \"", always("b\n ")),
      filled("a: \"", always("\\u0041")),
      filled("a: '", always("''")),
      filled("", always("\xff")),
      filled("", always("a")),
      filled("[", always("a: b, ")),
      filled("[", always(",")),
      filled("[", always("a\n, ")),
      filled("- ", always("\n- \n ")),
      filled("", always("\"a\" ")),
      filled("", always("a:\n ")),
      filled("", [](int i) { return std::string(static_cast<size_t>(i % 500), ' ') + "a:\n"; })};
  for (const std::string& shape : shapes) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_NE(ErrorOf(shape), "") << shape.substr(0, 20);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << shape.substr(0, 20);
  }
}

/// Each replica has its own mpirun, which needs its own ports.
TEST(TopologyTest, Replicas_HaveDisjointPorts) {
  Topology topology;
  topology.parallel.replicas = 3;
  topology.transport.ports = {5570, 5571};
  std::set<int> taken;
  for (int replica = 0; replica < 3; ++replica) {
    const Topology::Transport one = ReplicaTopology(topology, replica).transport;
    EXPECT_EQ(one.ports, (std::vector<int>{5570 + 2 * replica, 5571 + 2 * replica}));
    EXPECT_GE(one.mpi_ports[0], topology.transport.mpi_ports[0]);
    EXPECT_LE(one.mpi_ports[1], topology.transport.mpi_ports[1]);
    EXPECT_GE(one.mpi_ports[1] - one.mpi_ports[0] + 1, 33);
    for (int port = one.mpi_ports[0]; port <= one.mpi_ports[1]; ++port)
      EXPECT_TRUE(taken.insert(port).second) << port << " is taken twice";
  }
  topology.parallel.replicas = 1;
  EXPECT_EQ(ReplicaTopology(topology, 0).transport.mpi_ports, topology.transport.mpi_ports);
}

TEST(TopologyTest, Nodes_AreRefused_WhenTheyCannotWorkTogether) {
  const std::string transport = "transport: {bind: 10.0.0.1, ports: [5570, 5571]}\n";
  const auto nodes = [](const std::string& list) { return "model: {path: /m}\nnodes: [" + list + "]\n"; };
  const std::pair<std::string, const char*> cases[] = {
      {nodes("{host: a}, {host: b}"), "need transport.bind"},
      {nodes("{host: a}"), "need transport.bind"},
      {nodes("{host: a}, {host: b}") + "transport: {bind: 127.0.0.1, ports: [5570, 5571]}\n", "need transport.bind"},
      {nodes("{host: a}, {host: a}") + transport, "a is listed twice"},
      {nodes("{host: a}, {host: localhost}") + transport, "localhost is another machine on every node"},
      {nodes("{host: a, interface: eth0}, {host: b}") + transport, "every node an interface, or none"},
      {nodes("{host: a, interface: \"e;id\"}") + transport, "interface \"e;id\" of a must be a name"},
      {nodes("{host: a, interface: \"-x\"}") + transport, "must be a name"},
      {nodes("{host: a, slots: 3, devices: [0, 1]}") + transport, "3 slots for 2 devices"},
      {nodes("{host: a}") + transport + "launch: {agent: \"ssh -p 22\"}\n", "must be a program name or a path"},
      {nodes("{host: a}") + transport + "launch: {agent: \"$(id)\"}\n", "must be a program name or a path"},
      {nodes("{host: a}") + transport + "launch: {worker: bin/quire-worker}\n", "must be an absolute path"},
      {nodes("{host: a}") + transport + "launch: {worker: \"/a b\"}\n", "must be an absolute path"},
      {nodes("{host: a}") + transport + "launch: {args: [\"$(id)\"]}\n", "that a shell on another node would read"},
      {nodes("{host: a}") + "transport: {bind: 10.0.0.1, ports: [5570, 5571], mpi_ports: [5000, 5004]}\n",
       "at least 16"},
      {nodes("{host: a}") + "transport: {bind: 10.0.0.1, ports: [5570, 5571], mpi_ports: [5560, 5580]}\n",
       "port 5570 is among"},
      {nodes("{host: a}, {host: b}") + "parallel: {replicas: 2}\n" +
           "transport: {bind: 10.0.0.1, ports: [5570, 5571], mpi_ports: [5000, 5030]}\n",
       "for each replica"},
      {nodes("{host: a}") + "transport: {bind: 10.0.0.1, ports: [5570, 5571], mpi_ports: [80, 180]}\n", "from 1024"},
  };
  for (const auto& [yaml, reason] : cases)
    EXPECT_NE(ErrorOf(yaml).find(reason), std::string::npos) << yaml << "gave: " << ErrorOf(yaml);
  EXPECT_EQ(ErrorOf(nodes("{host: a}, {host: b, spare: true}") + transport), "");
  EXPECT_EQ(ErrorOf(nodes("{host: localhost, devices: [0, 1]}")), "");
}

TEST(TopologyTest, ShippedExamples_AreValid) {
  const auto examples = std::filesystem::path(QUIRE_TEST_DATA) / "../../deploy/topologies";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(examples)) {
    ValidateTopology(TopologyFromYaml(ReadTextFile(entry.path(), 1 << 20), entry.path()), entry.path());
    ++count;
  }
  EXPECT_GE(count, 6);
}

TEST(JsonTest, StrictParser_RefusesTextsThatOtherParsersReadDifferently) {
  for (const char* bad : {"{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "[1,]", "NaN", "01", "1e400", "\"\\ud800\"",
                          "\"\xff\"", "{} {}", "", "\xef\xbb\xbf{}", "{'a':1}", "// x\n1"}) {
    EXPECT_THROW(ParseJson(bad, "test"), Error) << bad;
  }
  EXPECT_THROW(ParseJson(std::string("1\0x", 3), "test"), Error);
  EXPECT_NO_THROW(ParseJson(std::string(32, '[') + std::string(32, ']'), "test"));
  EXPECT_THROW(ParseJson(std::string(33, '[') + std::string(33, ']'), "test"), Error);
  EXPECT_THROW(ParseJson(std::string(1 << 20, '['), "test"), Error);
  std::string many = "[0";
  for (int i = 0; i < 20001; ++i) many += ",0";
  EXPECT_THROW(ParseJson(many + "]", "test"), Error);
  EXPECT_EQ(ParseJson("{\"a\":[1,2.5,\"\\u00e9\"]}", "test").at("a").at(2), "é");
}

}  // namespace
}  // namespace quire
