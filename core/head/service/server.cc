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
#include <map>
#include <mutex>

#include "core/base/bytes.h"
#include "core/base/fd.h"
#include "core/head/service/frame_codec.h"
#include "core/head/service/journal.h"
#include "core/head/state/state.h"
#include "core/head/state/unique_text.h"
#include "core/net/link/link.h"
#include "core/net/link/session.h"

namespace troupe::head {
namespace {

constexpr Duration kProbeTimeout = std::chrono::seconds(2);

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
        state_(std::move(state)),
        journal_(std::move(journal)),
        stop_fd_(options.stop_fd) {}

  Result<std::string> start();
  void run();
  void shutdown() { if (links_) links_->shutdown(); }

 private:
  /// A registered node.
  struct Way final : net::SessionOutput {
    Way(Server& head, std::uint32_t number)
        : server(head), node(number), session(head.identity_.incarnation, 0, *this) {}
    void transmit(std::uint64_t to, ByteView frames) override {
      if (!server.replaying_) (void)server.links_->send_raw(to, frames);
    }
    // As one of the link that is bound: it may have come on the one before, behind the news of this one.
    void deliver(const net::FrameHeader& header, ByteView payload) override {
      server.note({Journal::Kind::kFrame, {}, node, 0, std::as_bytes(std::span(&header, 1))}, payload);
      if (header.source.node == node) server.take_frame(link, header, payload);
    }
    Server& server;
    const std::uint32_t node;
    net::LinkId link = 0;
    net::Session session;
    std::uint64_t acknowledged = 0;  ///< as noted
  };
  struct Peer { std::uint64_t incarnation = 0; std::uint32_t node = 0; };  ///< node: that the link was bound to

  Status recover();
  bool replay(const Journal::Record& record);
  /// HSV-4: the time of what follows, and its record.
  void note(Journal::Record record, ByteView more = {});

  void take_in(Inbox::Item& item);
  void take_batch(net::LinkId link, ByteView rest);
  void note_acknowledged(Way& way);
  void take_outside(net::LinkId link, net::FrameHeader header, ByteView payload);
  void take_frame(net::LinkId link, const net::FrameHeader& header, ByteView payload);
  void closed(const Inbox::Item& item);
  void link_closed(net::LinkId link);
  void tick();
  void bind(const BindLink& bind);
  void forget(std::uint32_t node);
  void probe(const ProbeNode& probe);
  void drop(net::LinkId link, std::string_view why);
  ProcessId tool_at(net::LinkId link);
  void apply(Event event);
  void perform(Effect& effect);
  void send(Send& send);
  void put(net::LinkId link, const Encoded& frame);
  bool ended(std::span<pollfd> fds);
  int timeout_ms() const;

  const ServerOptions& options_;
  const Journal::Identity identity_;
  State state_;
  std::unique_ptr<Journal> journal_;                      ///< null: none is kept
  Time at_ = {};                                          ///< of the event that is being applied
  bool replaying_ = false;                                ///< nothing leaves
  Effects effects_;
  Inbox inbox_;
  std::unique_ptr<net::Links> links_;
  std::map<net::LinkId, Peer> peers_;                     ///< of open links
  std::map<std::uint32_t, std::unique_ptr<Way>> ways_;    ///< by node
  std::vector<std::unique_ptr<Way>> forgotten_;           ///< of dead nodes, until the batch is over that told it
  std::map<std::uint32_t, net::LinkId> tools_;
  std::uint32_t last_tool_ = 0;
  std::map<net::LinkId, std::uint32_t> probes_;           ///< the node that is looked for
  UniqueFd parent_, signals_;
  int stop_fd_ = -1;
};

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
  Result<int> port = links_->listen({.address = options_.bind, .port = options_.port});
  if (!port.ok()) return port.error_ptr();
  if (options_.recover)
    if (Status status = recover(); !status.ok()) return status.error_ptr();
  return options_.bind + ":" + std::to_string(*port);
}

// -------------------------------------------------------------------------------------------------------- the journal

void Server::note(Journal::Record record, ByteView more) {
  if (replaying_) return;
  record.time = at_ = now();
  if (journal_) journal_->append(record, more);
}

/// HSV-4
Status Server::recover() {
  replaying_ = true;
  Status status = journal_->replay([this](const Journal::Record& record) { return replay(record); });
  replaying_ = false;
  if (!status.ok()) return status;
  for (auto& [node, way] : ways_) way->session.presume_given();
  const auto open = peers_;
  for (const auto& [link, peer] : open) link_closed(link);
  write_log(LogLevel::kInfo, "goes on as the head before it: {} nodes are awaited", ways_.size());
  return {};
}

