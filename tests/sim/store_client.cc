#include "tests/sim/store_client.h"

#include "tests/sim/store_world.h"

namespace troupe::sim {

using store::BufferId, store::Range, store::SlotState, store::SlotWord, store::pack;

namespace {
constexpr std::size_t kFlushAt = 6;
constexpr int kSpins = 64;
constexpr store::LocalLeaseOptions kLeases{
    .chunk_bytes = 256 << 10, .chunk_bytes_max = 1 << 20, .slots = 6, .slots_max = 16};
std::uint64_t rounded(std::uint64_t size) { return std::max<std::uint64_t>(64, (size + 63) / 64 * 64); }
}  // namespace

SimStoreClient::SimStoreClient(StoreWorld& world, ProcessId self, store::StoreHandles handles)
    : id(self), leases(kLeases), world_(world), layout_(handles.layout) {
  const std::uint64_t index_bytes = std::uint64_t(layout_.slots) * sizeof(store::IndexEntry);
  index_ = std::move(*store::Mapping::read_write(handles.index, index_bytes));
  table_ = std::move(*store::Mapping::read_write(handles.pins, store::PinTableLayout::bytes(layout_.slots)));
}

void SimStoreClient::start(Script script) {
  const std::uint64_t number = ++last_script_;
  scripts.emplace(number, std::move(script));
  world_.plan_step(*this, number);
}

void SimStoreClient::dies() {
  alive = false;
  scripts.clear();
  pins.clear();
  frames.clear();
  open.clear();
  made_bytes.clear();
  asked.clear();
}

// -------------------------------------------------------------------------------------------------------------- making

AskedPtr SimStoreClient::ask_lease(const store::LeaseRequest& request) {
  auto one = std::make_shared<Asked>();
  one->token = world_.ask_lease(*this, request);
  asked[one->token] = one;
  return one;
}

AskedPtr SimStoreClient::ask_buffer(std::uint64_t size) {
  auto one = std::make_shared<Asked>();
  one->token = world_.ask_buffer(*this, size);
  asked[one->token] = one;
  return one;
}

/// A grant that nobody waits for any more goes back (OSR-1).
void SimStoreClient::answered(const AskedPtr& one) {
  asked.erase(one->token);
  if (!one->given_up) {
    one->done = true;
    world_.wake(*this);
    return;
  }
  if (one->grant) world_.maybe_free(*this, {one->grant->id});
  if (one->lease) {
    store::LocalLeases::GiveBack back;
    if (one->lease->chunk != 0) back.chunks.push_back({one->lease->chunk, 0});
    back.slots = one->lease->slots;
    world_.give_back(*this, back);
  }
}

Script SimStoreClient::put(std::uint64_t size) {
  BufferId buffer;
  Range bytes;
  if (size >= layout_.large_from) {
    flush();
    AskedPtr one = ask_buffer(size);
    co_await blocked(one->done);
    if (!one->grant || one->given_up) co_return;
    buffer = one->grant->id;
    bytes = one->grant->range;
    made_[buffer.slot] = {buffer.generation, 0, true};
    open[buffer] = bytes;
    co_await kStep;
    if (world_.chance(0.05)) {  // abandoned
      open.erase(buffer);
      dropped_.push_back(buffer);
      co_return;
    }
  } else {
    std::optional<store::LocalLeases::Allocation> place;
    while (!(place = leases.take(rounded(size)))) {
      const store::LeaseRequest request = leases.next_request(rounded(size));
      flush();
      AskedPtr one = ask_lease(request);
      co_await blocked(one->done);
      if (!one->lease || one->given_up) co_return;
      leases.add(*one->lease);
    }
    const std::uint32_t generation = word(place->slot).generation;
    buffer = {layout_.node, place->slot, generation};
    bytes = {place->offset, size};
    made_[buffer.slot] = {generation, place->chunk, false};
    open[buffer] = {place->offset, rounded(size)};
    if (auto ahead = leases.ask_ahead()) world_.ask_ahead(*this, *ahead);
    if (leases.has_give_back()) give_back();
    co_await kStep;
    if (world_.chance(0.05)) {
      open.erase(buffer);
      leases.put_back(*place, rounded(size));
      co_return;
    }
  }
  entry(buffer.slot).offset.store(bytes.offset);
  entry(buffer.slot).size.store(bytes.size);
  co_await kStep;
  touched(buffer.slot).store(1);
  co_await kStep;
  count(buffer.slot).fetch_add(1);
  co_await kStep;
  entry(buffer.slot).word.store(pack({buffer.generation, SlotState::kSealed}));
  made_bytes[buffer] = bytes;
  open.erase(buffer);
  ++pins[buffer];
}

// ------------------------------------------------------------------------------------------------------------- pinning

/// SL-3: the count first, then the word. `done` is set with `pinned`.
Script SimStoreClient::pin(BufferId what, bool* pinned, bool* done) {
  touched(what.slot).store(1);
  co_await kStep;
  count(what.slot).fetch_add(1);
  co_await kStep;
  const SlotWord doomed{what.generation, SlotState::kDoomed};
  for (int spin = 0; spin < kSpins && word(what.slot) == doomed; ++spin) co_await kStep;
  if (word(what.slot) == SlotWord{what.generation, SlotState::kSealed}) {
    made_bytes.try_emplace(what, bytes_of(what.slot));
    ++pins[what];
    *pinned = true;
  } else {
    co_await kStep;
    if (count(what.slot).fetch_sub(1) == 1) {
      co_await kStep;
      const SlotWord now = word(what.slot);  // SL-6
      if (now.state == SlotState::kSealed || now.state == SlotState::kDoomed)
        start(last_drop({layout_.node, what.slot, now.generation}));
    }
  }
  *done = true;
  world_.wake(*this);
}

Script SimStoreClient::take_in(Parcel parcel) {
  bool pinned = false, done = false;
  start(pin(parcel.id, &pinned, &done));
  co_await blocked(done);
  world_.taken_in(parcel, pinned);
  if (pinned) world_.seen(parcel.id);
}

Script SimStoreClient::pin_copy(BufferId local) {
  bool pinned = false, done = false;
  start(pin(local, &pinned, &done));
  co_await blocked(done);
  world_.copy_pinned(*this, local, pinned);
}

Script SimStoreClient::try_stale(BufferId what) {
  bool pinned = false, done = false;
  start(pin(what, &pinned, &done));
  co_await blocked(done);
  if (pinned) start(drop(what));
}

// ------------------------------------------------------------------------------------------------------------- sharing

void SimStoreClient::mark_shared(BufferId what) {
  auto found = made_.find(what.slot);
  if (found == made_.end() || found->second.generation != what.generation || found->second.shared) return;
  found->second.shared = true;
  entry(what.slot).shared.store(what.generation);
  leases.share(found->second.chunk);
}

Script SimStoreClient::send(BufferId what, ProcessId to) {
  if (users_pins(what) == 0) co_return;
  mark_shared(what);
  count(what.slot).fetch_add(1);  // the frame's own pin
  ++pins[what];
  ++frames[what];
  co_await kStep;
  world_.send(what, *this, to);
}

// ------------------------------------------------------------------------------------------------------------ dropping

std::uint32_t SimStoreClient::users_pins(BufferId of) const {
  auto all = pins.find(of), under_way = frames.find(of);
  return (all == pins.end() ? 0 : all->second) - (under_way == frames.end() ? 0 : under_way->second);
}

Script SimStoreClient::drop(BufferId what, Whose whose) {
  if (whose == Whose::kUsers && users_pins(what) == 0) co_return;  // another thread was faster
  if (whose == Whose::kFrames && --frames.at(what) == 0) frames.erase(what);
  auto found = pins.find(what);
  if (--found->second == 0) {
    pins.erase(found);
    made_bytes.erase(what);
  }
  if (count(what.slot).fetch_sub(1) != 1) co_return;
  co_await kStep;
  start(last_drop(what));
}

Script SimStoreClient::last_drop(BufferId what) {
  auto found = made_.find(what.slot);
  const bool recycles = found != made_.end() && found->second.generation == what.generation && !found->second.shared;
  if (!recycles) {
    dropped_.push_back(what);
    if (bytes_of(what.slot).size >= layout_.large_from || dropped_.size() >= kFlushAt) flush();
    co_return;
  }
  std::uint64_t sealed = pack({what.generation, SlotState::kSealed});
  if (!entry(what.slot).word.compare_exchange_strong(sealed, pack({what.generation, SlotState::kDoomed}))) co_return;
  co_await kStep;
  if (count(what.slot).load() != 0) {
    entry(what.slot).word.store(pack({what.generation, SlotState::kSealed}));
    co_return;
  }
  const Range bytes = bytes_of(what.slot);
  entry(what.slot).word.store(pack({store::next_generation(what.generation), SlotState::kLeased}));
  leases.put_back({what.slot, made_.at(what.slot).chunk, bytes.offset}, rounded(bytes.size));
  if (leases.tight() && leases.has_give_back()) give_back();
}

void SimStoreClient::give_back() { world_.give_back(*this, leases.take_give_back()); }

void SimStoreClient::flush() {
  if (!dropped_.empty()) world_.maybe_free(*this, std::exchange(dropped_, {}));
  if (leases.has_give_back()) give_back();
}

void SimStoreClient::trim() {
  leases.trim();
  flush();
}

}  // namespace troupe::sim
