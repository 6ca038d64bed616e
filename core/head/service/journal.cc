#include "core/head/service/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/log.h"

namespace troupe::head {
namespace {

constexpr std::uint64_t kMagic = 0x324c4e4a50525454;  // "TTRPJNL2": another one with each change of what frames hold
constexpr std::size_t kIdentityFixed = 8 + 8 + 8 + 4, kRecordFixed = 1 + 8 + 8 + 8, kClusterIdMax = 256;

ErrorPtr failed(const std::string& what, const std::string& path) {
  return make_error<InvalidArgumentError>(what + " " + path + ": " + std::strerror(errno));
}

bool read_at(int fd, void* to, std::size_t size, std::uint64_t at) {
  return ::pread(fd, to, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
}

/// The file's bytes for as long as it lives.
class Mapped {
 public:
  Mapped(int fd, std::uint64_t size) : size_(size) {
    if (size != 0) at_ = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  }
  ~Mapped() { if (at_ != MAP_FAILED) ::munmap(at_, size_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ByteView bytes() const {
    return at_ == MAP_FAILED ? ByteView{} : ByteView(static_cast<const std::byte*>(at_), size_);
  }

 private:
  void* at_ = MAP_FAILED;
  std::uint64_t size_;
};

/// The next whole record, taken off the rest; false at the end, or where one was cut off.
bool take_record(ByteView& rest, Journal::Record& record) {
  if (rest.size() < 4) return false;
  const auto size = load_little<std::uint32_t>(rest.data());
  if (size < kRecordFixed || rest.size() - 4 < size) return false;
  const ByteView body = rest.subspan(4, size);
  record.kind = static_cast<Journal::Kind>(body[0]);
  record.time = Time(load_little<std::int64_t>(body.data() + 1));
  record.a = load_little<std::uint64_t>(body.data() + 9);
  record.b = load_little<std::uint64_t>(body.data() + 17);
  record.bytes = body.subspan(kRecordFixed);
  rest = rest.subspan(4 + size);
  return true;
}

}  // namespace

Result<std::unique_ptr<Journal>> Journal::create(const std::string& path, const Identity& identity,
                                                 std::uint64_t bytes_max) {
  if (identity.cluster_id.size() > kClusterIdMax)
    return make_error<InvalidArgumentError>("the id of a cluster has " + std::to_string(identity.cluster_id.size()) +
                                            " bytes, and may have " + std::to_string(kClusterIdMax));
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return failed("cannot make the head's journal", path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return failed("another head writes the journal", path);
  if (::ftruncate(file.get(), 0) != 0) return failed("cannot empty the head's journal", path);
  std::vector<std::byte> bytes(kIdentityFixed + identity.cluster_id.size());
  store_little(bytes.data(), kMagic);
  store_little(bytes.data() + 8, identity.seed);
  store_little(bytes.data() + 16, identity.incarnation);
  store_little(bytes.data() + 24, static_cast<std::uint32_t>(identity.cluster_id.size()));
  std::memcpy(bytes.data() + kIdentityFixed, identity.cluster_id.data(), identity.cluster_id.size());
  if (::pwrite(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return failed("cannot write the head's journal", path);
  std::unique_ptr<Journal> journal(new Journal(path, std::move(file), bytes_max));
  journal->identity_ = identity;
  journal->begin_ = journal->end_ = bytes.size();
  return journal;
}

Result<std::unique_ptr<Journal>> Journal::recover(const std::string& path, std::uint64_t bytes_max) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file)
    return make_error<NotFoundError>("the head that was here cannot be started again: there is no journal of it at " +
                                     path + " (it kept none, or gave it up: its log says why)");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return failed("another head writes the journal", path);
  std::unique_ptr<Journal> journal(new Journal(path, std::move(file), bytes_max));
  if (Status status = journal->read_identity(); !status.ok()) return status.error_ptr();
  return journal;
}

Status Journal::read_identity() {
  const Status broken =
      make_error<InvalidArgumentError>(path_ + " is not the journal of a head, or one of another version");
  std::byte fixed[kIdentityFixed];
  if (!read_at(file_.get(), fixed, sizeof fixed, 0) || load_little<std::uint64_t>(fixed) != kMagic) return broken;
  identity_.seed = load_little<std::uint64_t>(fixed + 8);
  identity_.incarnation = load_little<std::uint64_t>(fixed + 16);
  const auto size = load_little<std::uint32_t>(fixed + 24);
  if (size > kClusterIdMax) return broken;
  identity_.cluster_id.resize(size);
  if (!read_at(file_.get(), identity_.cluster_id.data(), size, kIdentityFixed)) return broken;
  begin_ = end_ = kIdentityFixed + size;
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) return failed("cannot look at the head's journal", path_);
  const Mapped file(file_.get(), static_cast<std::uint64_t>(info.st_size));
  if (file.bytes().size() < begin_) return broken;
  ByteView rest = file.bytes().subspan(begin_);
  for (Record record; take_record(rest, record);) {}
  end_ = file.bytes().size() - rest.size();  // HJ-1
  if (::ftruncate(file_.get(), static_cast<off_t>(end_)) != 0) return failed("cannot cut the head's journal", path_);
  return {};
}

Status Journal::replay(const std::function<bool(const Record&)>& take) const {
  const Mapped file(file_.get(), end_);
  if (file.bytes().size() < begin_) return failed("cannot read the head's journal", path_);
  ByteView rest = file.bytes().subspan(begin_);
  for (Record record; take_record(rest, record);)
    if (!take(record))
      return make_error<InvalidArgumentError>("the head's journal " + path_ +
                                              " does not fit this program: it was written by another build?");
  return {};
}

void Journal::append(const Record& record, ByteView more) {
  if (!file_) return;
  std::byte fixed[4 + kRecordFixed];
  const std::size_t size = kRecordFixed + record.bytes.size() + more.size();
  store_little(fixed, static_cast<std::uint32_t>(size));
  fixed[4] = static_cast<std::byte>(record.kind);
  store_little(fixed + 5, static_cast<std::int64_t>(record.time.count()));
  store_little(fixed + 13, record.a);
  store_little(fixed + 21, record.b);
  if (end_ + 4 + size > bytes_max_)
    return give_up("it has reached " + std::to_string(bytes_max_ >> 20) + " MiB");
  const auto part = [](ByteView bytes) { return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()}; };
  const iovec parts[] = {part(fixed), part(record.bytes), part(more)};
  if (::pwritev(file_.get(), parts, 3, static_cast<off_t>(end_)) != static_cast<ssize_t>(4 + size))
    return give_up("it cannot be written: " + std::string(std::strerror(errno)));
  end_ += 4 + size;
}

void Journal::give_up(const std::string& why) {
  write_log(LogLevel::kWarn, "the journal {} is given up, and this head cannot be started again: {}", path_, why);
  ::unlink(path_.c_str());
  file_.reset();
}

}  // namespace troupe::head
