#include "core/process/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "core/base/random.h"
#include "core/owner/store_requests.h"
#include "core/process/group_port.h"

namespace troupe::worker {

namespace {
constexpr long kFlushDelayNs = 5'000'000;
constexpr auto kCountWait = std::chrono::seconds(5);
constexpr std::int64_t kPollMaxMs = 60'000;
constexpr std::size_t kWelcomeDescriptors = 7;
}  // namespace

// --------------------------------------------------------------------------------------------------------------- start

Process::Process(ProcessOptions options) : options_(std::move(options)), executors_([this] { kill(); }) {}

Result<std::unique_ptr<Process>> Process::start(ProcessOptions options) {
  std::unique_ptr<Process> process(new Process(std::move(options)));
  if (Status status = process->connect(); !status.ok()) return status.error_ptr();
  process->service_ = std::thread([raw = process.get()] { raw->service_loop(); });
  return process;
}

Status Process::connect() {
  if (options_.socket) {
    socket_ = std::move(options_.socket);
  } else {
    Result<UniqueFd> socket = node::connect_boot_socket(options_.socket_path);
    if (!socket.ok()) return socket.error_ptr();
    socket_ = *std::move(socket);
  }
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  flush_timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  // The endpoint's own id is known only with the welcome: the hello carries its descriptors, so it is made first.
  Result<std::unique_ptr<net::Endpoint>> endpoint = net::Endpoint::create({.self = {}});
  if (!endpoint.ok()) return endpoint.error_ptr();
  endpoint_ = *std::move(endpoint);
  Result<bool> sent = node::send_message(socket_.get(), wire::BootKind::kHello, options_.hello,
                                         {endpoint_->doorbell_fd(), endpoint_->event_fd()});
  if (!sent.ok()) return sent.error_ptr();
  Result<node::BootPacket> packet = node::wait_packet(socket_.get(), options_.connect_timeout);
  if (!packet.ok()) return packet.error_ptr();
  if (packet->kind == wire::BootKind::kRefused) {
    Result<wire::Refused> refused = wire::decode_message<wire::Refused>(packet->payload);
    return refused.ok() ? Error::make(refused->error) : refused.error_ptr();
  }
  Result<wire::Welcome> welcome = wire::decode_message<wire::Welcome>(packet->payload);
  if (!welcome.ok()) return welcome.error_ptr();
  if (packet->fds.size() < kWelcomeDescriptors)
    return InvalidArgumentError("the node daemon's welcome lacks descriptors");
  return become_core(*std::move(welcome), *packet);
}

Status Process::become_core(wire::Welcome welcome, node::BootPacket& packet) {
  const ProcessId daemon = daemon_of(welcome.self.node);
  net::Attachment attachment{daemon, std::move(packet.fds[0]), 1, std::move(packet.fds[1]), std::move(packet.fds[2])};
  if (Status status = endpoint_->attach(std::move(attachment)); !status.ok()) return status;
  Identity identity{std::move(welcome), options_.hello.role == wire::Role::kDriver, options_.local};
  core_ = std::make_unique<Core>(std::move(identity), Surroundings{*this, *this, *this}, endpoint_.get(), executors_);
  executors_.bind(*core_, core_->owner(), core_->host());
  return open_store(packet);
}

Status Process::open_store(node::BootPacket& packet) {
  const wire::Welcome& welcome = core_->welcome();
  store::StoreHandles handles{
      std::move(packet.fds[4]),
      std::move(packet.fds[3]),
      std::move(packet.fds[5]),
      std::move(packet.fds[6]),
      {welcome.self.node, welcome.store_slots, welcome.store_capacity, welcome.store_large_from}};
  store_requests_ = std::make_unique<StoreRequests>(*core_);
  Result<std::unique_ptr<store::StoreClient>> store = store::StoreClient::create(std::move(handles), *store_requests_);
  if (!store.ok()) return store.error_ptr();
  store_ = *std::move(store);
  core_->set_store(*store_);
  return {};
}

Process::~Process() { stop(); }

Process& keep_for_good(std::unique_ptr<Process> process) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<Process>>;
  std::lock_guard lock(mutex);
  kept.push_back(std::move(process));
  return *kept.back();
}

// ----------------------------------------------------------------------------------------------------------------- end

void Process::stop() {
  if (stop_called_.exchange(true)) return;
  stopped_.store(true);
  wake();
  if (service_.joinable()) service_.join();
  socket_ = UniqueFd();
}

void Process::await_departure() {
  exec::Waiter waiter(*core_);
  const exec::Deadline counted = core_->deadline_after(kCountWait);
  while (!core_->is_cut_off() && (frames_wait() || (counts_wait() && now() < counted)))
    (void)waiter.wait(core_->deadline_after(FrameRouter::kLook));
}

