// NCCL and CUDA IPC on a real GPU: the nccl backend with one rank, and with several processes on one GPU by the recipe
// that NCCL's sources allow (an NCCL_HOSTID for each, sockets on loopback: it shows that results are right, never how
// fast); a rank that never comes; memory of one process read by another.
//
//   gpu_collectives one | ranks N | missing | ipc          each in processes of its own; the program starts itself
//                                                          again for them
//
// TROUPE_CUDA_LIB and TROUPE_NCCL_LIB name plug-in and NCCL. Exit code: 0 all right, 1 something is wrong, 2 wrong
// usage, 77 it cannot be done here (a skip): no GPU, no NCCL, or a call that the system refuses, with its number.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "collective/device/device_storage.h"
#include "collective/nccl/library.h"
#include "collective/nccl/own_gpu.h"
#include "kernels/cuda/plugin.h"
#include "kernels/cuda/plugin_file.h"
#include <troupe/collective.h>

namespace {

using namespace troupe;
using namespace troupe::collective;

constexpr int kSkip = 77;
constexpr unsigned kLimitSeconds = 150;

int skip(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  return kSkip;
}

int failures = 0;
void expect(bool ok, const std::string& what) {
  if (ok) return;
  ++failures;
  std::printf("FAILED: %s\n", what.c_str());
}

/// Device memory of n floats.
class Floats {
 public:
  Floats(const std::shared_ptr<GpuDevice>& device, std::size_t n, float value)
      : storage_(DeviceStorage::make(device, n * sizeof(float)).value()), n_(n) {
    fill(value);
  }
  std::span<float> span() const { return {reinterpret_cast<float*>(storage_->data()), n_}; }
  void fill(float value) { storage_->copy_from(std::vector<float>(n_, value).data()); }
  std::vector<float> values() const {
    std::vector<float> host(n_);
    storage_->copy_to(host.data());
    return host;
  }
  bool all(float value) const {
    for (float x : values())
      if (x != value) return false;
    return true;
  }
  DeviceStorage& storage() { return *storage_; }