bool Server::replay(const Journal::Record& record) {
  using Kind = Journal::Kind;
  at_ = record.time;
  const auto node = static_cast<std::uint32_t>(record.a);
  net::FrameHeader header;
  ByteView payload;
  if (record.kind == Kind::kFrame || record.kind == Kind::kOutside) {
    if (record.bytes.size() < sizeof header) return false;
    std::memcpy(&header, record.bytes.data(), sizeof header);
    payload = record.bytes.subspan(sizeof header);
  }
  auto way = ways_.find(node);
  switch (record.kind) {
    case Kind::kOpened: peers_[record.a] = {record.b, 0}; break;
    case Kind::kClosed: link_closed(record.a); break;
    case Kind::kOutside: take_outside(record.a, header, payload); break;
    case Kind::kNobodyListens: apply(NobodyListens{node}); break;
    case Kind::kProbeBroken: apply(ProbeBroken{node}); break;
    case Kind::kTick: apply(Tick{}); break;
    case Kind::kAcknowledged:
      if (way == ways_.end() || !way->second->session.restore_acknowledged(record.b)) return false;
      break;
    case Kind::kFrame:
      if (way == ways_.end()) return false;
      way->second->session.count_delivered();
      way->second->deliver(header, payload);
      forgotten_.clear();
      break;
    default: return false;
  }
  return true;
}

// ------------------------------------------------------------------------------------------------------------ the loop

