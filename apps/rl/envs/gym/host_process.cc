#include "apps/rl/envs/gym/host_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/envs/gym/gym_host_text.h"

extern char** environ;

namespace rl {
namespace {

using std::chrono::steady_clock;

constexpr int kFirstFreeNumber = 8;                  // behind those of host_memory.h
constexpr std::uint32_t kFrameBytesMost = 16 << 20;  // bounds of every pixel of a large picture, as JSON

struct Pipe {
  OwnedFd read, write;
};

troupe::Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_failure("pipe");
  return Pipe{OwnedFd(ends[0]), OwnedFd(ends[1])};
}

void never_block(const OwnedFd& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

/// The program's text, read-only from its beginning for whoever opens it by /proc.
troupe::Result<OwnedFd> program_text() {
  OwnedFd fd(::memfd_create("gym_host.py", MFD_CLOEXEC));
  if (!fd) return system_failure("memfd_create");
  for (std::string_view rest = gym_host_text(); !rest.empty();) {
    const ssize_t written = ::write(fd.get(), rest.data(), rest.size());
    if (written < 0) return system_failure("write");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return fd;
}

/// What posix_spawn is told: descriptors at their numbers, signals as at a start, a group of its own.
class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);  // HPR-1
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  /// Through a number that no target has, so that none is overwritten before it is copied.
  bool give(int fd, int number) {
    OwnedFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 64));
    if (!copy) return false;
    ::posix_spawn_file_actions_adddup2(&actions_, copy.get(), number);
    copies_.push_back(std::move(copy));
    return true;
  }
  /// 0, or the error.
  int run(pid_t* pid, const std::string& program, std::vector<std::string> arguments) {
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kFirstFreeNumber);  // HPR-3
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    return ::posix_spawnp(pid, program.c_str(), &actions_, &attributes_, argv.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  std::vector<OwnedFd> copies_;
};

std::string describe(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return fmt::format("exited with code {}", info.si_status);
  return fmt::format("was ended by signal {} ({})", info.si_status, ::strsignal(info.si_status));
}

}  // namespace

troupe::Result<std::unique_ptr<HostProcess>> HostProcess::start(const HostProcessOptions& options) {
  std::unique_ptr<HostProcess> host(new HostProcess(options));
  if (troupe::Status spawned = host->spawn(); !spawned.ok()) return spawned.error_ptr();
  return host;
}

troupe::Status HostProcess::spawn() {
  auto commands = make_pipe(), answers = make_pipe(), output = make_pipe(), lifeline = make_pipe();
  for (const auto* made : {&commands, &answers, &output, &lifeline})
    if (!made->ok()) return made->error_ptr();
  auto text = program_text();
  if (!text.ok()) return text.error_ptr();
  SpawnPlan plan;
  const std::array<std::pair<int, int>, 7> places{{{output->write.get(), 1},
                                                   {output->write.get(), 2},
                                                   {options_.memory_fd, 3},
                                                   {commands->read.get(), 4},
                                                   {answers->write.get(), 5},
                                                   {lifeline->read.get(), 6},
                                                   {text->get(), 7}}};
  for (const auto& [fd, number] : places)
    if (!plan.give(fd, number)) return system_failure("dup");
  if (const int error = plan.run(&pid_, options_.python, {options_.python, "/proc/self/fd/7", options_.label}))
    return troupe::NotFoundError(fmt::format("cannot run \"{}\": {}; name the Python that has gymnasium",
                                             options_.python, std::strerror(error)));
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  commands_ = std::move(commands->write);
  commands_far_end_ = std::move(commands->read);  // kept: writing to a dead child is no SIGPIPE
  answers_ = std::move(answers->read);
  output_ = std::move(output->read);
  lifeline_ = std::move(lifeline->write);
  never_block(commands_), never_block(answers_), never_block(output_);
  if (!pidfd_) {
    const int error = errno;
    end();
    return system_failure("pidfd_open", error);
  }
  return {};
}

HostProcess::~HostProcess() {
  if (reaped_ || pid_ < 0) return;
  commands_.reset();
  commands_far_end_.reset();
  ended_by(steady_clock::now() + options_.grace);
  end();
}

