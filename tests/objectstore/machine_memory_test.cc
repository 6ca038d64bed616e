// Promises of machine_memory.h, on folders that look like a machine's.
#include "objectstore/arena/machine_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace troupe::store {
namespace {

namespace fs = std::filesystem;

struct MachineMemory : testing::Test {
  MachineMemory() {
    std::string name = (fs::temp_directory_path() / "troupe-memory-XXXXXX").string();
    root = ::mkdtemp(name.data());
    files = {
        .meminfo = root / "meminfo", .own_cgroups = root / "own", .mount = root / "cgroup", .mount_v1 = root / "v1"};
    write("meminfo", "MemTotal:       1000 kB\nMemAvailable:    900 kB\n");
  }
  ~MachineMemory() override { fs::remove_all(root); }
  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  std::uint64_t available() const { return machine_memory_available(files); }
  fs::path root;
  MemoryFiles files;
};

TEST_F(MachineMemory, WithoutLimitsItIsWhatTheMachineHas) {
  EXPECT_EQ(available(), 900u * 1024);
  write("own", "0::/user/one\n");
  write("cgroup/user/one/memory.max", "max\n");
  write("cgroup/user/one/memory.current", "5000\n");
  EXPECT_EQ(available(), 900u * 1024);
}

// B.8: a container that has read its data set is at its limit and not short of memory.
TEST_F(MachineMemory, PageCacheOfAGroupCountsAsAvailable) {
  write("own", "0::/user/one\n");
  write("cgroup/user/one/memory.max", "100000\n");
  write("cgroup/user/one/memory.current", "99000\n");
  EXPECT_EQ(available(), 1000u);
  write("cgroup/user/one/memory.stat",
        "anon 9000\nfile 85000\nshmem 5000\ninactive_file 50000\nactive_file 30000\nslab_reclaimable 1000\n");
  EXPECT_EQ(available(), 82000u) << "shared memory is no cache";
}

TEST_F(MachineMemory, TheTightestGroupOnTheWayUpCounts) {
  write("own", "0::/user/one/\n");
  write("cgroup/user/one/memory.max", "100000\n");
  write("cgroup/user/one/memory.current", "1000\n");
  write("cgroup/user/memory.max", "50000\n");
  write("cgroup/user/memory.current", "30000\n");
  EXPECT_EQ(available(), 20000u);
  write("cgroup/memory.max", "10000\n");
  write("cgroup/memory.current", "12000\n");
  EXPECT_EQ(available(), 0u) << "over its limit";
}

TEST_F(MachineMemory, VersionOneIsReadAlsoWhereTheMountShowsOnlyTheContainersPart) {
  write("own", "5:cpu,cpuacct:/docker/abc\n4:hugetlb,memory:/docker/abc\n0::/\n");
  write("v1/memory.limit_in_bytes", "200000\n");
  write("v1/memory.usage_in_bytes", "190000\n");
  write("v1/memory.stat", "cache 150000\ninactive_file 1\ntotal_inactive_file 100000\ntotal_active_file 20000\n");
  EXPECT_EQ(available(), 130000u);
  write("v1/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  write("v1/docker/abc/memory.usage_in_bytes", "190000\n");
  EXPECT_EQ(available(), 130000u);
}

}  // namespace
}  // namespace troupe::store
