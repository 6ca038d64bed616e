#include "tests/sim/cores_memory.h"

#include <unistd.h>

#include <algorithm>

namespace troupe::sim {

using namespace std::chrono_literals;
using store::BufferId, store::SlotState;

namespace {
constexpr std::uint64_t kCapacity = 256 << 20;
constexpr std::uint32_t kSlots = 1 << 13;
constexpr Duration kDrained = 2s, kHandedOut = 10s;
const store::StoreClientOptions kClient{.chunk_bytes = 64 << 10, .chunk_bytes_max = 64 << 10, .slots = 16};
}  // namespace

// ------------------------------------------------------------------------------------------------------------- process

ProcessMemory::ProcessMemory(NodeMemory& node, ProcessId id, store::StoreHandles handles) : node_(node), id_(id) {
  pins_ = std::move(*store::Mapping::read_write(handles.pins, store::PinTableLayout::bytes(handles.layout.slots)));
  client_ = std::move(*store::StoreClient::create(std::move(handles), *this, kClient));
  node_.processes_.push_back(this);
}

ProcessMemory::~ProcessMemory() {
  std::erase(node_.processes_, this);
  alive_ = false;
}

bool ProcessMemory::pins(std::uint32_t slot) const {
  const std::byte* counts = pins_.data() + store::PinTableLayout::kTouchedBytes;
  return reinterpret_cast<const std::atomic<std::uint32_t>*>(counts)[slot].load() != 0;
}

Result<store::Lease> ProcessMemory::lease(const store::LeaseRequest& request) {
  if (!alive_) return make_error<ObjectStoreFullError>("it is dead");
  const store::Token token = ++node_.last_token_;
  node_.server_->lease(id_, token, request);
  if (auto granted = node_.answer<store::LeaseGranted>(token)) return std::move(granted->lease);
  node_.server_->cancel_request(id_, token);
  return make_error<ObjectStoreFullError>("the store is full");
}

void ProcessMemory::lease_ahead(const store::LeaseRequest& request) {
  if (auto granted = lease(request); granted.ok()) client_->add_lease(*std::move(granted));
}

Result<store::Grant> ProcessMemory::allocate(std::uint64_t size) {
  return make_error<ObjectStoreFullError>("no buffers of " + std::to_string(size) + " bytes here");
}

void ProcessMemory::maybe_free(std::span<const BufferId> ids) {
  if (!alive_) return;
  node_.ask([id = id_, ids = std::vector(ids.begin(), ids.end())](auto& server) { server.maybe_free(id, ids); });
}

void ProcessMemory::give_back(std::span<const store::ReturnedChunk> chunks, std::span<const std::uint32_t> slots) {
  if (!alive_) return;
  const std::vector<store::ReturnedChunk> returned(chunks.begin(), chunks.end());
  const std::vector<std::uint32_t> unused(slots.begin(), slots.end());
  node_.ask([id = id_, returned, unused](auto& server) { server.give_back(id, returned, unused); });
}

// -------------------------------------------------------------------------------------------------------------- daemon

NodeMemory::NodeMemory(EventQueue& queue, std::uint32_t node) : queue_(queue), node_(node) {
  store::StoreServerOptions options;
  options.node = node;
  options.capacity = kCapacity;
  options.slots = kSlots;
  options.make_pages = [](const UniqueFd&, const store::Mapping&, store::Range, bool) { return Status(); };
  server_ = std::move(*store::StoreServer::create(std::move(options)));
}

std::unique_ptr<ProcessMemory> NodeMemory::attach(ProcessId process) {
  store::StoreHandles handles = std::move(*server_->add_client(process));
  if (!index_.data())
    index_ = std::move(*store::Mapping::read_write(handles.index, kSlots * sizeof(store::IndexEntry)));
  return std::make_unique<ProcessMemory>(*this, process, std::move(handles));
}

store::IndexEntry& NodeMemory::entry(std::uint32_t slot) const {
  return reinterpret_cast<store::IndexEntry*>(index_.data())[slot];
}

std::vector<BufferId> NodeMemory::shared() const {
  std::vector<BufferId> found;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    const store::SlotWord now = store::unpack(entry(slot).word.load());
    if (now.state == SlotState::kSealed && entry(slot).shared.load() == now.generation)
      found.push_back({node_, slot, now.generation});
  }
  return found;
}

