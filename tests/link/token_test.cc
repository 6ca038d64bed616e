// TK-1 to TK-3 of net/base/token.h.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

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
