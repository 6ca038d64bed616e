// TK-1 to TK-5 of net/base/token.h.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/net/base/token.h"

namespace troupe::net {
namespace {

struct Folder {
  std::string path;
  Folder() {
    std::string pattern = ::testing::TempDir() + "troupe_token_XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { [[maybe_unused]] int rc = std::system(("rm -rf '" + path + "'").c_str()); }
  std::string file() const { return path + "/token"; }
};
template <class T>
bool refused(const Result<T>& result) {
  return !result.ok() && result.error().code() == ErrorCode::kUnauthenticated;
}
std::string hex_of(const Token::Digest& digest) {
  std::string text;
  for (auto byte : digest) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

TEST(Token, WhatWasWrittenIsReadAndTheFileIsPrivate) {
  Folder folder;
  const Token token = *Token::make();
  ASSERT_TRUE(token.write_file(folder.file()).ok());
  struct stat status {};
  ASSERT_EQ(::stat(folder.file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  auto back = Token::read_file(folder.file());
  ASSERT_TRUE(back.ok()) << back.error().what();
  EXPECT_TRUE(back->equals(token));
}

TEST(Token, NeverOverwritesAndNeverFollowsALink) {  // TK-3
  Folder folder;
  const Token token = *Token::make();
  ASSERT_TRUE(token.write_file(folder.file()).ok());
  EXPECT_FALSE(token.write_file(folder.file()).ok());
  const std::string victim = folder.path + "/victim", link = folder.path + "/link";
  ASSERT_EQ(::symlink(victim.c_str(), link.c_str()), 0);
  EXPECT_FALSE(token.write_file(link).ok());
  EXPECT_NE(::access(victim.c_str(), F_OK), 0);
}

TEST(Token, RefusesFilesAndFoldersThatOthersCanReach) {  // TK-2
  Folder folder;
  ASSERT_TRUE(Token::make()->write_file(folder.file()).ok());
  ::chmod(folder.file().c_str(), 0640);
  EXPECT_TRUE(refused(Token::read_file(folder.file())));
  ::chmod(folder.file().c_str(), 0600);
  EXPECT_TRUE(Token::read_file(folder.file()).ok());
  ::chmod(folder.path.c_str(), 0755);
  EXPECT_TRUE(refused(Token::read_file(folder.file())));
  EXPECT_FALSE(Token::make()->write_file(folder.path + "/other").ok());
  ::chmod(folder.path.c_str(), 0700);
  const std::string link = folder.path + "/link";
  ASSERT_EQ(::symlink(folder.file().c_str(), link.c_str()), 0);
  EXPECT_TRUE(refused(Token::read_file(link)));
  ASSERT_EQ(::mkfifo((folder.path + "/fifo").c_str(), 0600), 0);
  EXPECT_TRUE(refused(Token::read_file(folder.path + "/fifo"))) << "and does not wait for a writer";
}

TEST(Token, BadContentIsRefusedAndNotRepeated) {
  Folder folder;
  for (const std::string& content :
       {std::string(), std::string("short"), std::string(64, 'g'), std::string(66, 'a'), std::string(63, 'a') + "\n"}) {
    ::unlink(folder.file().c_str());
    std::ofstream(folder.file()) << content;
    ::chmod(folder.file().c_str(), 0600);
    auto read = Token::read_file(folder.file());
    ASSERT_TRUE(refused(read));
    if (content.size() > 10) {
      EXPECT_EQ(std::string(read.error().what()).find(content.substr(0, 60)), std::string::npos);
    }
  }
  auto missing = Token::read_file(folder.path + "/none");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
}

/// How often the bytes stand in memory of this process that a core dump would hold, and in memory that it would not.
struct Found {
  int dumped = 0, left_out = 0;
};
Found find_in_memory(const Token::Digest& inverted) {
  std::vector<std::array<unsigned long, 3>> mappings;  // from, to, is it dumped
  {
    std::ifstream smaps("/proc/self/smaps");
    for (std::string line; std::getline(smaps, line);) {
      unsigned long from = 0, to = 0;
      char rights[8] = {};
      if (std::sscanf(line.c_str(), "%lx-%lx %7s", &from, &to, rights) == 3 && rights[0] != 0 && line.find(':') > 20)
        mappings.push_back({from, to, rights[0] == 'r' && rights[1] == 'w' ? 1ul : 2ul});
      if (line.starts_with("VmFlags:") && line.find(" dd") != std::string::npos && mappings.back()[2] == 1)
        mappings.back()[2] = 0;
    }
  }
  Found found;
  const auto* first = reinterpret_cast<const std::uint8_t*>(&inverted);
  for (const auto& [from, to, kind] : mappings) {
    if (kind == 2) continue;
    // through the kernel: a page may be unmapped meanwhile
    const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    std::array<std::uint8_t, 4096 + 31> page{};
    for (unsigned long at = from; at < to; at += 4096) {
      const ssize_t got = ::pread(memory, page.data(), std::min<std::size_t>(page.size(), to - at), off_t(at));
      for (ssize_t i = 0; i + 32 <= got; i += 8) {
        bool same = true;
        for (std::size_t b = 0; same && b < 32; ++b) same = std::uint8_t(~page[std::size_t(i) + b]) == first[b];
        const auto* here = reinterpret_cast<const std::uint8_t*>(at) + i;
        if (!same || (here >= page.data() && here < page.data() + page.size())) continue;
        ++(kind == 1 ? found.dumped : found.left_out);
      }
    }
    ::close(memory);
  }
  return found;
}

// REVIEW C.4: at f0736ec a core dump of a head or daemon held the token.
TEST(Token, TK5_NoMemoryThatACoreDumpHoldsHasIt) {
  Folder folder;
  Token::Digest inverted{};
  {
    const Token token = *Token::make();
    ASSERT_TRUE(token.write_file(folder.file()).ok());
    const std::string hex = token.hex();
    for (std::size_t i = 0; i < inverted.size(); ++i)
      inverted[i] = std::uint8_t(~std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  EXPECT_EQ(find_in_memory(inverted).left_out, 0) << "the last one wipes it";
  const Token token = *Token::read_file(folder.file());
  const Token copy = token;  // NOLINT: a copy is the point
  const auto on_heap = std::make_unique<Token>(copy);
  (void)on_heap->sign(std::string(10'000, 'm'));
  const Found found = find_in_memory(inverted);
  EXPECT_EQ(found.dumped, 0);
  EXPECT_EQ(found.left_out, 1) << "copies share one place";
}

TEST(Token, TokensDifferAndTheEmptyOneEqualsNothing) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(Token::make()->hex());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_FALSE(Token().equals(Token()));
  const Token token = *Token::parse(std::string(64, '5'));
  EXPECT_TRUE(token.equals(*Token::parse(token.hex())));
  EXPECT_FALSE(token.equals(*Token::parse(std::string(63, '5') + "6")));
}

TEST(Token, ConstantTimeEqualIsEquality) {  // TK-1: the result; the time is by construction
  EXPECT_TRUE(constant_time_equal("", ""));
  EXPECT_TRUE(constant_time_equal("abc", "abc"));
  EXPECT_FALSE(constant_time_equal("abc", "abd"));
  EXPECT_FALSE(constant_time_equal("xbc", "abc"));
  EXPECT_FALSE(constant_time_equal("abc", "ab"));
}

TEST(Token, Sha256AndHmacGiveThePublishedValues) {
  EXPECT_EQ(hex_of(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_of(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_of(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(hex_of(sha256(std::string(64, 'b'))), hex_of(sha256(std::string(64, 'b'))));
  // RFC 4231, test case 1, with its 20 byte key padded to 32 by zeros, which HMAC does anyway.
  const Token key = *Token::parse("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b000000000000000000000000");
  EXPECT_EQ(hex_of(key.sign("Hi There")), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

}  // namespace
}  // namespace troupe::net
