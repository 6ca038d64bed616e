#include "core/head/service/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/fd.h"
#include "core/head/service/journal.h"
#include "core/head/service/shell.h"
#include "core/head/state/unique_text.h"
#include "core/net/link/link.h"

namespace troupe::head {
namespace {

/// What the transport's threads have seen, for the loop's thread.
class Inbox final : public net::LinkEvents {
 public:
  struct Item {
    enum class Kind { kOpen, kBatch, kClosed } kind;
    net::LinkId link = 0;
    std::vector<std::byte> frames = {};
    std::uint64_t incarnation = 0;  ///< of the peer of a link that opened
    bool nobody_there = false;      ///< of one that never did
  };

  Inbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void on_open(net::LinkId link, const net::LinkPeer& peer) override {
    put({.kind = Item::Kind::kOpen, .link = link, .incarnation = peer.proven.incarnation});
  }
  void on_batch(net::LinkId link, ByteView frames) override {
    put({.kind = Item::Kind::kBatch, .link = link, .frames = {frames.begin(), frames.end()}});
  }
  void on_closed(net::LinkId link, const Status& why) override {
    put({.kind = Item::Kind::kClosed,
         .link = link,
         .nobody_there = !why.ok() && why.error().code() == ErrorCode::kNotFound});
  }

  int fd() const { return event_.get(); }
  std::vector<Item> take() {
    std::uint64_t count;
    [[maybe_unused]] auto got = ::read(event_.get(), &count, sizeof count);
    std::lock_guard lock(mutex_);
    return std::exchange(items_, {});
  }

 private:
  void put(Item item) {
    bool first;
    {
      std::lock_guard lock(mutex_);
      first = items_.empty();
      items_.push_back(std::move(item));
    }
    const std::uint64_t one = 1;
    if (first) [[maybe_unused]] auto put = ::write(event_.get(), &one, sizeof one);
  }

  UniqueFd event_;
  std::mutex mutex_;
  std::vector<Item> items_;
};

Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

class Server {
 public:
  Server(const ServerOptions& options, StateOptions state, Journal::Identity identity,
         std::unique_ptr<Journal> journal)
      : options_(options),
        identity_(std::move(identity)),
        journal_(std::move(journal)),
        shell_(std::move(state), identity_.incarnation, &now),
        stop_fd_(options.stop_fd) {}

  Result<std::string> start();
  void run();
  void shutdown() {
    if (links_) links_->shutdown();
    if (options_.on_end) tell_last_rows();
  }

 private:
  void tell_last_rows();
  void take_in(Inbox::Item& item);
  bool ended(std::span<pollfd> fds);
  int timeout_ms() const;

