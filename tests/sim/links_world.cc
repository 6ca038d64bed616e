#include "tests/sim/links_world.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace troupe::sim {

using namespace std::chrono_literals;
using store::BufferId;

namespace {
constexpr Duration kBusy = 15s, kRest = 110s;  // a transfer may take a minute
constexpr Duration kShort = 1500ms;            // a fault that nobody dies of
constexpr Duration kGap = 2500ms;              // between two faults
constexpr Duration kRedialled = 50ms;          // a daemon dials again so long after a link ended
constexpr std::size_t kNodesMax = 6, kTraceMax = 400;
constexpr Machine kHeadMachine = 0;

head::StateOptions head_options(std::uint64_t seed) {
  head::StateOptions options;
  options.membership.cluster_id = "sim";
  options.seed = seed;
  return options;
}
}  // namespace

LinksWorld::LinksWorld(WorldOptions options)
    : options_(std::move(options)),
      random_(options_.seed, 4),
      network_(queue_, random_, [this](Machine machine) { poke(machine); }) {
  network_.watch([this](Machine from, ByteView frames) { spy(from, frames); });
  net::LinksOptions links;
  links.identity.hello = "head";
  links.identity.incarnation = 999;
  head_links_ = network_.open(kHeadMachine, inbox_, links);
  shell_ = std::make_unique<head::Shell>(head_options(options_.seed), 999, [this] { return queue_.now(); });
  shell_->use(*head_links_);
  (void)head_links_->listen({});
}

LinksWorld::~LinksWorld() { network_.watch({}); }

std::string LinksWorld::run() {
  hard_ = random_.chance(0.6);
  big_ = random_.chance(0.1);
  for (std::uint32_t i = 2 + below(3); i > 0; --i) join();
  act();
  fault();
  queue_.at(kBusy, [this] {
    busy_ = false;
    say("---- from here on nothing new happens");
  });
  while (broken_.empty() && queue_.step(kBusy + kRest)) {
    ++steps_;
    if (queue_.is_stuck()) broken("LWI-5: one thing follows another without an end, and no time passes");
  }
  if (broken_.empty()) check_rest();
  return broken_;
}

void LinksWorld::say(const std::string& text) {
  char stamp[40];
  std::snprintf(stamp, sizeof stamp, "%12.6f  ", std::chrono::duration<double>(queue_.now()).count());
  if (options_.verbose) std::printf("%s%s\n", stamp, text.c_str());
  trace_.push_back(stamp + text);
  if (trace_.size() > kTraceMax) trace_.pop_front();
}

void LinksWorld::broken(const std::string& text) {
  if (!broken_.empty()) return;
  broken_ = text;
  say("BROKEN: " + text);
}

// ------------------------------------------------------------------------------------------------------------ the head

void LinksWorld::HeadInbox::on_open(net::LinkId link, const net::LinkPeer& peer) {
  items.push_back({0, link, {}, peer.proven.incarnation, false});
}
void LinksWorld::HeadInbox::on_batch(net::LinkId link, ByteView frames) {
  items.push_back({1, link, {frames.begin(), frames.end()}, 0, false});
}
void LinksWorld::HeadInbox::on_closed(net::LinkId link, const Status& why) {
  items.push_back({2, link, {}, 0, !why.ok() && why.error().code() == ErrorCode::kNotFound});
}

void LinksWorld::head_pass() {
  if (head_frozen_) return;
  while (!inbox_.items.empty()) {
    const HeadInbox::Item item = std::move(inbox_.items.front());
    inbox_.items.pop_front();
    if (item.kind == 0) shell_->opened(item.link, item.incarnation);
    else if (item.kind == 1) shell_->batch(item.link, item.frames);
    else shell_->closed(item.link, item.nobody_there);
  }
  shell_->tick();
  look_at_head();
  const std::optional<Time> next = shell_->next_deadline();
  if (!next || (head_timer_ && *head_timer_ <= *next)) return;
  head_timer_ = next;
  queue_.at(*next, [this, at = *next] {
    if (head_timer_ != at) return;
    head_timer_.reset();
    head_pass();
  });
}

/// Whom it took in, whom it declared dead.
void LinksWorld::look_at_head() {
  const std::vector<std::uint32_t> now = shell_->state().membership().living();
  const std::set<std::uint32_t> living(now.begin(), now.end());
  for (std::uint32_t node : living_)
    if (!living.contains(node)) {
      deaths_.push_back({node, living});
      verdict(node);
    }
  living_ = living;
}