/// HPR-4. Reads what the child prints meanwhile. The answer counts first: a child may answer and end.
HostProcess::Heard HostProcess::poll_once(int fd, short events, Time deadline) {
  for (;;) {
    std::array<pollfd, 4> polled{{{fd, events, 0}, {output_.get(), POLLIN, 0}, {pidfd_.get(), POLLIN, 0},
                                  {options_.cancel_fd, POLLIN, 0}}};
    const auto left = std::chrono::ceil<std::chrono::nanoseconds>(deadline - steady_clock::now());
    const std::int64_t ns = std::max<std::int64_t>(left.count(), 0);
    const timespec timeout{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    const int ready = ::ppoll(polled.data(), polled.size(), &timeout, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return Heard::kGone;
    if (polled[1].revents != 0) drain();
    if (polled[0].revents != 0) return (polled[0].revents & events) != 0 ? Heard::kBell : Heard::kGone;
    if (polled[3].revents != 0) return Heard::kCancelled;
    if (polled[2].revents != 0) return Heard::kGone;
    if (steady_clock::now() >= deadline) return Heard::kLate;  // one that prints without end is late, too
  }
}

void HostProcess::drain() {
  std::array<char, 4096> buffer;
  for (int turn = 0; turn < 16; ++turn) {  // one that prints without end must not keep us from the deadline
    const ssize_t count = ::read(output_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    if (count == 0) return output_.reset();
    tail_.add({buffer.data(), static_cast<std::size_t>(count)});
  }
}

HostProcess::Heard HostProcess::send_frame(std::string_view text, Time deadline) {
  std::string frame(sizeof(std::uint32_t), '\0');
  for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  frame += text;
  for (std::string_view rest = frame; !rest.empty();) {
    const ssize_t count = ::write(commands_.get(), rest.data(), rest.size());
    if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
    else if (const Heard heard = poll_once(commands_.get(), POLLOUT, deadline); heard != Heard::kBell) return heard;
  }
  return Heard::kBell;
}

HostProcess::Heard HostProcess::receive_bytes(char* into, std::size_t count, Time deadline) {
  while (count > 0) {
    const ssize_t got = ::read(answers_.get(), into, count);
    if (got == 0) return Heard::kGone;
    if (got < 0) {
      if (const Heard heard = poll_once(answers_.get(), POLLIN, deadline); heard != Heard::kBell) return heard;
      continue;
    }
    into += got;
    count -= static_cast<std::size_t>(got);
  }
  return Heard::kBell;
}

HostProcess::Heard HostProcess::receive_frame(std::string& text, Time deadline) {
  std::array<char, sizeof(std::uint32_t)> head;
  if (const Heard heard = receive_bytes(head.data(), head.size(), deadline); heard != Heard::kBell) return heard;
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < head.size(); ++i)
    length |= std::uint32_t{static_cast<unsigned char>(head[i])} << (8 * i);
  if (length > kFrameBytesMost) return Heard::kGarbage;
  text.resize(length);
  return receive_bytes(text.data(), text.size(), deadline);
}

void HostProcess::ring() {
  constexpr char kBell = 1;
  [[maybe_unused]] const ssize_t one = ::write(commands_.get(), &kBell, 1);  // a child that is gone is seen by wait
}

HostProcess::Heard HostProcess::wait(Time deadline) {
  char bell = 0;
  return receive_bytes(&bell, 1, deadline);
}

/// Whether it has ended; waits for that until the deadline, and reads what it prints.
bool HostProcess::ended_by(Time deadline) {
  for (;;) {
    // A child that was never seen by a pidfd is only killed: there is nothing to wait with.
    if (!pidfd_) return false;
    std::array<pollfd, 2> polled{{{pidfd_.get(), POLLIN, 0}, {output_.get(), POLLIN, 0}}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0 && polled[1].revents != 0) drain();
    if (ready > 0 && polled[0].revents != 0) return true;
    if (steady_clock::now() >= deadline) return false;
  }
}

/// HPR-5. The leader's number stays taken until it is reaped, so the group that gets the signals is ours.
void HostProcess::end() {
  if (reaped_ || pid_ < 0) return;
  if (!ended_by(steady_clock::now())) {
    ::kill(-pid_, SIGTERM);
    ended_by(steady_clock::now() + options_.grace);
  }
  ::kill(-pid_, SIGKILL);  // whoever is left of the group, too
  constexpr std::chrono::seconds kKernelNeeds{10};  // to end what was killed, on a machine that swaps
  ended_by(steady_clock::now() + kKernelNeeds);
  reap();
}

void HostProcess::reap() {
  reaped_ = true;
  siginfo_t info{};
  how_ = "does not end, though it was killed";
  int waited;
  do {
    waited = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | (pidfd_ ? WNOHANG : 0));
  } while (waited != 0 && errno == EINTR);
  if (waited == 0 && info.si_pid == pid_) how_ = describe(info);
  if (waited != 0) how_ = "has ended";  // somebody else reaped it
  if (output_) drain();
  for (OwnedFd* fd : {&pidfd_, &commands_, &commands_far_end_, &answers_, &output_, &lifeline_}) fd->reset();
}

}  // namespace rl