void Server::run() {
  while (true) {
    pollfd fds[] = {
        {inbox_.fd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {parent_.get(), POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    ::poll(fds, std::size(fds), timeout_ms());
    for (Inbox::Item& item : inbox_.take()) take_in(item);
    tick();
    if (ended(fds)) return;
  }
}

void Server::tick() {
  const std::optional<Time> next = state_.next_deadline();
  if (!next || *next > now()) return;
  note({Journal::Kind::kTick});
  apply(Tick{});
}

int Server::timeout_ms() const {
  std::optional<Time> next = state_.next_deadline();
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
    case Inbox::Item::Kind::kOpen:
      if (probes_.erase(item.link) != 0) return links_->close(item.link);  // it is there: it will come back
      note({Journal::Kind::kOpened, {}, item.link, item.incarnation});
      peers_[item.link] = {item.incarnation, 0};
      return;
    case Inbox::Item::Kind::kBatch: return take_batch(item.link, item.frames);
    case Inbox::Item::Kind::kClosed: return closed(item);
  }
}

void Server::closed(const Inbox::Item& item) {
  auto probe = probes_.find(item.link);
  if (probe == probes_.end()) return link_closed(item.link);
  const std::uint32_t node = probe->second;
  probes_.erase(probe);
  note({item.nobody_there ? Journal::Kind::kNobodyListens : Journal::Kind::kProbeBroken, {}, node});
  return item.nobody_there ? apply(NobodyListens{node}) : apply(ProbeBroken{node});
}

void Server::link_closed(net::LinkId link) {
  note({Journal::Kind::kClosed, {}, link});
  std::erase_if(tools_, [&](const auto& one) { return one.second == link; });
  if (auto peer = peers_.find(link); peer != peers_.end()) {
    if (auto way = ways_.find(peer->second.node); way != ways_.end()) {
      way->second->session.link_down(link);
      if (way->second->link == link) way->second->link = 0;
    }
    peers_.erase(peer);
  }
  apply(LinkClosed{link});
}

void Server::take_batch(net::LinkId link, ByteView rest) {
  while (!rest.empty()) {
    Result<net::FrameHeader> header = net::decode_header(rest.first(std::min(rest.size(), sizeof(net::FrameHeader))));
    if (!header.ok() || rest.size() - sizeof(net::FrameHeader) < header->payload_size) {
      links_->abort(link, "a frame that does not decode");
      break;
    }
    const ByteView payload = rest.subspan(sizeof(net::FrameHeader), header->payload_size);
    rest = rest.subspan(sizeof(net::FrameHeader) + header->payload_size);
    auto peer = peers_.find(link);
    auto way = peer == peers_.end() ? ways_.end() : ways_.find(peer->second.node);
    const auto took =
        way == ways_.end() ? net::Session::Took::kOutside : way->second->session.receive(link, *header, payload);
    if (took == net::Session::Took::kOutside) {
      take_outside(link, *header, payload);
    } else if (took == net::Session::Took::kViolation) {
      links_->abort(link, "frames that contradict the session");
      break;
    } else if (took == net::Session::Took::kControl) {
      note_acknowledged(*way->second);
    }
  }
  forgotten_.clear();
}

void Server::note_acknowledged(Way& way) {
  const std::uint64_t frames = way.session.acknowledged_frames();
  if (std::exchange(way.acknowledged, frames) != frames) note({Journal::Kind::kAcknowledged, {}, way.node, frames});
}

/// HSV-3
void Server::take_outside(net::LinkId link, net::FrameHeader header, ByteView payload) {
  note({Journal::Kind::kOutside, {}, link, 0, std::as_bytes(std::span(&header, 1))}, payload);
  const bool is_tools = header.source.node == 0 && header.source.serial != 0;
  const bool registers = header.kind == static_cast<std::uint8_t>(wire::FrameKind::kRequest) &&
                         header.arg0 == static_cast<std::uint64_t>(wire::Method::kRegisterNode);
  if (is_tools) header.source = tool_at(link);
  if (is_tools || registers) take_frame(link, header, payload);
}

void Server::take_frame(net::LinkId link, const net::FrameHeader& header, ByteView payload) {
  if (header.destination != kHead) return;  // the head is no post office
  if (auto frame = decode_frame(link, header, payload)) apply(std::move(*frame));
}

/// The name under which a tool's answers find their way back.
ProcessId Server::tool_at(net::LinkId link) {
  for (const auto& [node, at] : tools_)
    if (at == link) return {node, 1};
  const ProcessId tool{kToolNodes | (++last_tool_ & (kToolNodes - 1)), 1};  // a recovered head counts links anew
  tools_[tool.node] = link;
  return tool;
}

void Server::apply(Event event) {
  state_.apply(at_, std::move(event), effects_);
  for (Effect& effect : effects_.take()) perform(effect);
}

void Server::perform(Effect& effect) {
  if (auto* message = std::get_if<Send>(&effect)) return send(*message);
  if (auto* dead = std::get_if<ForgetNode>(&effect)) return forget(dead->node);
  if (auto* wanted = std::get_if<BindLink>(&effect)) return bind(*wanted);
  if (replaying_) return;
  if (auto* line = std::get_if<LogLine>(&effect))
    return write_log(line->warning ? LogLevel::kWarn : LogLevel::kInfo, "{}", line->text);
  if (auto* close = std::get_if<CloseLink>(&effect)) return links_->close(close->link);
  probe(std::get<ProbeNode>(effect));
}

/// Of a link that a node's frames come on.
void Server::drop(net::LinkId link, std::string_view why) {
  if (!replaying_) links_->abort(link, std::string(why));
}

void Server::bind(const BindLink& bind) {
  auto peer = peers_.find(bind.link);
  if (peer == peers_.end()) return;  // it has ended: the state hears of that next
  std::unique_ptr<Way>& way = ways_[bind.node];
  if (!way) way = std::make_unique<Way>(*this, bind.node);
  if (!way->session.identify(peer->second.incarnation))
    return drop(bind.link, "another process was that node");
  peer->second.node = bind.node;
  way->link = bind.link;
  way->session.link_up(bind.link);
}

void Server::forget(std::uint32_t node) {
  auto way = ways_.find(node);
  if (way == ways_.end()) return;
  way->second->session.end();
  forgotten_.push_back(std::move(way->second));
  ways_.erase(way);
}

/// Does anybody listen where the node did? Only a refusal says something, and that at once.
void Server::probe(const ProbeNode& probe) {
  Result<net::LinkId> link =
      links_->dial({.address = probe.address, .timeout = kProbeTimeout, .expected = {.role = net::ProofRole::kNode}});
  if (link.ok()) probes_[*link] = probe.node;
}

void Server::send(Send& message) {
  Encoded frame = encode_send(message);
  if (frame.payload.size() > net::kPayloadMax && message.kind == wire::FrameKind::kResponse) {
    message.body = error_record(ErrorCode::kSerialization, "the answer has " + std::to_string(frame.payload.size()) +
                                                               " bytes: more than a frame can carry");
    message.failed = true;
    frame = encode_send(message);
  }
  if (message.link != 0) return put(message.link, frame);
  if (auto tool = tools_.find(message.to.node); tool != tools_.end()) return put(tool->second, frame);
  auto at = ways_.find(message.to.node);
  if (at == ways_.end()) return;  // a dead node
  Way& way = *at->second;
  if (frame.payload.size() > net::kPayloadMax)
    return write_log(LogLevel::kError, "a notice of {} bytes is dropped: it is longer than any may be",
                     frame.payload.size());
  way.session.send(frame.header, frame.payload);
  if (way.session.is_full() && way.link != 0) drop(way.link, "it acknowledges nothing");
}

void Server::put(net::LinkId link, const Encoded& frame) {
  if (!replaying_ && !links_->send(link, frame.header, frame.payload))
    write_log(LogLevel::kDebug, "link {} takes no more frames", link);
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