void LinksWorld::verdict(std::uint32_t node) {
  say("the head declares node " + std::to_string(node) + " dead");
  SimDaemon* daemon = by_number(node);
  if (!daemon) return;  // its registration was answered, and it does not know yet
  if (daemon->alive && !daemon->troubled)
    broken("LWI-3: node " + std::to_string(node) + " was never cut off for long, and is declared dead");
}

bool LinksWorld::is_troubled(std::uint32_t node) const {
  auto machine = machines_.find(node);
  if (machine == machines_.end()) return true;
  const SimDaemon& daemon = *daemons_.at(machine->second);
  return daemon.troubled || !daemon.alive || daemon.ended;
}

SimDaemon* LinksWorld::by_number(std::uint32_t node) {
  auto machine = machines_.find(node);
  return machine == machines_.end() ? nullptr : daemons_.at(machine->second).get();
}

SimDaemon* LinksWorld::any_daemon() {
  std::vector<SimDaemon*> able;
  for (auto& [machine, daemon] : daemons_)
    if (daemon->alive && !daemon->frozen && !daemon->ended && daemon->number != 0) able.push_back(daemon.get());
  return able.empty() ? nullptr : able[below(able.size())];
}

// ------------------------------------------------------------------------------------------------------------ machines

void LinksWorld::poke(Machine machine) {
  if (machine == kHeadMachine) {
    if (head_frozen_ || std::exchange(head_planned_, true)) return;
    queue_.after(Duration(static_cast<Duration::rep>(random_.unit() * 100e3)), [this] {
      head_planned_ = false;
      head_pass();
    });
    return;
  }
  auto at = daemons_.find(machine);
  if (at == daemons_.end()) return;
  SimDaemon& daemon = *at->second;
  if (!daemon.alive || daemon.frozen || std::exchange(daemon.pass_planned, true)) return;
  queue_.after(Duration(static_cast<Duration::rep>(random_.unit() * 100e3)), [this, &daemon] {
    daemon.pass_planned = false;
    if (daemon.alive && !daemon.frozen) daemon.pass();
  });
}

/// LWI-2: what links were given.
void LinksWorld::spy(Machine from, ByteView frames) {
  while (frames.size() >= sizeof(net::FrameHeader)) {
    net::FrameHeader header;
    std::memcpy(&header, frames.data(), sizeof header);
    frames = frames.subspan(std::min(frames.size(), sizeof header + header.payload_size));
    if (header.kind == net::kSessionKind || from == kHeadMachine || header.destination.node == 0) continue;
    std::uint64_t& last = on_links_[{from, header.destination.node}];
    last = std::max(last, header.arg2);
  }
}

void LinksWorld::join() {
  const Machine machine = Machine(daemons_.size() + 1);
  auto& daemon = daemons_[machine];
  daemon = std::make_unique<SimDaemon>(*this, machine);
  say("machine " + std::to_string(machine) + " joins");
  if (Status joined = daemon->join(); !joined.ok()) broken("a daemon cannot begin: " + joined.error().message());
  poke(machine);
}

void LinksWorld::kill(SimDaemon& daemon) {
  if (!daemon.alive) return;
  say("the daemon of node " + std::to_string(daemon.number) + " is gone");
  daemon.alive = false;
  daemon.links->shutdown();
}

// ------------------------------------------------------------------------------------------------------------ activity

