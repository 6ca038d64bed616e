#include "collective/group/epochs.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/group/rank_net.h"
#include "core/process/core.h"
#include <troupe/collective.h>
#include <troupe/troupe.h>

namespace troupe::collective {
namespace {

std::string name_in(const std::string& key) {  // __collective/JOB/NAME
  return key.substr(key.find('/', key.find('/') + 1) + 1);
}

Failure failure_of(const wire::GroupWord& word) {
  return {Reason(std::min<std::uint8_t>(word.reason, std::uint8_t(Reason::kBackend))),
          word.text,
          {word.missing.begin(), word.missing.end()}};
}

wire::GroupWord word_of(const Epoch& epoch, const Failure& failure) {
  wire::GroupWord word{
      .kind = wire::GroupWordKind::kFailed, .key = epoch.key, .group = epoch.record.id, .epoch = epoch.record.epoch};
  word.reason = std::uint8_t(failure.reason);
  word.text = failure.text;
  word.missing.assign(failure.missing_ranks.begin(), failure.missing_ranks.end());
  return word;
}

void complete(worker::Core* founder, const std::vector<troupe::detail::ObjectPtr>& refs, std::uint64_t epoch,
              const Failure& failure) {
  if (refs.empty()) return;
  worker::Core& core = *founder;
  const BrokenGroup broken{epoch, fmt::format("{}: {}", reason_name(failure.reason), failure.text),
                           failure.missing_ranks};
  worker::CoreLock lock(core);
  if (core.shutting_down()) return;
  for (const auto& ref : refs) core.objects().complete(worker::entry_of(ref), troupe::detail::encode_value(broken));
}

/// CEP-3, of the founder's process.
void tell_members(worker::Core& founder, const Epoch& epoch, const Failure& failure) {
  if (founder.shutting_down()) return;
  const wire::GroupWord word = word_of(epoch, failure);
  std::set<ProcessId> processes;
  for (const GroupMember& member : epoch.record.members) processes.insert(member.process);
  processes.erase(founder.self());
  worker::CoreLock lock(founder);
  for (ProcessId process : processes) founder.frames().notice(process, wire::Method::kGroupWord, word);
}

const Failure kEnded{Reason::kStale, "the group was formed again or destroyed", {}};

}  // namespace

Failure restarted(const GroupRecord& record, int rank) {
  return {Reason::kDied,
          fmt::format("rank {} (actor {}) was restarted, and must be taken into the next epoch", rank,
                      record.members[std::size_t(rank)].actor),
          {rank}};
}

Epochs& Epochs::instance() {
  static Epochs& instance = *new Epochs;  // threads of user code may outlive main
  return instance;
}

Epochs::Listener::Listener(Epochs& epochs, exec::Waiter& waiter) : epochs_(epochs), waiter_(waiter) {
  std::lock_guard lock(epochs_.mutex_);
  epochs_.listeners_.insert(&waiter_);
}
Epochs::Listener::~Listener() {
  std::lock_guard lock(epochs_.mutex_);
  epochs_.listeners_.erase(&waiter_);
}
void Epochs::wake() {
  std::lock_guard lock(mutex_);
  for (exec::Waiter* one : listeners_) one->notify();
}

/// A process may run one cluster after the other.
std::string Epochs::slot(worker::Core& core, const std::string& key) { return core.welcome().session_dir + "\n" + key; }

std::shared_ptr<Epoch> Epochs::newest(worker::Core& core, const std::string& key) {
  const auto found = epochs_.find(slot(core, key));
  return found == epochs_.end() ? nullptr : found->second;
}

/// Lock held. CEP-7: null where it is told of an epoch that is of the past, or not known yet.
std::shared_ptr<Epoch> Epochs::known_or_told(const Told& told) {
  const auto found = epochs_.find(told.slot);
  if (found != epochs_.end() && found->second->record.id == told.which.id) return found->second;
  if (found != epochs_.end() && found->second->record.epoch >= told.which.epoch) return nullptr;
  const auto before = std::ranges::find_if(
      told_, [&](const Told& one) { return one.slot == told.slot && one.which.id == told.which.id; });
  if (before == told_.end()) told_.push_back(told);
  else if (!told.failure) before->failure.reset();  // the first failure stays (CEP-3), and an end is the end of it
  if (told_.size() > kToldMax) told_.pop_front();
  return nullptr;
}

/// Lock held. What was told of this epoch before; what was told of it and of older ones is forgotten.
std::optional<Epochs::Told> Epochs::take_told(const std::string& slot, EpochNumber which) {
  std::optional<Told> taken;
  std::erase_if(told_, [&](const Told& one) {
    if (one.slot != slot || one.which.epoch > which.epoch) return false;
    if (one.which.id == which.id) taken = one;
    return true;
  });
  return taken;
}

// --------------------------------------------------------------------------------------------------------------- ranks

Epochs::Admission Epochs::admit(worker::Core& core, const std::string& key, const Seeker& seeker) {
  std::lock_guard lock(mutex_);
  Admission admission;
  admission.epoch = newest(core, key);
  if (!admission.epoch || admission.epoch->ended || admission.epoch->record.epoch <= seeker.after_epoch)
    return admission;
  Epoch& epoch = *admission.epoch;
  const auto member = std::ranges::find(epoch.record.members, seeker.actor, &GroupMember::actor);
  if (member == epoch.record.members.end()) {
    admission.kind = Admission::Kind::kForeign;
    return admission;
  }
  if (seeker.restarts < member->restarts) {  // a life that has ended, and runs on for a moment: it is no member now
    admission.kind = Admission::Kind::kForeign;
    return admission;
  }
  admission.rank = int(member - epoch.record.members.begin());
  admission.restarts = seeker.restarts;
  const auto found = epoch.entered.find(admission.rank);
  if (found != epoch.entered.end() && found->second.restarts >= seeker.restarts) {
    admission.kind = Admission::Kind::kUse;
    admission.member = found->second.member;
  } else if (member->restarts != seeker.restarts || member->process != core.self()) {
    admission.kind = Admission::Kind::kRestarted;  // CEP-2
  } else if (!epoch.entering.contains(admission.rank) &&
             (epoch.record.backend == Backend::kShm || epoch.links.contains(admission.rank))) {
    epoch.entering.insert(admission.rank);
    admission.kind = Admission::Kind::kEnter;
    if (const auto links = epoch.links.find(admission.rank); links != epoch.links.end())
      admission.links = links->second;
  }
  return admission;
}

void Epochs::opened(const std::shared_ptr<Epoch>& epoch, const std::shared_ptr<ShmSegment>& memory) {
  std::optional<Failure> failure;
  bool ended = false;
  {
    std::lock_guard lock(mutex_);
    failure = epoch->failure;
    ended = epoch->ended;
    if (!ended && !epoch->memory) epoch->memory = memory;  // one opening of it stands for all
  }
  if (failure) memory->fail(*failure);
  if (ended) memory->supersede(ShmSegment::kDestroyed);
}

void Epochs::enter(const std::shared_ptr<Epoch>& epoch, int rank, Epoch::Entered entered) {
  std::optional<Failure> failure;
  Epoch::Entered former;  // of the life before, in this process (CEP-2)
  bool ended = false;
  {
    std::lock_guard lock(mutex_);
    epoch->entering.erase(rank);
    failure = epoch->failure;
    ended = epoch->ended;
    if (!ended) former = std::exchange(epoch->entered[rank], entered);
  }
  // What it holds is what leads to the others: the new one has failed before it had any.
  if (former.member) former.member->communicator().fail(restarted(epoch->record, rank));
  if (failure) entered.member->communicator().fail(*failure);
  if (ended) entered.supersede(ShmSegment::kDestroyed);
  wake();
}

void Epochs::give_up(const std::shared_ptr<Epoch>& epoch, int rank) {
  {
    std::lock_guard lock(mutex_);
    epoch->entering.erase(rank);
  }
  wake();
}

// -------------------------------------------------------------------------------------------------------------- epochs

Epochs::Parts Epochs::take_parts(Epoch& epoch) {
  Parts parts;
  for (auto& [rank, entered] : std::exchange(epoch.entered, {})) parts.entered.push_back(std::move(entered));
  for (auto& [rank, links] : std::exchange(epoch.links, {})) parts.links.push_back(std::move(links));
  parts.memory = std::exchange(epoch.memory, nullptr);
  parts.broken = std::exchange(epoch.broken, {});
  parts.founder = epoch.founder;
  epoch.ended = true;
  return parts;
}

/// CEP-1: handles that are still about fail from now on.
void Epochs::finish(const Epoch& epoch, Parts parts, std::uint64_t next) {
  for (const auto& links : parts.links) links->supersede();
  if (parts.memory) parts.memory->supersede(next);
  for (const auto& entered : parts.entered) entered.supersede(next);
  complete(parts.founder, parts.broken, epoch.record.epoch, kEnded);
}

void Epochs::learn(worker::Core& core, const std::string& key, const GroupRecord& record, worker::Core* founder) {
  const EpochNumber which{record.id, record.epoch};
  if (record.destroyed) return end(core, key, which);
  std::shared_ptr<Epoch> fresh, old;
  std::optional<Told> told;
  std::optional<Failure> untold;  // it failed before it was known here who tells that (CEP-3)
  Parts parts;
  {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Epoch>& at = epochs_[slot(core, key)];
    if (!at || at->record.epoch < record.epoch) {
      fresh = std::make_shared<Epoch>();
      fresh->key = key;
      fresh->name = name_in(key);
      fresh->record = record;
      fresh->founder = founder;
      const std::string here = slot(core, key);
      for (auto made = made_.lower_bound({here, 0}); made != made_.end() && made->first.first == here;) {
        if (made->first.second == record.id) fresh->memory = std::move(made->second.memory);
        made = made->second.epoch <= record.epoch ? made_.erase(made) : std::next(made);
      }
      told = take_told(here, which);
      old = std::exchange(at, fresh);
      if (old) parts = take_parts(*old);
    } else if (at->record.id == record.id && !at->ended) {
      fresh = at;
      if (founder && !std::exchange(at->founder, founder)) untold = at->failure;
    }
  }
  if (old) finish(*old, std::move(parts), record.epoch);
  if (untold) tell_members(*founder, *fresh, *untold);
  if (told && told->failure) fail(core, key, which, *told->failure);
  if (told && !told->failure) end(core, key, which);
  if (fresh) open_ranks(core, fresh);
  wake();
}

/// Each rank of this process is expected by the daemon from now on.
void Epochs::open_ranks(worker::Core& core, const std::shared_ptr<Epoch>& epoch) {
  if (epoch->record.backend == Backend::kShm) return;
  for (std::size_t r = 0; r < epoch->record.members.size(); ++r) {
    if (epoch->record.members[r].process != core.self()) continue;
    {
      std::lock_guard lock(mutex_);
      if (epoch->ended || !epoch->opened.insert(int(r)).second) continue;
    }
    const auto links = open_rank(core, identity_in(epoch->record, epoch->name, int(r)));
    std::optional<Failure> failure;
    {
      std::lock_guard lock(mutex_);
      if (!epoch->ended) epoch->links[int(r)] = links;
      failure = epoch->failure;
    }
    if (failure) links->fail(*failure);
  }
}

std::shared_ptr<Epoch> Epochs::found(worker::Core& core, const std::string& key, const GroupRecord& record) {
  learn(core, key, record, &core);
  std::lock_guard lock(mutex_);
  const auto epoch = newest(core, key);
  return epoch && epoch->record.id == record.id ? epoch : nullptr;
}

std::shared_ptr<Epoch> Epochs::founded(worker::Core& core, const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto epoch = newest(core, key);
  return epoch && epoch->founder && !epoch->ended ? epoch : nullptr;
}

void Epochs::end(worker::Core& core, const std::string& key, EpochNumber which) {
  std::shared_ptr<Epoch> epoch;
  Parts parts;
  {
    std::lock_guard lock(mutex_);
    made_.erase({slot(core, key), which.id});  // of a founder that another was faster than
    epoch = known_or_told({slot(core, key), which, {}});
    if (!epoch || epoch->ended) return;
    parts = take_parts(*epoch);
  }
  finish(*epoch, std::move(parts), ShmSegment::kDestroyed);
  wake();
}

void Epochs::fail(worker::Core& core, const std::string& key, EpochNumber which, const Failure& failure) {
  std::shared_ptr<Epoch> epoch;
  Parts parts;
  {
    std::lock_guard lock(mutex_);
    epoch = known_or_told({slot(core, key), which, failure});
    if (!epoch || epoch->ended || epoch->failure) return;  // CEP-3
    epoch->failure = failure;
    for (const auto& [rank, entered] : epoch->entered) parts.entered.push_back(entered);
    for (const auto& [rank, links] : epoch->links) parts.links.push_back(links);
    // a part's memory counts its ranks otherwise
    if (epoch->record.backend == Backend::kShm) parts.memory = epoch->memory;
    parts.broken = std::exchange(epoch->broken, {});
    parts.founder = epoch->founder;
  }
  for (const auto& links : parts.links) links->fail(failure);
  if (parts.memory) parts.memory->fail(failure);
  for (const auto& entered : parts.entered) entered.member->communicator().fail(failure);
  complete(parts.founder, parts.broken, epoch->record.epoch, failure);
  if (parts.founder) tell_members(*parts.founder, *epoch, failure);
}

void Epochs::report(worker::Core& core, const Epoch& epoch, const Failure& failure) {
  if (failure.reason == Reason::kStale) return;
  fail(core, epoch.key, {epoch.record.id, epoch.record.epoch}, failure);
  if (epoch.record.founder == core.self() || core.shutting_down()) return;
  worker::CoreLock lock(core);
  core.frames().notice(epoch.record.founder, wire::Method::kGroupWord, word_of(epoch, failure));
}

void Epochs::ask_after(worker::Core& core, const Epoch& epoch) {
  std::set<ProcessId> dead;
  {
    worker::CoreLock lock(core);
    std::set<ProcessId> asked{core.self()};
    for (const GroupMember& member : epoch.record.members) {
      if (!asked.insert(member.process).second) continue;
      if (core.frames().is_dead(member.process)) dead.insert(member.process);
      // of its own node a process has heard every death since it began
      else if (member.process.node != core.self().node)
        core.requests().send<wire::GroupAnswer>(member.process, wire::Method::kGroupWord,
                                                wire::GroupWord{.kind = wire::GroupWordKind::kPresent,
                                                                .key = epoch.key,
                                                                .group = epoch.record.id,
                                                                .epoch = epoch.record.epoch},
                                                [](auto) {});
    }
  }
  if (!dead.empty())
    lose(core, [&](ProcessId process) { return dead.contains(process); }, "its process had ended before");
}

void Epochs::tell_end(const std::shared_ptr<Epoch>& epoch, troupe::detail::ObjectPtr ref) {
  Failure failure = kEnded;
  {
    std::lock_guard lock(mutex_);
    if (!epoch->ended && !epoch->failure) {
      epoch->broken.push_back(std::move(ref));
      return;
    }
    if (epoch->failure) failure = *epoch->failure;
  }
  complete(epoch->founder, {std::move(ref)}, epoch->record.epoch, failure);
}

// ---------------------------------------------------------------------------------------------------------------- port

Result<wire::GroupAnswer> Epochs::make_memory(worker::Core& core, const wire::GroupWord& word) {
  auto segment = ShmSegment::create({.ranks = word.ranks, .epoch = word.epoch, .key = word.memory_key});
  if (!segment.ok()) return segment.error_ptr();
  const wire::GroupAnswer answer{::getpid(), (*segment)->fd()};
  std::lock_guard lock(mutex_);
  made_[{slot(core, word.key), word.group}] = {word.epoch, *std::move(segment)};
  return answer;
}

Result<wire::GroupAnswer> Epochs::word(worker::Core& core, ProcessId, const wire::GroupWord& word) {
  switch (word.kind) {
    case wire::GroupWordKind::kMemory: return make_memory(core, word);
    case wire::GroupWordKind::kFormed: {
      Result<GroupRecord> record = decode_record(word.record);
      if (!record.ok()) return record.error_ptr();
      learn(core, word.key, *record);
      break;
    }
    case wire::GroupWordKind::kEnded: end(core, word.key, {word.group, word.epoch}); break;
    case wire::GroupWordKind::kFailed: fail(core, word.key, {word.group, word.epoch}, failure_of(word)); break;
    case wire::GroupWordKind::kPresent: break;
  }
  return wire::GroupAnswer{};
}

void Epochs::socket(worker::Core&, const wire::RankSocket& what, UniqueFd fd) { rank_arrived(what, std::move(fd)); }

/// A founder hears of every life that ends, not of the last one alone.
void Epochs::actor_moved(worker::Core& core, const wire::ActorLocation& location) {
  const std::string actor = to_string(location.actor);
  struct Loss { std::string key; EpochNumber which; int rank; };
  std::vector<Loss> losses;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [where, epoch] : epochs_) {
      if (!epoch->founder || epoch->ended || epoch->failure) continue;
      const auto member = std::ranges::find(epoch->record.members, actor, &GroupMember::actor);
      if (member == epoch->record.members.end()) continue;
      const bool same_life = location.state == wire::ActorState::kAlive && location.restarts == member->restarts;
      if (!same_life)
        losses.push_back({epoch->key,
                          {epoch->record.id, epoch->record.epoch},
                          int(member - epoch->record.members.begin())});
    }
  }
  const std::string why = location.error ? location.error->message : "it was restarted";
  for (const Loss& loss : losses)
    fail(core, loss.key, loss.which,
         {Reason::kDied, fmt::format("rank {} (actor {}) died: {}", loss.rank, actor, why), {loss.rank}});
  wake();
}