/// Somebody has yet to say that he has counted what he was sent (OH-1).
bool Process::counts_wait() {
  CoreLock lock(*core_);
  return core_->owner().holds().held() > 0;
}

bool Process::frames_wait() {
  CoreLock lock(*core_);
  auto waits = [this](ProcessId peer) { return endpoint_->backlog(peer) > 0; };
  return core_->frames().any_held() || core_->owner().answers_wait() || waits(core_->daemon()) ||
         std::any_of(paired_.begin(), paired_.end(), waits);
}

void Process::cut_off() {
  if (!core_->set_cut_off()) return;
  ::shutdown(socket_.get(), SHUT_RDWR);  // its daemon sees it
  auto end = [this] { core_->begin_shutdown(make_error<CancelledError>("the worker was ended")); };
  if (core_->lock_held()) core_->defer(std::move(end));
  else end();
}

void Process::kill() {
  if (options_.local) return cut_off();
  ::kill(::getpid(), SIGKILL);
}

// -------------------------------------------------------------------------------------------------------- surroundings

double Process::chance() {
  static thread_local Random random{std::random_device{}()};
  return random.unit();
}

bool Process::send(ProcessId peer, const net::FrameHeader& header, ByteView payload) {
  if (core_->is_cut_off()) [[unlikely]] return true;  // nobody hears from the dead
  return endpoint_->send(peer, header, payload);
}

void Process::drain_and_close(ProcessId peer) { endpoint_->drain_and_close(peer, core_->handler()); }

void Process::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(wake_.get(), &one, sizeof one);
}

void Process::flush_soon() noexcept {
  if (flush_armed_.load(std::memory_order_relaxed) || flush_armed_.exchange(true)) return;
  const itimerspec soon{{}, {0, kFlushDelayNs}};
  ::timerfd_settime(flush_timer_.get(), 0, &soon, nullptr);
}

// ------------------------------------------------------------------------------------------------------ service thread

void Process::service_loop() {
  set_thread_runtime(core_.get());
  while (!stopped_.load()) {
    exec::Deadline next;
    {
      CoreLock lock(*core_);
      next = core_->service_queue().next_timer();
    }
    int timeout = -1;
    if (next != exec::kNever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now());
      timeout = int(std::clamp<std::int64_t>(left.count(), 0, kPollMaxMs));
    }
    pollfd fds[4] = {{endpoint_->service_fd(), POLLIN, 0},
                     {socket_.get(), POLLIN, 0},
                     {wake_.get(), POLLIN, 0},
                     {flush_timer_.get(), POLLIN, 0}};
    ::poll(fds, 4, timeout);  // ends with a message, a timer, or the daemon's end
    if (fds[2].revents) {
      std::uint64_t count = 0;
      [[maybe_unused]] auto got = ::read(wake_.get(), &count, sizeof count);
    }
    if (fds[3].revents) {
      std::uint64_t expired = 0;
      [[maybe_unused]] auto got = ::read(flush_timer_.get(), &expired, sizeof expired);
      flush_armed_.store(false);  // before the flush: what is dropped from now on arms anew
    }
    if (fds[1].revents) read_socket();
    if (fds[0].revents) endpoint_->service(core_->handler());
    core_->service_queue().run_due();
    store_->flush();
  }
}

void Process::read_socket() {
  Result<node::Received> received = node::receive_packet(socket_.get());
  if (!received.ok() || received->state == node::Received::State::kClosed) return daemon_lost();
  if (received->state != node::Received::State::kPacket) return;
  node::BootPacket& packet = received->packet;
  if (packet.kind == wire::BootKind::kRankSocket) return group_socket_arrived(*core_, std::move(packet));
  if (packet.kind != wire::BootKind::kPair) return;
  Result<wire::PairOffer> offer = wire::decode_message<wire::PairOffer>(packet.payload);
  if (!offer.ok() || packet.fds.size() < 3) return;
  CoreLock lock(*core_);
  if (core_->frames().is_dead(offer->peer)) return;
  net::Attachment attachment{offer->peer, std::move(packet.fds[0]), offer->side, std::move(packet.fds[1]),
                             std::move(packet.fds[2])};
  if (Status status = endpoint_->attach(std::move(attachment)); !status.ok())
    return core_->warn(status.error().message());
  std::erase_if(paired_, [this](ProcessId peer) { return core_->frames().is_dead(peer); });
  paired_.push_back(offer->peer);
  core_->frames().connected(offer->peer);
}

void Process::daemon_lost() {
  if (stopped_.load()) return;
  if (options_.local) {
    cut_off();
    stopped_.store(true);
    return;
  }
  if (!core_->is_driver()) ::_exit(0);  // a worker does not outlive its daemon; nothing of it is to be kept
  core_->begin_shutdown(make_error<NodeDiedError>("the node daemon is gone"));
  stopped_.store(true);
}

}  // namespace troupe::worker