void LinksWorld::act() {
  queue_.after(Duration(static_cast<Duration::rep>(random_.unit() * 24e6)), [this] {
    if (!busy_) return;
    act();
    SimDaemon* daemon = any_daemon();
    if (!daemon) return;
    const std::uint32_t dice = below(100);
    std::vector<std::uint32_t> others;
    for (std::uint32_t node : daemon->known)
      if (node != daemon->number && !daemon->links->is_dead(node)) others.push_back(node);
    if (dice < 12) daemon->ask_head();
    else if (dice < 70 && !others.empty()) {
      const std::uint32_t to = others[below(others.size())];
      for (std::uint32_t n = 1 + below(random_.chance(0.1) ? 60 : 6); n > 0; --n)
        daemon->say_something(to, below(random_.chance(0.05) ? 20'000 : 200));
    } else if (dice < 76 || daemon->buffers.empty()) {
      const BufferId id{daemon->number, ++last_slot_, 1};
      std::vector<std::byte> bytes(1 + below(3000));
      for (std::byte& byte : bytes) byte = std::byte(random_.below(256));
      daemon->buffers[id] = std::move(bytes);
    } else if (dice < 79) {  // freed, unless it is kept for somebody
      auto at = daemon->buffers.begin();
      std::advance(at, below(daemon->buffers.size()));
      auto kept = daemon->exposed.find(at->first);
      if (at->first.node != daemon->number || (kept != daemon->exposed.end() && !kept->second.empty())) return;
      freed_.insert(at->first);
      daemon->buffers.erase(at);
    } else {  // something of another node, also of one that may be gone
      std::vector<BufferId> there;
      for (auto& [machine, other] : daemons_)
        for (auto& [id, bytes] : other->buffers)
          if (id.node == other->number && id.node != daemon->number && daemon->known.contains(id.node) &&
              !daemon->buffers.contains(id) && !daemon->copying.contains(id))
            there.push_back(id);
      if (!there.empty()) daemon->fetch_something(there[below(there.size())]);
    }
    poke(daemon->machine);
  });
}

void LinksWorld::fault() {
  queue_.after(Duration(static_cast<Duration::rep>(random_.unit() * 400e6)), [this] {
    if (!busy_) return;
    fault();
    std::vector<Machine> all{kHeadMachine};
    for (auto& [machine, daemon] : daemons_)
      if (daemon->alive) all.push_back(machine);
    const Machine a = all[below(all.size())], b = all[below(all.size())];
    if (random_.chance(0.05) && daemons_.size() < kNodesMax) return join();
    if (a != b && random_.chance(0.7)) {
      say("reset between machines " + std::to_string(a) + " and " + std::to_string(b));
      network_.reset(a, b);
      if (!random_.chance(0.3)) return;
      // And once more about when both have dialled again: what one begins on may be what the other has lost.
      return queue_.after(kRedialled + Duration(static_cast<Duration::rep>(random_.unit() * 6e6)), [this, a, b] {
        say("reset between machines " + std::to_string(a) + " and " + std::to_string(b) + " once more");
        network_.reset(a, b);
      });
    }
    if (fault_under_way_) return;
    const bool is_long = hard_ && random_.chance(0.35);
    const Duration span =
        is_long ? Duration(static_cast<Duration::rep>(2e9 + random_.unit() * 8e9))
                : Duration(static_cast<Duration::rep>(double(kShort.count()) * (0.1 + 0.9 * random_.unit())));
    const std::uint32_t dice = below(100);
    if (a != b && dice < 45) {
      const bool for_good = is_long && a != kHeadMachine && b != kHeadMachine && random_.chance(0.3);
      cut_off(a, b, random_.chance(0.5), for_good ? std::nullopt : std::optional(span));
    } else if (dice < 75) {
      stand_still(a, span);
    } else if (a != kHeadMachine && hard_ && dice < 80) {
      kill(*daemons_.at(a));
    }
  });
}

void LinksWorld::stand_still(Machine machine, Duration span) {
  say("machine " + std::to_string(machine) + " stands still for " + std::to_string(span.count() / 1'000'000) + " ms");
  fault_under_way_ = true;
  std::vector<Machine> others{kHeadMachine};
  for (auto& [other, daemon] : daemons_) others.push_back(other);
  std::erase(others, machine);
  std::vector<std::pair<Machine, Machine>> cuts;
  for (Machine other : others)
    for (const auto& cut : {std::pair(machine, other), std::pair(other, machine)})
      if (!network_.is_cut(cut.first, cut.second)) cuts.push_back(cut);
  for (const auto& [from, to] : cuts) network_.cut(from, to);
  if (machine == kHeadMachine) {
    head_frozen_ = true;
  } else {
    daemons_.at(machine)->frozen = true;
    if (span > kShort) daemons_.at(machine)->troubled = true;
    // In big worlds others go on to send there, so that it is full.
    SimDaemon* sender = big_ && span > kShort ? any_daemon() : nullptr;
    if (const std::uint32_t to = daemons_.at(machine)->number; sender && sender->known.contains(to))
      for (int i = 0; i < 18 && !sender->waits.contains(to); ++i) sender->say_something(to, 1 << 20);
  }
  queue_.after(span, [this, machine, cuts] {
    say("machine " + std::to_string(machine) + " goes on");
    if (machine == kHeadMachine) head_frozen_ = false;
    else daemons_.at(machine)->frozen = false;
    for (const auto& [from, to] : cuts) network_.heal(from, to);
    poke(machine);
    queue_.after(kGap, [this] { fault_under_way_ = false; });
  });
}

void LinksWorld::cut_off(Machine a, Machine b, bool both, std::optional<Duration> span) {
  if (network_.is_cut(a, b) || network_.is_cut(b, a)) return;
  say("machines " + std::to_string(a) + " and " + std::to_string(b) + " are cut off, " +
      (both ? "both ways" : "one way") + (span ? ", for " + std::to_string(span->count() / 1'000'000) + " ms" : ""));
  fault_under_way_ = true;
  if (!span || *span > kShort)
    for (Machine machine : {a, b})
      if (machine != kHeadMachine) daemons_.at(machine)->troubled = true;
  network_.cut(a, b);
  if (both) network_.cut(b, a);
  queue_.after(span ? *span : kGap, [this, a, b, lasts = !span] {
    if (!lasts) {
      network_.heal(a, b);
      network_.heal(b, a);
    }
    queue_.after(kGap, [this] { fault_under_way_ = false; });
  });
}

// -------------------------------------------------------------------------------------------------------------- checks

void LinksWorld::check_transfer(SimDaemon& daemon, BufferId id, SimDaemon::Copy& copy, const Status& status) {
  const std::string name = "the transfer of " + store::to_string(id) + " to node " + std::to_string(daemon.number);
  if (copy.done) return broken("LWI-6: " + name + " ends twice");
  copy.done = true;
  if (queue_.now() - copy.began > 70s) broken("LWI-6: " + name + " ends late");
  say(name + (status.ok() ? " is done" : " failed: " + status.error().message()));
  if (status.ok()) {
    auto whole = daemons_.at(machines_.at(id.node))->buffers.find(id);
    if (whole != daemons_.at(machines_.at(id.node))->buffers.end() && whole->second != copy.to)
      broken("LWI-6: " + name + " has other bytes");
    daemon.buffers[id] = copy.to;
  } else if (!daemon.troubled && !freed_.contains(id) && !daemon.ended) {
    const bool helped = copy.helper != 0 && !is_troubled(copy.helper);
    const bool answered_lost = status.error().code() == ErrorCode::kObjectLost;
    if (!is_troubled(id.node)) broken("LWI-6: " + name + " failed without a cause: " + status.error().message());
    else if (helped && !answered_lost)
      broken("LWI-6: " + name + " failed, and node " + std::to_string(copy.helper) + " has a copy: " +
             status.error().message());
  }
  std::fill(copy.to.begin(), copy.to.end(), std::byte(0xEE));
}

void LinksWorld::check_rest() {
  const auto& membership = shell_->state().membership();
  for (auto& [machine, daemon] : daemons_) {
    const std::string who = "node " + std::to_string(daemon->number);
    if (!daemon->alive) continue;
    if (daemon->number == 0) {
      broken("LWI-5: machine " + std::to_string(machine) + " has not been taken in");
      continue;
    }
    if (!membership.alive(daemon->number)) {
      if (!daemon->ended) broken("LWI-4: " + who + " was declared dead, and its daemon goes on");
      continue;
    }
    if (daemon->head_asked != daemon->head_answered)
      broken("LWI-1: " + who + " has asked the head " + std::to_string(daemon->head_asked) + " times and heard " +
             std::to_string(daemon->head_answered) + " answers");
    for (std::uint32_t node : daemon->waits)
      broken("LWI-5: " + who + " still waits for room on the way to node " + std::to_string(node));
    for (const auto& [to, count] : daemon->sent) {
      SimDaemon* other = by_number(to);
      if (to != 0 && other && membership.alive(to) && other->got[daemon->number] != count)
        broken("LWI-1: node " + std::to_string(to) + " has taken " + std::to_string(other->got[daemon->number]) +
               " of " + std::to_string(count) + " frames of " + who);
    }
    for (const Death& death : deaths_)
      if (death.witnesses.contains(daemon->number) && !daemon->heard_dead.contains(death.node))
        broken("LWI-4: " + who + " has not heard that node " + std::to_string(death.node) + " died");
    for (const auto& [id, holders] : daemon->exposed)
      for (std::uint32_t holder : holders)
        if (membership.alive(holder))
          broken("LWI-7: " + who + " keeps " + store::to_string(id) + " for node " + std::to_string(holder));
    for (const auto& [id, copy] : daemon->copying)
      broken("LWI-6: the transfer of " + store::to_string(id) + " to " + who + " does not end");
    for (const auto& copy : daemon->copied)
      if (std::any_of(copy->to.begin(), copy->to.end(), [](std::byte byte) { return byte != std::byte(0xEE); }))
        broken("LWI-6: " + who + ": bytes were written after the end of a transfer");
  }
}

}  // namespace troupe::sim
