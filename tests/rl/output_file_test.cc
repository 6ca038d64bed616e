// OF-1: what write_file promises of the folder of its file; write_safetensors does so, too.
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include <gtest/gtest.h>

#include "apps/common/output_file.h"
#include "apps/common/safetensors/safetensors.h"
#include "tests/base/temporary_folder.h"

namespace {

int folder_error = 0;  // why no folder can be synced; 0: they can

/// While it lives, no folder of this program can be synced: a disk that fails, or a file system that has no such thing.
class UnsyncedFolders {
 public:
  explicit UnsyncedFolders(int why) { folder_error = why; }
  ~UnsyncedFolders() { folder_error = 0; }
  UnsyncedFolders(const UnsyncedFolders&) = delete;
  UnsyncedFolders& operator=(const UnsyncedFolders&) = delete;
};

/// While it lives, who runs this test is bound by the modes of files: the folder is given to another user than root.
class NotRoot {
 public:
  explicit NotRoot(const std::filesystem::path& folder) {
    if (::geteuid() != 0) return;
    there_is_another_ = ::chown(folder.c_str(), kNobody, kNobody) == 0;
    if (there_is_another_) ::setfsuid(kNobody);
  }
  ~NotRoot() { ::setfsuid(::geteuid()); }
  NotRoot(const NotRoot&) = delete;
  NotRoot& operator=(const NotRoot&) = delete;
  [[nodiscard]] bool there_is_another() const { return there_is_another_; }

 private:
  static constexpr uid_t kNobody = 65534;
  bool there_is_another_ = true;
};

}  // namespace

extern "C" int fsync(int fd) {
  struct stat about {};
  if (folder_error != 0 && ::fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
    errno = folder_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace {

using troupe::test::bytes_of;
using troupe::test::put;
using troupe::test::TemporaryFolder;

TEST(OutputFile, OF1_AFolderThatCannotBeSyncedIsAnError) {
  const TemporaryFolder folder;
  put(folder / "f", "old");
  for (const auto& [why, code] : {std::pair(EIO, troupe::ErrorCode::kInvalidArgument),
                                  std::pair(ENOSPC, troupe::ErrorCode::kOutOfDisk)}) {
    const UnsyncedFolders unsynced(why);
    const troupe::Status written = apps::write_file(folder / "f", "new");
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code(), code);
    EXPECT_NE(written.error().message().find("cannot sync the folder " + folder.path().string()), std::string::npos)
        << written.error().message();
    EXPECT_EQ(bytes_of(folder / "f"), "new") << "the new file is there, and a crash of the machine may undo that";
    EXPECT_EQ(folder.files(), 1u);
  }
}

TEST(OutputFile, OF1_AFileSystemWhoseFoldersAreNotSyncedIsNoError) {
  const TemporaryFolder folder;
  const UnsyncedFolders unsynced(EINVAL);
  EXPECT_TRUE(apps::write_file(folder / "f", "new").ok());
  EXPECT_EQ(bytes_of(folder / "f"), "new");
}

TEST(OutputFile, OF1_AFolderThatCannotBeOpenedIsAnErrorBeforeAFileIsWritten) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "below");
  put(folder / "below/f", "old");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  {
    const NotRoot user(folder / "below");
    if (!user.there_is_another()) GTEST_SKIP() << "root is the only user here";
    ASSERT_EQ(::chmod((folder / "below").c_str(), 0300), 0);
    const troupe::Status told = apps::check_writable(folder / "below/f");
    const troupe::Status written = apps::write_file(folder / "below/f", "new");
    ASSERT_EQ(::chmod((folder / "below").c_str(), 0700), 0);
    ASSERT_FALSE(written.ok());
    EXPECT_NE(written.error().message().find("cannot open the folder"), std::string::npos);
    EXPECT_FALSE(told.ok()) << "check_writable says what write_file would";
  }
  EXPECT_EQ(bytes_of(folder / "below/f"), "old");
}

TEST(OutputFile, AnArrayFileWhoseFolderCannotBeSyncedIsAnError) {
  const TemporaryFolder folder;
  {
    const UnsyncedFolders unsynced(EIO);
    const troupe::Status written = apps::write_safetensors(folder / "f", {}, {});
    ASSERT_FALSE(written.ok());
    EXPECT_NE(written.error().message().find("cannot sync the folder"), std::string::npos);
  }
  const UnsyncedFolders unsynced(EINVAL);
  EXPECT_TRUE(apps::write_safetensors(folder / "f", {}, {}).ok());
}

}  // namespace
