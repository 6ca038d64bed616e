// The pure parts of the `troupe` command: values of flags, tables, and what doctor says of a machine.
#include <gtest/gtest.h>

#include "apps/cli/cluster.h"
#include "apps/cli/doctor.h"
#include "apps/cli/parse.h"
#include "apps/cli/rows.h"
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
  const Table table{
      {"name", "count", "free", "on", "map"},
      {{std::string("a\"b\n\x01"), std::int64_t{3}, 0.5, true, std::map<std::string, double>{{"CPU", 2}}}}};
  EXPECT_EQ(
      to_json(table),
      "[\n {\"name\": \"a\\\"b\\n\\u0001\", \"count\": 3, \"free\": 0.5, \"on\": true, \"map\": {\"CPU\": 2}}\n]\n");
  EXPECT_EQ(to_json(Table{{"a"}, {}}), "[]\n");
}

TEST(Table, TextAlignsColumnsAndShortensIds) {
  const Table table{{"node_id", "name"}, {{std::string("0123456789abcdef"), std::string("x")}}};
  EXPECT_EQ(to_text(table, 4), "NODE ID  NAME\ncdef     x\n");
  EXPECT_EQ(to_text(table, 0), "NODE ID           NAME\n0123456789abcdef  x\n");
}

// REVIEW H.12: at f0736ec the first twelve characters were shown, which are those of the process that made them.
TEST(Table, ShortIdsAreAsLongAsTellsThemApart) {
  const std::string first = "00000001000000010000000000000007", second = "00000001000000020000000000000007",
                    third = "00000001000000010000000000000008";
  const Table alike{{"task_id", "name"},
                    {{first, std::string("a")}, {third, std::string("b")}, {first, std::string("c")}}};
  EXPECT_EQ(to_text(alike), "TASK ID       NAME\n000000000007  a\n000000000008  b\n000000000007  c\n");
  const Table unlike{{"task_id"}, {{first}, {second}}};
  EXPECT_EQ(to_text(unlike), "TASK ID\n10000000000000007\n20000000000000007\n");
}

TEST(Rows, TextsBecomeTypedFields) {
  const Kind& nodes = kind_of(wire::StateKind::kNodes);
  const Table table = to_table(nodes, {{{"node_id", "n"},
                                        {"is_head", "true"},
                                        {"resources", "{\"CPU\": 2, \"gold\": 0.5}"},
                                        {"labels", "{\"zone\": \"b\"}"},
                                        {"pid", "7"}}});
  EXPECT_EQ(to_json(table),
            "[\n {\"node_id\": \"n\", \"address\": \"\", \"state\": \"\", \"is_head\": true, \"resources\": {\"CPU\": "
            "2, \"gold\": 0.5}, "
            "\"available\": {}, \"labels\": {\"zone\": \"b\"}, \"pid\": 7}\n]\n");
}

TEST(Sessions, TheNewestThatStartedIsMeant) {
  const std::vector<SessionRow> all{{.name = "4", .dir = {}, .address = {}},
                                    {.name = "31", .dir = {}, .address = "a:1", .started = true},
                                    {.name = "30", .dir = {}, .address = "b:2", .started = true}};
  EXPECT_EQ(choose_session(all, "", "")->name, "31");
  EXPECT_EQ(choose_session(all, "", "b:2")->name, "30");
  EXPECT_EQ(choose_session(all, "4", "")->name, "4");
  EXPECT_EQ(choose_session({all[0]}, "", "")->name, "4") << "its log may say why";
  EXPECT_EQ(choose_session(all, "5", "").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(choose_session(all, "", "c:3").error().code(), ErrorCode::kNotFound);
  EXPECT_FALSE(choose_session({}, "", "").ok());
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
