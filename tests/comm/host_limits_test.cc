// Tests how the memory and the processors that this process may use are read. Trees of files imitate control groups.
#include "comm/base/host_limits.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "comm/base/control_groups.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

constexpr int64_t kHostMiB = 1 << 20;

using Files = std::map<std::string, std::string>;

/// The files of a machine with 64 GiB of memory, of which 48 GiB are free, in a folder of the test.
class FakeHost {
 public:
  explicit FakeHost(const Files& files) {
    Write("proc/meminfo", "MemTotal:       67108864 kB\nMemFree:        1024 kB\nMemAvailable:   50331648 kB\n");
    for (const auto& [path, text] : files) Write(path, text);
  }

  const std::string& root() const { return directory_.path(); }

 private:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = directory_ / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }

  TemporaryDirectory directory_;
};

const std::string kV2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kV1Memory = "36 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
const std::string kV1Cpu = "33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
const std::string kCgroups = "sys/fs/cgroup/";

struct MemoryCase {
  const char* name;
  Files files;
  int64_t total_mib, available_mib;
  const char* limited_by;
};

const std::vector<MemoryCase> kMemoryCases = {
    {"no groups", {}, 65536, 49152, "the machine"},
    {"v2 without a limit",
     {{"proc/self/cgroup", "0::/a\n"},
      {"proc/self/mountinfo", kV2Mount},
      {kCgroups + "a/memory.max", "max\n"},
      {kCgroups + "a/memory.high", "max\n"},
      {kCgroups + "a/memory.current", "4096\n"}},
     65536,
     49152,
     "the machine"},
    {"v2, the group's own limit; its page cache is free",
     {{"proc/self/cgroup", "0::/a\n"},
      {"proc/self/mountinfo", kV2Mount},
      {kCgroups + "a/memory.max", "2147483648\n"},
      {kCgroups + "a/memory.current", "1610612736\n"},
      {kCgroups + "a/memory.stat", "anon 5\ninactive_file 536870912\nactive_file 268435456\nfile 900000000\n"}},
     2048,
     1280,
     "control group /a (memory.max)"},
    {"v2 nested, a slice above limits; the group itself does not",
     {{"proc/self/cgroup", "0::/system.slice/quire.slice/quire.service\n"},
      {"proc/self/mountinfo", kV2Mount},
      {kCgroups + "system.slice/quire.slice/quire.service/memory.max", "max\n"},
      {kCgroups + "system.slice/quire.slice/memory.max", "4294967296\n"},
      {kCgroups + "system.slice/quire.slice/memory.current", "3221225472\n"},
      {kCgroups + "system.slice/memory.max", "max\n"}},
     4096,
     1024,
     "control group /system.slice/quire.slice (memory.max)"},
    {"v2 nested, each limit leaves another amount: the least of each counts",
     {{"proc/self/cgroup", "0::/a/b\n"},
      {"proc/self/mountinfo", kV2Mount},
      {kCgroups + "a/b/memory.max", "1073741824\n"},
      {kCgroups + "a/b/memory.current", "0\n"},
      {kCgroups + "a/memory.max", "2147483648\n"},
      {kCgroups + "a/memory.current", "2042626048\n"}},
     1024,
     100,
     "control group /a/b (memory.max)"},
    {"v2, memory.high below memory.max",
     {{"proc/self/cgroup", "0::/a\n"},
      {"proc/self/mountinfo", kV2Mount},
      {kCgroups + "a/memory.max", "2147483648\n"},
      {kCgroups + "a/memory.high", "1073741824\n"}},
     1024,
     1024,
     "control group /a (memory.high)"},
    {"v2 in a container with a namespace of its own",
     {{"proc/self/cgroup", "0::/\n"},
      {"proc/self/mountinfo", kV2Mount},
      {kCgroups + "memory.max", "1073741824\n"},
      {kCgroups + "memory.current", "1572864000\n"}},
     1024,
     0,
     "control group / (memory.max)"},
    {"v1, the group's own limit",
     {{"proc/self/cgroup", "9:name=systemd:/x\n4:memory:/a\n0::/\n"},
      {"proc/self/mountinfo", kV1Memory},
      {kCgroups + "memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {kCgroups + "memory/a/memory.limit_in_bytes", "1073741824\n"},
      {kCgroups + "memory/a/memory.usage_in_bytes", "734003200\n"},
      {kCgroups + "memory/a/memory.stat", "total_inactive_file 104857600\ntotal_active_file 104857600\n"}},
     1024,
     524,
     "control group /a (memory.limit_in_bytes)"},
    {"v1, an ancestor's limit",
     {{"proc/self/cgroup", "4:memory:/a/b/c\n"},
      {"proc/self/mountinfo", kV1Memory},
      {kCgroups + "memory/a/b/c/memory.limit_in_bytes", "9223372036854771712\n"},
      {kCgroups + "memory/a/memory.limit_in_bytes", "1073741824\n"},
      {kCgroups + "memory/a/memory.usage_in_bytes", "536870912\n"}},
     1024,
     512,
     "control group /a (memory.limit_in_bytes)"},
    {"v1 in a container that does not see the limit's group",
     {{"proc/self/cgroup", "4:memory:/docker/1234\n"},
      {"proc/self/mountinfo", "36 31 0:32 /docker/1234 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"},
      {kCgroups + "memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {kCgroups + "memory/memory.usage_in_bytes", "104857600\n"},
      {kCgroups + "memory/memory.stat", "hierarchical_memory_limit 536870912\n"}},
     512,
     412,
     "control group /docker/1234 (hierarchical_memory_limit)"},
    {"hybrid: v1 has the controller, v2 is beside it",
     {{"proc/self/cgroup", "4:memory:/a\n1:name=systemd:/s\n0::/s\n"},
      {"proc/self/mountinfo", kV1Memory + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"},
      {kCgroups + "memory/a/memory.limit_in_bytes", "1073741824\n"},
      {kCgroups + "unified/s/cgroup.procs", "1\n"}},
     1024,
     1024,
     "control group /a (memory.limit_in_bytes)"},
    {"hierarchies in a place of their own, with a space in its name",
     {{"proc/self/cgroup", "0::/a\n"},
      {"proc/self/mountinfo", "30 23 0:26 / /my\\040groups rw - cgroup2 none rw\n"},
      {"my groups/a/memory.max", "1073741824\n"}},
     1024,
     1024,
     "control group /a (memory.max)"},
    {"no mountinfo, the usual place",
     {{"proc/self/cgroup", "0::/a\n"}, {kCgroups + "a/memory.max", "1073741824\n"}},
     1024,
     1024,
     "control group /a (memory.max)"},
    {"a group outside the namespace, by a path that leaves it",
     {{"proc/self/cgroup", "0::/../../other\n"},
      {"proc/self/mountinfo", kV2Mount},
      {kCgroups + "memory.max", "1073741824\n"}},
     1024,
     1024,
     "control group / (memory.max)"},
    {"files without sense limit nothing",
     {{"proc/self/cgroup", "nonsense\n0::/a\n:\n"},
      {"proc/self/mountinfo", "- cgroup2\n\n1 2 - cgroup2\n" + kV2Mount},
      {kCgroups + "a/memory.max", "much\n"},
      {kCgroups + "a/memory.stat", "inactive_file\n"}},
     65536,
     49152,
     "the machine"},
};

TEST(MemoryRoomTest, ReadMemoryRoom_ReturnsTheLeastOfAllLimits_OnMachinesOfEveryKind) {
  for (const MemoryCase& c : kMemoryCases) {
    const FakeHost host(c.files);
    const MemoryRoom room = ReadMemoryRoom(host.root());
    EXPECT_EQ(room.total, c.total_mib * kHostMiB) << c.name;
    EXPECT_EQ(room.available, c.available_mib * kHostMiB) << c.name;
    EXPECT_EQ(room.limited_by, c.limited_by) << c.name;
  }
}

TEST(MemoryRoomTest, ReadMemoryRoom_ReturnsNoLimit_WithoutFiles) {
  const TemporaryDirectory empty;
  EXPECT_EQ(ReadMemoryRoom(empty.path()).total, INT64_MAX);
}

struct ProcessorCase {
  const char* name;
  Files files;
  int allowed, count;
  const char* limited_by;
};

const std::vector<ProcessorCase> kProcessorCases = {
    {"no quota", {}, 16, 16, "CPU affinity"},
    {"v2 without a quota",
     {{"proc/self/cgroup", "0::/a\n"}, {"proc/self/mountinfo", kV2Mount}, {kCgroups + "a/cpu.max", "max 100000\n"}},
     16,
     16,
     "CPU affinity"},
    {"v2, a processor and a half: the half would only make the others wait",
     {{"proc/self/cgroup", "0::/a\n"}, {"proc/self/mountinfo", kV2Mount}, {kCgroups + "a/cpu.max", "150000 100000\n"}},
     16,
     1,
     "control group /a (cpu.max)"},
    {"v2, half a processor is one thread",
     {{"proc/self/cgroup", "0::/a\n"}, {"proc/self/mountinfo", kV2Mount}, {kCgroups + "a/cpu.max", "5000 10000\n"}},
     16,
     1,
     "control group /a (cpu.max)"},
    {"v2 nested, the slice above has the smaller quota",
     {{"proc/self/cgroup", "0::/s.slice/a\n"},
      {"proc/self/mountinfo", kV2Mount},
      {kCgroups + "s.slice/a/cpu.max", "800000 100000\n"},
      {kCgroups + "s.slice/cpu.max", "400000 100000\n"}},
     16,
     4,
     "control group /s.slice (cpu.max)"},
    {"v1, with both names of the controller in one hierarchy",
     {{"proc/self/cgroup", "2:cpu,cpuacct:/a/b\n"},
      {"proc/self/mountinfo", kV1Cpu},
      {kCgroups + "cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n"},
      {kCgroups + "cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n"},
      {kCgroups + "cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n"},
      {kCgroups + "cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
     16,
     3,
     "control group /a (cpu.cfs_quota_us)"},
    {"a quota beyond the processors",
     {{"proc/self/cgroup", "0::/a\n"}, {"proc/self/mountinfo", kV2Mount}, {kCgroups + "a/cpu.max", "900000 100000\n"}},
     2,
     2,
     "CPU affinity"},
    {"a period of zero",
     {{"proc/self/cgroup", "0::/a\n"}, {"proc/self/mountinfo", kV2Mount}, {kCgroups + "a/cpu.max", "900000 0\n"}},
     2,
     2,
     "CPU affinity"},
};

TEST(ProcessorRoomTest, ReadProcessorRoom_ReturnsTheLeastOfAffinityAndQuotas_OnMachinesOfEveryKind) {
  for (const ProcessorCase& c : kProcessorCases) {
    const FakeHost host(c.files);
    const ProcessorRoom room = ReadProcessorRoom(c.allowed, host.root());
    EXPECT_EQ(room.count, c.count) << c.name;
    EXPECT_EQ(room.limited_by, c.limited_by) << c.name;
  }
}

TEST(ProcessorRoomTest, ReadProcessorRoom_ReturnsAtLeastOne) { EXPECT_EQ(ReadProcessorRoom(0, "/nowhere").count, 1); }

}  // namespace
}  // namespace quire