 private:
  std::shared_ptr<DeviceStorage> storage_;
  std::size_t n_;
};

/// Every operation on device memory, and some on the host's.
void all_operations(Group g, const std::shared_ptr<GpuDevice>& device, std::size_t n) {
  const int me = g.rank(), ranks = g.size();
  const auto size = std::size_t(ranks);
  const float mine = float(me + 1), sum = float(ranks * (ranks + 1) / 2);
  const std::string at = " of " + std::to_string(n) + " on rank " + std::to_string(me);
  Floats x(device, n, mine), whole(device, n * size, mine), part(device, n, 0);
  g.all_reduce(x.span());
  expect(x.all(sum), "all_reduce" + at);
  x.fill(mine);
  g.all_reduce(x.span(), part.span(), Op::pre_mul_sum(0.5));
  expect(part.all(sum / 2), "all_reduce, pre_mul_sum" + at);
  g.all_reduce(x.span(), part.span(), Op::kMax);
  expect(part.all(float(ranks)), "all_reduce, max" + at);
  g.reduce(x.span(), part.span(), ranks - 1, Op::kMin);
  expect(me != ranks - 1 || part.all(1), "reduce, min" + at);
  g.reduce_scatter(whole.span(), part.span());
  expect(part.all(sum), "reduce_scatter" + at);
  x.fill(mine);
  g.broadcast(x.span(), ranks - 1);
  expect(x.all(float(ranks)), "broadcast" + at);
  x.fill(mine);
  const auto in_rank_order = [&](const std::vector<float>& got) {
    for (std::size_t i = 0; i < got.size(); ++i)
      if (got[i] != float(i / n + 1)) return false;
    return true;
  };
  g.all_gather(x.span(), whole.span());
  expect(in_rank_order(whole.values()), "all_gather" + at);
  whole.fill(mine);
  Floats turned(device, n * size, 0);
  g.all_to_all(whole.span(), turned.span());
  expect(in_rank_order(turned.values()), "all_to_all" + at);
  turned.fill(0);
  g.gather(x.span(), turned.span(), 0);
  expect(me != 0 || in_rank_order(turned.values()), "gather" + at);
  g.all_gather_v(x.span(), turned.span(), std::vector<std::size_t>(size, n));
  expect(in_rank_order(turned.values()), "all_gather_v" + at);
  Work sent = g.send_async(x.span(), (me + 1) % ranks, 3);
  g.recv(part.span(), (me + ranks - 1) % ranks, 3);
  sent.wait();
  expect(part.all(float((me + ranks - 1) % ranks + 1)), "send and recv" + at);
  std::vector<double> host(n, mine);
  g.all_reduce(host, Op::kAvg);
  expect(host[n - 1] == double(sum) / ranks, "all_reduce of the host's memory, avg" + at);
  std::vector<bfloat16> small(n, bfloat16(mine));
  g.all_reduce(small);
  expect(float(small[0]) == sum, "all_reduce of bfloat16" + at);
  Group half = g.split(me % 2, -me);
  x.fill(1);
  half.all_reduce(x.span());
  expect(x.all(float(half.size())), "split" + at);
  g.barrier();
}

/// D.8: kernels on the default stream, then an operation that names no stream, and no wait between: what it reads is
/// what they wrote.
void after_kernels(Group g, const std::shared_ptr<GpuDevice>& device) {
  constexpr std::size_t kCount = std::size_t(1) << 22;
  constexpr int kRounds = 50, kBefore = 20;
  const auto plugin = kernels::cuda::PluginFile::find();
  const auto kernels = plugin.ok()
                           ? plugin->table<kernels::cuda::Table>(kernels::cuda::kTableSymbol, kernels::cuda::kPluginAbi)
                           : plugin.error_ptr();
  if (!kernels.ok()) return expect(false, "the kernels of the plug-in: " + std::string(kernels.error().message()));
  Floats x(device, kCount, 0), busy(device, kCount * 4, 0), out(device, kCount, 0);
  const auto fill = [&](const Floats& memory, int byte) {
    expect((*kernels)->fill({.stream = nullptr, .version = 0}, memory.span().data(), byte,
                            memory.span().size_bytes()) == 0,
           "fill");
  };
  for (int round = 1; round <= kRounds && failures == 0; ++round) {
    for (int i = 0; i < kBefore; ++i) fill(busy, i);  // so that the one that counts is late
    fill(x, round);
    g.all_reduce(x.span(), out.span(), Op::kMax);
    const auto bits = std::uint32_t(round) * 0x01010101u;
    float wanted = 0;
    std::memcpy(&wanted, &bits, sizeof wanted);
    expect(out.all(wanted), "an all_reduce did not wait for the kernel before it, round " + std::to_string(round));
  }
}

/// D.10: while this rank's kernel waits for rank 1, a copy to the host comes back, and only then is rank 1 told to
/// come.
void copy_beside_a_waiting_kernel(Group g, const std::shared_ptr<GpuDevice>& device, const std::string& path) {
  Floats x(device, 1000, 1), other(device, 1000, 7);
  const std::string sign = path + ".copied";
  if (g.rank() == 0) {
    Work work = g.all_reduce_async(x.span());
    expect(other.all(7), "a copy beside a kernel that waits");
    const int fd = ::open(sign.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    expect(fd >= 0, sign);
    if (fd >= 0) ::close(fd);
    work.wait();
  } else {
    if (g.rank() == 1)
      while (::access(sign.c_str(), F_OK) != 0) ::usleep(1000);  // the alarm ends it
    g.all_reduce(x.span());
  }
  expect(x.all(float(g.size())), "the sum");
  g.barrier();
  if (g.rank() == 0) ::unlink(sign.c_str());
}

int rank_of_group(int rank, int ranks, const std::string& path) {
  const auto device = own_gpu();
  if (!device.ok()) return skip(device.error().what());
  const bool named = ::getenv("NCCL_SOCKET_IFNAME") != nullptr;
  Group g =
      join("gpus", rank, ranks, {.address = path, .timeout = std::chrono::seconds(120), .backend = Backend::kNccl});
  expect(named || ::getenv("NCCL_SOCKET_IFNAME") == nullptr,
         "D.7: a group of one host has left its interface to all later ones");
  for (std::size_t n : {std::size_t(1), std::size_t(1000), std::size_t(1) << 20}) all_operations(g, *device, n);
  after_kernels(g, *device);
  if (ranks > 1) copy_beside_a_waiting_kernel(g, *device, path);
  if (rank == 0)
    std::printf("%d rank%s: NCCL %s, every operation done\n", ranks, ranks == 1 ? "" : "s",
                version_text((*device)->tables().nccl_version).c_str());
  return failures == 0 ? 0 : 1;
}

/// Two ranks, of which one never comes: the other's wait ends at its deadline, and NCCL is aborted.
int missing_rank() {
  const auto device = own_gpu();
  if (!device.ok()) return skip(device.error().what());
  if (!(*device)->tables().nccl) return skip("no NCCL");
  NcclUniqueId id{};
  if ((*device)->nccl().get_unique_id(&id) != kNcclSuccess) return skip("ncclGetUniqueId failed: no network interface");
  struct Quiet final : Communicator {  // control links of a group whose other rank is elsewhere
    int rank() const override { return 0; }
    int size() const override { return 2; }
    Backend backend() const override { return Backend::kShm; }
    std::uint64_t epoch() const override { return 1; }
    bool run(const collective::detail::Operation&, Patience&) override { return true; }
    bool agree_on(const Signature&, Patience&) override { return true; }
    void post(Transfer&) override {}
    bool pump() override { return false; }
    bool wait_messages(Clock::time_point, Environment*) override { return true; }
    void nudge() override {}
    bool stale() override { return false; }
    void fail(const Failure& failure) override { if (!why) why = failure; }
    std::optional<Failure> failure() override { return why; }
    std::unique_ptr<Communicator> split(int, int, Patience&) override { return nullptr; }
    std::optional<Failure> why;
  };
  auto control = std::make_shared<Quiet>();
  auto comm = NcclComm::begin(**device, {.name = "missing", .ranks = 2, .rank = 0, .id = id}, control);
  Patience patience(std::chrono::seconds(5), nullptr);
  expect(!comm->await_ready(patience), "a group of two was ready with one");
  expect(control->why && control->why->reason == Reason::kTimeout, "the deadline was not what ended it");
  expect((*device)->side().await_idle(std::chrono::seconds(30)), "the abort did not return");
  std::printf("a rank that never came: %s\n", control->why ? control->why->text.c_str() : "nothing was said");
  return failures == 0 ? 0 : 1;
}

/// The child's side of ipc: reads a ticket and a size, answers with the sum.
int import_from(int socket) {
  DeviceTicket ticket;
  if (::read(socket, &ticket, sizeof ticket) != ssize_t(sizeof ticket)) return 1;
  SlabImports imports;
  auto storage = DeviceStorage::import(own_gpu().value(), ticket, imports, nullptr);
  if (!storage.ok()) return skip(std::string(storage.error().what()) + ", errno " + std::to_string(errno));
  std::vector<float> host(ticket.bytes / sizeof(float));
  (*storage)->copy_to(host.data());
  const double total = std::accumulate(host.begin(), host.end(), 0.0);
  return ::write(socket, &total, sizeof total) == ssize_t(sizeof total) ? 0 : 1;
}

// ----------------------------------------------------------------------------------------------------------- processes

int start(const std::vector<std::string>& words) {
  const int pid = ::fork();
  if (pid != 0) return pid;
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv("/proc/self/exe", arguments.data());
  ::_exit(127);
}
int wait_for(int pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// One process a rank; NCCL reads these variables once a process, so they are set before it is started.
int several(int ranks) {
  const std::string path = "/tmp/troupe-gpu-ranks-" + std::to_string(::getpid());
  const std::pair<const char*, const char*> recipe[] = {
      {"CUDA_VISIBLE_DEVICES", "0"}, {"NCCL_NET", "Socket"},       {"NCCL_IB_DISABLE", "1"},
      {"NCCL_NET_PLUGIN", "none"},   {"NCCL_SOCKET_IFNAME", "lo"}, {"NCCL_SOCKET_FAMILY", "AF_INET"},
      {"NCCL_P2P_DISABLE", "1"},     {"NCCL_SHM_DISABLE", "1"},    {"NCCL_NVLS_ENABLE", "0"},
      {"NCCL_MNNVL_ENABLE", "0"},    {"NCCL_MAX_CTAS", "1"},       {"NCCL_BUFFSIZE", "1048576"},
      {"NCCL_RAS_ENABLE", "0"},      {"NCCL_DEBUG", "WARN"}};
  for (const auto& [name, value] : recipe) ::setenv(name, value, 1);
  std::vector<int> pids;
  for (int r = 0; r < ranks; ++r) {
    ::setenv("NCCL_HOSTID", (path + "-r" + std::to_string(r)).c_str(), 1);
    pids.push_back(start({"gpu_collectives", "rank", std::to_string(r), std::to_string(ranks), path}));
  }
  int worst = 0;
  for (int pid : pids) {
    const int code = wait_for(pid);
    if (code != 0 && worst != 1) worst = code == kSkip ? kSkip : 1;
  }
  return worst;
}

int ipc() {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return skip("socketpair: errno " + std::to_string(errno));
  ::fcntl(sockets[0], F_SETFD, FD_CLOEXEC);  // the importer hears when this end is closed
  const int pid = start({"gpu_collectives", "import", std::to_string(sockets[1])});  // before CUDA is touched here
  ::close(sockets[1]);
  const auto device = own_gpu();
  int code = 0;
  {
    if (!device.ok()) code = skip(device.error().what());
    std::string why;
    DeviceTicket ticket;
    std::unique_ptr<Floats> data;
    if (code == 0) {
      data = std::make_unique<Floats>(*device, 1000, 0.5f);
      data->storage().freeze();
      ticket = data->storage().ticket(std::uint64_t(::getpid()), 1, why);
      if (!ticket.by_ipc) code = skip("cudaIpcGetMemHandle is refused: " + why + ", errno " + std::to_string(errno));
    }
    double total = 0;
    if (code == 0 && (::write(sockets[0], &ticket, sizeof ticket) != ssize_t(sizeof ticket) ||
                      ::read(sockets[0], &total, sizeof total) != ssize_t(sizeof total)))
      code = -1;
    ::close(sockets[0]);
    const int child = wait_for(pid);
    if (code == -1) return child == kSkip ? kSkip : 1;
    if (code == 0) expect(total == 500, "the importer saw " + std::to_string(total));
  }
  if (code == 0 && failures == 0) std::printf("another process read 1,000 floats of this one's GPU memory\n");
  return failures != 0 ? 1 : code;
}

int usage() {
  std::fprintf(stderr, "usage: gpu_collectives one | ranks N | missing | ipc\n");
  return 2;
}

int run(const std::vector<std::string>& words) {
  ::alarm(kLimitSeconds);
  if (words.empty()) return usage();
  if (words[0] == "one") return rank_of_group(0, 1, "/tmp/troupe-gpu-one-" + std::to_string(::getpid()));
  if (words[0] == "missing") return missing_rank();
  if (words[0] == "ipc") return ipc();
  if (words[0] == "ranks" && words.size() == 2) return several(std::atoi(words[1].c_str()));
  if (words[0] == "rank" && words.size() == 4)
    return rank_of_group(std::atoi(words[1].c_str()), std::atoi(words[2].c_str()), words[3]);
  if (words[0] == "import" && words.size() == 2) return import_from(std::atoi(words[1].c_str()));
  return usage();
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(std::vector<std::string>(words + 1, words + count));
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}