void Epochs::process_died(worker::Core& core, ProcessId process, const std::string& why) {
  lose(core, [&](ProcessId one) { return one == process; }, "its process ended: " + why);
}

void Epochs::node_died(worker::Core& core, std::uint32_t node, const std::string& why) {
  lose(core, [&](ProcessId one) { return one.node == node; }, why);
}

/// CEP-5. All ranks that are lost by it are named together.
void Epochs::lose(worker::Core& core, const std::function<bool(ProcessId)>& gone, const std::string& why) {
  struct Loss { std::string key; EpochNumber which; std::vector<int> ranks; std::string actor; };
  std::vector<Loss> losses;
  const std::string here = slot(core, {});  // numbers of processes are those of one cluster
  {
    std::lock_guard lock(mutex_);
    for (auto one = epochs_.lower_bound(here); one != epochs_.end() && one->first.starts_with(here); ++one) {
      const Epoch& epoch = *one->second;
      if (epoch.ended || epoch.failure) continue;
      Loss loss{epoch.key, {epoch.record.id, epoch.record.epoch}, {}, {}};
      for (std::size_t r = 0; r < epoch.record.members.size(); ++r)
        if (gone(epoch.record.members[r].process)) loss.ranks.push_back(int(r));
      if (loss.ranks.empty()) continue;
      loss.actor = epoch.record.members[std::size_t(loss.ranks.front())].actor;
      losses.push_back(std::move(loss));
    }
  }
  for (const Loss& loss : losses) {
    const std::string who = loss.ranks.size() == 1 ? fmt::format("rank {} (actor {})", loss.ranks.front(), loss.actor)
                                                   : fmt::format("ranks {}", fmt::join(loss.ranks, ", "));
    fail(core, loss.key, loss.which, {Reason::kDied, fmt::format("{} died: {}", who, why), loss.ranks});
  }
  if (!losses.empty()) wake();
}

}  // namespace troupe::collective
