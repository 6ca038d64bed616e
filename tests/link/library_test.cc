// Where libtroupe_rpc is looked for. REVIEW H.10: at f0736ec nothing that lies in PREFIX/lib/troupe/NAME found it, and
// TROUPE_RPC_LIB, which the error named, was never read.
#include <gtest/gtest.h>

#include <stdlib.h>

#include <algorithm>

#include "core/net/link/library.h"

namespace troupe::net {
namespace {

bool has(const std::vector<std::string>& list, const std::string& path) {
  return std::find(list.begin(), list.end(), path) != list.end();
}

TEST(RpcLibrary, LSO1_WhatIsNamedIsTheOnlyPlace) {
  EXPECT_EQ(library_candidates({"/x/mine.so", "/p/bin", "/p/lib"}), std::vector<std::string>{"/x/mine.so"});
}

TEST(RpcLibrary, LSO1_TheLoaderThenTheInstallationsOfProgramAndLibrary) {
  const std::vector<std::string> list = library_candidates({"", "/p/lib/troupe/bench", "/q/lib"});
  EXPECT_EQ(list.front(), kRpcLibrary);
  EXPECT_TRUE(has(list, std::string("/p/lib/troupe/bench/../../") + kRpcLibrary)) << "a measure of an installed prefix";
  EXPECT_TRUE(has(list, std::string("/q/lib/") + kRpcLibrary))
      << "a program that links a shared library with Troupe in it";
  EXPECT_TRUE(has(library_candidates({"", "/p/bin", ""}), std::string("/p/bin/../lib/") + kRpcLibrary))
      << "the command";
  EXPECT_EQ(library_candidates({"", "", ""}), std::vector<std::string>{kRpcLibrary})
      << "nothing relative to where one happens to stand";
}

TEST(RpcLibrary, TheEnvironmentNamesIt) {
  ::setenv("TROUPE_RPC_LIB", "/y/other.so", 1);
  EXPECT_EQ(library_places("").named, "/y/other.so");
  EXPECT_EQ(library_places("/x/mine.so").named, "/x/mine.so");
  ::unsetenv("TROUPE_RPC_LIB");
  EXPECT_EQ(library_places("").named, "");
  EXPECT_TRUE(library_places("").executable_folder.starts_with("/"));
}

}  // namespace
}  // namespace troupe::net