  const ServerOptions& options_;
  const Journal::Identity identity_;
  std::unique_ptr<Journal> journal_;  ///< null: none is kept
  Inbox inbox_;
  std::unique_ptr<net::Links> links_;
  Shell shell_;
  UniqueFd parent_, signals_;
  int stop_fd_ = -1;
};

void Server::tell_last_rows() {
  using enum wire::StateKind;
  try {
    for (const wire::StateKind kind : {kNodes, kJobs, kActors, kMetrics})
      options_.on_end(kind, shell_.state().rows(kind));
  } catch (const std::exception& error) {  // no memory: the end goes on all the same
    write_log(LogLevel::kWarn, "the last rows are not kept: {}", error.what());
  }
}

Result<std::string> Server::start() {
  Result<net::Token> token = net::Token::read_file(options_.token_file);
  if (!token.ok()) return token.error_ptr();
  if (options_.own_process) {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGTERM);
    ::sigaddset(&set, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);  // before any thread: they inherit it
    signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  if (options_.parent_pid != 0) {
    parent_.reset(static_cast<int>(::syscall(SYS_pidfd_open, options_.parent_pid, 0)));
    if (!parent_)
      return NotFoundError("the process that this head serves (pid " + std::to_string(options_.parent_pid) +
                           ") is gone");
  }
  net::LinksOptions links;
  links.identity = {.token = *token,
                    .cluster_id = identity_.cluster_id,
                    .build = {},
                    .hello = "head",
                    .role = net::ProofRole::kHead,
                    .incarnation = identity_.incarnation,
                    .epoch = options_.epoch};
  links.library = options_.rpc_library;
  Result<std::unique_ptr<net::Links>> opened = options_.open_links(inbox_, links);
  if (!opened.ok()) return opened.error_ptr();
  links_ = std::move(*opened);
  shell_.use(*links_);
  Result<int> port = links_->listen({.address = options_.bind, .port = options_.port});
  if (!port.ok()) return port.error_ptr();
  if (options_.recover) {
    if (Status status = shell_.recover(*journal_); !status.ok()) return status.error_ptr();
  } else if (journal_) {
    shell_.note_in(*journal_);
  }
  return options_.bind + ":" + std::to_string(*port);
}

void Server::run() {
  while (true) {
    pollfd fds[] = {
        {inbox_.fd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {parent_.get(), POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    ::poll(fds, std::size(fds), timeout_ms());
    for (Inbox::Item& item : inbox_.take()) take_in(item);
    shell_.tick();
    if (ended(fds)) return;
  }
}

int Server::timeout_ms() const {
  std::optional<Time> next = shell_.next_deadline();
  if (!next) return -1;  // nothing will happen until something arrives
  auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

bool Server::ended(std::span<pollfd> fds) {
  if (fds[1].revents != 0) return write_log(LogLevel::kInfo, "ends: asked to by a signal"), true;
  if (fds[2].revents != 0) return write_log(LogLevel::kInfo, "ends: the process that it serves is gone"), true;
  if ((fds[3].revents & (POLLIN | POLLHUP)) == 0) return false;
  char word[16];
  const auto got = ::read(stop_fd_, word, sizeof word);  // poll said that it does not block
  if (got > 0) return write_log(LogLevel::kInfo, "ends: told to"), true;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (options_.end_on_hangup) return write_log(LogLevel::kInfo, "ends: whoever started it is gone"), true;
  stop_fd_ = -1;  // hung up for good, which is nobody's business: poll would report it for ever
  return false;
}

void Server::take_in(Inbox::Item& item) {
  switch (item.kind) {
    case Inbox::Item::Kind::kOpen: return shell_.opened(item.link, item.incarnation);
    case Inbox::Item::Kind::kBatch: return shell_.batch(item.link, item.frames);
    case Inbox::Item::Kind::kClosed: return shell_.closed(item.link, item.nobody_there);
  }
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace

int head_main(const ServerOptions& options) {
  if (options.own_process) {
    open_log(options.log);
    raise_descriptor_limit();
  }
  std::uint8_t seed[8] = {};
  auto ready = [&](const Result<std::string>& address) {
    if (!address.ok()) write_log(LogLevel::kError, "cannot start: {}", address.error().message());
    if (options.on_ready) options.on_ready(address);
    return address.ok();
  };
  if (Status random = net::fill_random(seed); !random.ok()) return ready(random.error_ptr()), 1;
  Journal::Identity self{options.cluster_id, load_little<std::uint64_t>(reinterpret_cast<const std::byte*>(seed)), 0};
  std::unique_ptr<Journal> journal;
  if (options.recover) {
    Result<std::unique_ptr<Journal>> found = Journal::recover(options.journal);
    if (!found.ok()) return ready(found.error_ptr()), 1;
    journal = std::move(*found);
    self = journal->identity();
  } else {
    Random names(self.seed, 1);
    if (self.cluster_id.empty()) self.cluster_id = unique_text(names);
    Result<std::uint64_t> incarnation = net::draw_incarnation();
    if (!incarnation.ok()) return ready(incarnation.error_ptr()), 1;
    self.incarnation = *incarnation;
    if (!options.journal.empty()) {
      Result<std::unique_ptr<Journal>> made = Journal::create(options.journal, self);
      if (!made.ok()) return ready(made.error_ptr()), 1;
      journal = std::move(*made);
    }
  }
  StateOptions state{.membership = options.membership, .seed = self.seed};
  state.membership.cluster_id = self.cluster_id;
  state.membership.epoch = options.epoch;
  if (options.parent_pid != 0) state.membership.served_pid = options.parent_pid;

  Server server(options, state, self, std::move(journal));
  Result<std::string> address = server.start();
  if (!ready(address)) return 1;
  write_log(LogLevel::kInfo, "cluster {} at {}, pid {}", self.cluster_id, *address, ::getpid());
  server.run();
  server.shutdown();
  return 0;
}

}  // namespace troupe::head
