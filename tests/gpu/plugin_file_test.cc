// PF-1 and PF-3, with the emulated plug-in as the file that is found.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/cuda/plugin_file.h"

namespace troupe::kernels::cuda {
namespace {

/// Sets variables of the environment for its life; an empty value unsets.
class Variables {
 public:
  Variables(std::initializer_list<std::pair<const char*, std::string>> values) {
    for (const auto& [name, value] : values) {
      const char* before = std::getenv(name);
      before_[name] = before != nullptr ? before : "";
      set(name, value);
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_) set(name, value);
  }

 private:
  static void set(const std::string& name, const std::string& value) {
    if (value.empty()) ::unsetenv(name.c_str());
    else ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::map<std::string, std::string> before_;
};

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

TEST(PluginFile, IsTheOneThatIsNamed) {  // PF-1
  const Variables named{{"TROUPE_CUDA_LIB", TROUPE_EMULATED_CUDA}};
  const auto plugin = PluginFile::find();
  const Table* const table = plugin.value().table<Table>(kTableSymbol, kPluginAbi).value();
  int count = 0;
  EXPECT_EQ(table->device_count(&count), 0);
  EXPECT_GT(count, 0);
}

TEST(PluginFile, GivesATableOfTheCallersVersionOnly) {  // PF-3
  struct Shorter {
    std::uint32_t abi, bytes;
  };
  const PluginFile plugin = PluginFile::open(TROUPE_EMULATED_CUDA).value();
  for (const ErrorPtr& error : {plugin.table<Table>(kTableSymbol, kPluginAbi + 1).error_ptr(),
                                plugin.table<Shorter>(kTableSymbol, kPluginAbi).error_ptr(),
                                plugin.table<Table>("troupe_cuda_no_table", kPluginAbi).error_ptr()}) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(has(error->message(), TROUPE_EMULATED_CUDA) && has(error->message(), "another version of Troupe"))
        << error->message();
  }
}

TEST(PluginFile, SaysWhereItWasLookedFor) {  // PF-1
  {
    const Variables named{{"TROUPE_CUDA_LIB", "/nowhere/libtroupe_cuda.so"}};
    const auto plugin = PluginFile::find();
    ASSERT_FALSE(plugin.ok());
    EXPECT_EQ(plugin.error().code(), ErrorCode::kNotFound);
    EXPECT_TRUE(has(plugin.error().message(), "TROUPE_CUDA_LIB") &&
                has(plugin.error().message(), "/nowhere/libtroupe_cuda.so"))
        << plugin.error().message();
  }
  const Variables unnamed{{"TROUPE_CUDA_LIB", ""}};
  const auto plugin = PluginFile::find();
  if (plugin.ok()) GTEST_SKIP() << "the loader finds a plug-in here";
  const std::string beside =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libtroupe_cuda.so").string();
  EXPECT_TRUE(has(plugin.error().message(), ": libtroupe_cuda.so") && has(plugin.error().message(), "; " + beside))
      << plugin.error().message();
}

TEST(OwnDevice, IsTheLaunchersLocalRankAmongThoseThatAreSeen) {
  const auto of = [](const char* torchrun, const char* mpirun, int count) {
    const Variables set{{"LOCAL_RANK", torchrun}, {"OMPI_COMM_WORLD_LOCAL_RANK", mpirun}};
    return own_device(count);
  };
  EXPECT_EQ(of("", "", 4), 0);
  EXPECT_EQ(of("3", "", 4), 3);
  EXPECT_EQ(of("6", "", 4), 2);
  EXPECT_EQ(of("", "1", 4), 1);
  EXPECT_EQ(of("3", "1", 4), 3);
  EXPECT_EQ(of("none", "1", 4), 1);
  EXPECT_EQ(of("-1", "", 4), 0);
  EXPECT_EQ(of("3", "", 0), 0);
}

TEST(FindCublaslt, HandsThePathOnAndTellsWhatWasSaid) {
  static std::string asked;
  static int status = 0;
  Table table{};
  table.open_cublaslt = [](const char* path, char* message, std::size_t bytes) {
    asked = path != nullptr ? path : "null";
    std::snprintf(message, bytes, "12.4");
    return status;
  };
  {
    const Variables unnamed{{"TROUPE_CUBLASLT_LIB", ""}};
    EXPECT_EQ(find_cublaslt(table).value(), "12.4");
    EXPECT_EQ(asked, "null");
  }
  const Variables named{{"TROUPE_CUBLASLT_LIB", "/there/libcublasLt.so"}};
  status = kNotSupported;
  EXPECT_EQ(find_cublaslt(table).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(find_cublaslt(table).error().message(), "12.4");
  EXPECT_EQ(asked, "/there/libcublasLt.so");
}

}  // namespace
}  // namespace troupe::kernels::cuda
