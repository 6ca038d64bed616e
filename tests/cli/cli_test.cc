// The pure parts of the `troupe` command: values of flags, tables, and what doctor says of a machine.
#include <gtest/gtest.h>

#include "apps/cli/doctor.h"
#include "apps/cli/parse.h"
#include "apps/cli/table.h"

namespace troupe::cli {
namespace {

TEST(ParseSize, KnowsUnitsOfPowersOf1024) {
  EXPECT_EQ(*parse_size("0"), 0u);
  EXPECT_EQ(*parse_size("4096"), 4096u);
  EXPECT_EQ(*parse_size("2GB"), 2ull << 30);
  EXPECT_EQ(*parse_size("512MiB"), 512ull << 20);
  EXPECT_EQ(*parse_size("1.5k"), 1536u);
}

TEST(ParseSize, RefusesWhatIsNoSizeWithATypedError) {
  for (const char* text : {"", "GB", "-1", "2 apples", "2XB", "nan", "inf", "1e300", "99999999PB"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.error().code(), ErrorCode::kInvalidArgument) << text;
  }
}

TEST(ParsePairs, SplitsAtCommasAndTheFirstEqualsSign) {
  const auto pairs = parse_pairs("zone=b,url=a=c,empty=");
  ASSERT_TRUE(pairs.ok());
  EXPECT_EQ(*pairs, (std::map<std::string, std::string>{{"zone", "b"}, {"url", "a=c"}, {"empty", ""}}));
  EXPECT_TRUE(parse_pairs("")->empty());
}

TEST(ParsePairs, RefusesMissingAndRepeatedKeys) {
  for (const char* text : {"zone", "=b", "a=1,a=2", "a=1,,b=2"}) EXPECT_FALSE(parse_pairs(text).ok()) << text;
}

TEST(ParseAmounts, TakesNumbersFromZeroUp) {
  EXPECT_EQ(parse_amounts("disk=0.5,slots=4")->at("disk"), 0.5);
  for (const char* text : {"a=x", "a=-1", "a=", "a=1x", "a=inf"}) EXPECT_FALSE(parse_amounts(text).ok()) << text;
}

TEST(SizeText, ReadsWell) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(5ull << 30), "5.0 GiB");
}

TEST(Table, JsonIsEscapedAndTyped) {
  const Table table{{"name", "count", "free", "on", "map"},
                    {{std::string("a\"b\n\x01"), std::int64_t{3}, 0.5, true, std::map<std::string, double>{{"CPU", 2}}}}};
  EXPECT_EQ(to_json(table), "[\n {\"name\": \"a\\\"b\\n\\u0001\", \"count\": 3, \"free\": 0.5, \"on\": true, \"map\": {\"CPU\": 2}}\n]\n");
  EXPECT_EQ(to_json(Table{{"a"}, {}}), "[]\n");
}

TEST(Table, TextAlignsColumnsAndShortensIds) {
  const Table table{{"node_id", "name"}, {{std::string("0123456789abcdef"), std::string("x")}}};
  EXPECT_EQ(to_text(table, 4), "NODE ID  NAME\n0123     x\n");
  EXPECT_EQ(to_text(table, 0), "NODE ID           NAME\n0123456789abcdef  x\n");
}

Machine healthy() {
  Machine m;
  m.cores = 8;
  m.memory = 32ull << 30;
  m.memory_available = 30ull << 30;
  m.memfd = m.memfd_reserves = m.pidfd = m.proc = true;
  m.open_files_soft = 1024;
  m.open_files_hard = 1 << 20;
  m.processes_soft = 1 << 16;
  m.shmem_hugepages = "advise";
  m.session_folder = "/tmp/troupe-0";
  m.session_space = 100ull << 30;
  m.rpc_library = "/opt/lib/libtroupe_rpc.so";
  return m;
}

Level level_of(const Machine& machine, const std::string& check) {
  for (const Finding& f : judge(machine)) if (f.check == check) return f.level;
  ADD_FAILURE() << "no line " << check;
  return Level::kOk;
}

TEST(Doctor, AHealthyMachineIsOkThroughout) {
  for (const Finding& f : judge(healthy())) EXPECT_EQ(f.level, Level::kOk) << f.check << ": " << f.found;
}

TEST(Doctor, EveryLineThatIsNotOkSaysWhatToDo_DR2) {
  for (const Finding& f : judge(Machine{})) EXPECT_EQ(f.level != Level::kOk, !f.advice.empty()) << f.check;
}

TEST(Doctor, TheSameLinesOnEveryMachine_DR1) {
  const auto one = judge(healthy()), other = judge(Machine{});
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].check, other[i].check);
}

TEST(Doctor, WhatKeepsTroupeFromWorkingIsAFailure) {
  Machine m = healthy();
  m.memfd = false;
  EXPECT_EQ(level_of(m, "store memory"), Level::kFail);
  m = healthy();
  m.pidfd = false;
  EXPECT_EQ(level_of(m, "processes"), Level::kFail);
}

TEST(Doctor, ATokenThatOthersCanReadIsAFailure) {
  Machine m = healthy();
  m.token_file = "/tmp/troupe-0/s/token";
  m.token_mode = 0600;
  EXPECT_EQ(level_of(m, "token file"), Level::kOk);
  m.token_mode = 0644;
  EXPECT_EQ(level_of(m, "token file"), Level::kFail);
}

TEST(Doctor, AGpuWithoutItsLibrariesIsAWarning) {
  Machine m = healthy();
  m.gpus = {"NVIDIA Example"};
  EXPECT_EQ(level_of(m, "GPU"), Level::kWarn);
  m.cuda_driver = "/usr/lib/libcuda.so.1";
  m.nccl = "/usr/lib/libnccl.so.2";
  EXPECT_EQ(level_of(m, "GPU"), Level::kOk);
}

}  // namespace
}  // namespace troupe::cli