void NodeMemory::ask(Work work) {
  if (doomed_) return later_.push_back(std::move(work));
  work(*server_);
  apply();
}

void NodeMemory::stop(Random& random, Duration time) {
  if (doomed_ || processes_.empty()) return;
  std::vector<BufferId> pinned;
  for (BufferId id : shared())
    if (std::any_of(processes_.begin(), processes_.end(), [&](const auto* one) { return one->pins(id.slot); }))
      pinned.push_back(id);
  if (pinned.empty()) return;
  doomed_ = pinned[random.below(std::uint32_t(pinned.size()))];
  entry(doomed_->slot).word.store(store::pack({doomed_->generation, SlotState::kDoomed}));
  queue_.after(time, [this, which = *doomed_] {
    if (doomed_ == which) go_on();
  });
}

void NodeMemory::go_on() {
  const BufferId id = *doomed_;
  doomed_.reset();
  entry(id.slot).word.store(store::pack({id.generation, SlotState::kSealed}));  // somebody pinned it when it was doomed
  later_.insert(later_.begin(), [id](auto& server) { server.maybe_free({id.node, 0}, std::span(&id, 1)); });
  for (Work& work : std::exchange(later_, {})) ask(std::move(work));
}

/// SNM-1
void NodeMemory::died(ProcessMemory& process) {
  if (doomed_) go_on();
  process.alive_ = false;
  const ProcessId daemon{node_, 0};
  std::vector<BufferId> kept;
  for (BufferId id : shared())
    if (process.pins(id.slot) && server_->hold(daemon, id)) kept.push_back(id);
  server_->client_closing(process.id_);
  apply();
  queue_.after(kDrained, [this, daemon, kept, dead = process.id_] {
    ask([daemon, kept, dead](auto& server) {
      server.client_died(dead);
      for (BufferId id : kept) server.release(daemon, id);
    });
  });
}

bool NodeMemory::hand_out(ProcessId process, BufferId id) {
  if (!server_->hold(process, id)) return false;
  const std::uint64_t number = ++last_hand_out_;
  handed_out_.push_back({number, process, id});
  queue_.after(kHandedOut, [this, number] {
    auto at = std::find_if(handed_out_.begin(), handed_out_.end(), [&](auto& one) { return one.number == number; });
    if (at != handed_out_.end()) ask([this, process = at->process, id = at->id](auto&) { unhold(process, id); });
  });
  return true;
}

void NodeMemory::unhold(ProcessId process, BufferId id) {
  auto at = std::find_if(handed_out_.begin(), handed_out_.end(),
                         [&](const auto& one) { return one.process == process && one.id == id; });
  if (at != handed_out_.end()) handed_out_.erase(at);
  server_->release(process, id);
}

void NodeMemory::apply() {
  for (auto effects = server_->take_effects(); !effects.empty(); effects = server_->take_effects())
    for (store::StoreEffect& effect : effects) {
      if (const auto* pages = std::get_if<store::PagesWanted>(&effect))
        server_->pages_made(pages->ticket, server_->arena().reserve(pages->range));
      else if (const auto* lease = std::get_if<store::LeaseGranted>(&effect))
        answers_[lease->token] = std::move(effect);
    }
}

template <class Effect> std::optional<Effect> NodeMemory::answer(store::Token token) {
  apply();
  auto found = answers_.extract(token);
  if (!found || !std::holds_alternative<Effect>(found.mapped())) return std::nullopt;
  return std::get<Effect>(std::move(found.mapped()));
}

}  // namespace troupe::sim
