#include "core/owner/objects.h"

#include <algorithm>

#include "core/owner/buffers.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

Runtime& ObjectEntry::runtime() const { return table_.runtime(); }

void ObjectEntry::last_released() noexcept { table_.drop(*this); }

ObjectEntry* ObjectTable::make_owned() {
  ObjectEntry* entry = entries_.make(*this);
  entry->id = {runtime_.self(), entry->handle()};
  entry->retain();
  return entry;
}

ObjectEntryPtr ObjectTable::find_owned(ObjectId id) {
  ObjectEntry* entry = entries_.find(id.seq);
  if (!entry || !entry->owned || !entry->try_retain()) return {};
  return ObjectEntryPtr::adopt(entry);
}

ObjectEntryPtr ObjectTable::borrow(ObjectId id, bool granted) {
  ObjectEntry*& entry = borrowed_[id];
  // one that is just going away cannot come back (CTD-1): a new one takes its place
  if (!entry || !entry->try_retain()) {
    entry = entries_.make(*this);
    entry->id = id;
    entry->owned = false;
    entry->retain();
  }
  if (granted) {
    ++entry->rare().grants;
    entry->rare().confirmed = true;
  }
  return ObjectEntryPtr::adopt(entry);
}

bool ObjectTable::needs_confirmation(ObjectEntry& entry, std::uint64_t arrival) {
  ObjectEntry::Rare& rare = entry.rare();
  if (entry.owned || rare.confirmed || entry.state() == ObjectEntry::kFailed) return false;
  if (rare.confirmations.empty()) effects_.send_borrow(entry.id.maker, entry.id);
  rare.confirmations.push_back(arrival);
  return true;
}

std::vector<std::uint64_t> ObjectTable::confirmed(ObjectId id) {
  auto found = borrowed_.find(id);
  if (found == borrowed_.end()) {
    effects_.send_release(id.maker, id, 1);  // dropped while the question was under way
    return {};
  }
  ObjectEntry::Rare& rare = found->second->rare();
  ++rare.grants;
  rare.confirmed = true;
  return std::exchange(rare.confirmations, {});
}

void ObjectTable::complete(ObjectEntry& entry, detail::Value value) {
  if (entry.state() != ObjectEntry::kPending) return;
  entry.value = std::move(value);
  settle(entry, ObjectEntry::kReady);
}

void ObjectTable::fail(ObjectEntry& entry, ErrorPtr error) {
  if (entry.state() != ObjectEntry::kPending) return;
  entry.error = std::move(error);
  settle(entry, ObjectEntry::kFailed);
}

void ObjectTable::settle(ObjectEntry& entry, detail::ObjectBase::State state) {
  entry.producer = nullptr;
  entry.set_state(state);
  for (WaitNode* node = std::exchange(entry.waiters, nullptr); node;) {
    WaitNode* next = std::exchange(node->next, nullptr);
    if (WaitGroup* group = std::exchange(node->group, nullptr); group && group->missing > 0) {
      const bool last = --group->missing == 0;
      const bool elsewhere = group->fetches && state == ObjectEntry::kReady && !BufferTable::all_here(entry.value);
      if (last || elsewhere) group->waiter->notify();
    }
    node = next;
  }
  if (ObjectEntry::Rare* rare = entry.rare_if()) {
    for (auto [reader, token] : std::exchange(rare->readers, {})) effects_.send_value(reader, token, entry);
    for (PendingCall* call : std::exchange(rare->dependents, {})) effects_.dependency_ready(*call);
    for (auto& callback : std::exchange(rare->callbacks, {})) effects_.run_callback(std::move(callback));
  }
}

void ObjectTable::want(ObjectEntry& entry) {
  if (entry.owned || entry.state() != ObjectEntry::kPending || entry.rare().asked) return;
  entry.rare().asked = true;
  effects_.send_value_request(entry.id.maker, entry.id);
}

void ObjectTable::add_waiter(ObjectEntry& entry, WaitNode& node) {
  node.next = entry.waiters;
  entry.waiters = &node;
}

void ObjectTable::remove_waiter(ObjectEntry& entry, WaitNode& node) {
  for (WaitNode** at = &entry.waiters; *at; at = &(*at)->next)
    if (*at == &node) {
      *at = node.next;
      return;
    }
}

void ObjectTable::grant(ObjectEntry& entry, ProcessId borrower) {
  entry.sent_away = true;
  auto& borrowers = entry.rare().borrowers;
  if (borrowers.empty()) {  // OW-2: all borrowers together are one owner of the entry
    ++borrowed_out_;
    entry.retain();
  }
  auto found = std::find_if(borrowers.begin(), borrowers.end(), [&](auto& one) { return one.first == borrower; });
  if (found == borrowers.end()) borrowers.emplace_back(borrower, 1);
  else ++found->second;
}

void ObjectTable::released(ProcessId borrower, ObjectId id, std::uint32_t grants) {
  ObjectEntry* entry = entries_.find(id.seq);
  if (!entry || !entry->owned || !entry->rare_if()) return;
  auto& borrowers = entry->rare().borrowers;
  auto found = std::find_if(borrowers.begin(), borrowers.end(), [&](auto& one) { return one.first == borrower; });
  if (found == borrowers.end()) return;
  found->second -= std::min(found->second, grants);
  if (found->second != 0) return;
  borrowers.erase(found);
  if (borrowers.empty()) {
    --borrowed_out_;
    entry->release();
  }
}

std::uint32_t ObjectTable::grants_of(ObjectId id, ProcessId borrower) {
  ObjectEntry* entry = entries_.find(id.seq);
  ObjectEntry::Rare* rare = entry ? entry->rare_if() : nullptr;
  if (!rare) return 0;
  auto found =
      std::find_if(rare->borrowers.begin(), rare->borrowers.end(), [&](auto& one) { return one.first == borrower; });
  return found == rare->borrowers.end() ? 0 : found->second;
}

bool ObjectTable::value_wanted(ProcessId reader, ObjectId id, std::uint64_t token) {
  ObjectEntry* entry = entries_.find(id.seq);
  if (!entry || !entry->owned) return false;
  if (entry->state() == ObjectEntry::kPending) entry->rare().readers.emplace_back(reader, token);
  else effects_.send_value(reader, token, *entry);
  return true;
}

void ObjectTable::drop(ObjectEntry& entry) noexcept {
  if (runtime_.lock_held()) {
    auto finish = [](void* thing) {
      auto& entry = *static_cast<ObjectEntry*>(thing);
      entry.table_.dropped(entry);
    };
    return runtime_.mutex().finish_drop(finish, &entry);
  }
  CoreLock lock(runtime_);
  dropped(entry);
}

void ObjectTable::dropped(ObjectEntry& entry) {
  if (entry.owned) {
    if (entry.producer) effects_.result_unwanted(*entry.producer, entry);
    // Who asked for the value without a count (its sender died before it was counted) must not wait for ever.
    if (ObjectEntry::Rare* rare = entry.rare_if(); rare && !rare->readers.empty())
      fail(entry,
           make_error<ObjectLostError>("the object " + to_string(entry.id) + " is gone: its owner keeps it no more"));
  } else {
    if (auto found = borrowed_.find(entry.id); found != borrowed_.end() && found->second == &entry)
      borrowed_.erase(found);
    ObjectEntry::Rare& rare = entry.rare();
    if (rare.grants > 0) effects_.send_release(entry.id.maker, entry.id, rare.grants);
    // The answer to a question still under way will find no entry, and is given back then.
    for (std::uint64_t arrival : rare.confirmations) effects_.arrival_confirmed(arrival);
  }
  destroy(entry);
}

void ObjectTable::destroy(ObjectEntry& entry) { entries_.destroy(&entry, entry.handle()); }

void ObjectTable::drop_borrowers(const Whose& gone) {
  if (borrowed_out_ == 0) return;
  entries_.for_each([&](ObjectEntry& entry) {
    ObjectEntry::Rare* rare = entry.owned ? entry.rare_if() : nullptr;
    if (!rare) return;
    if (std::erase_if(rare->borrowers, [&](auto& one) { return gone(one.first); }) == 0 || !rare->borrowers.empty())
      return;
    --borrowed_out_;
    entry.release();
  });
}

void ObjectTable::fail_borrowed(const Whose& gone, const std::function<ErrorPtr()>& owner_died) {
  std::vector<ObjectEntryPtr> lost;
  for (auto& [id, entry] : borrowed_)
    if (gone(id.maker) && entry->try_retain()) lost.push_back(ObjectEntryPtr::adopt(entry));
  if (lost.empty()) return;
  const ErrorPtr error = owner_died();
  for (auto& entry : lost) {
    fail(*entry, error);  // one that was read keeps its value
    for (std::uint64_t arrival : std::exchange(entry->rare().confirmations, {})) effects_.arrival_confirmed(arrival);
  }
}

void ObjectTable::drop_readers(const Whose& gone) {
  entries_.for_each([&](ObjectEntry& entry) {
    if (ObjectEntry::Rare* rare = entry.owned ? entry.rare_if() : nullptr)
      std::erase_if(rare->readers, [&](auto& one) { return gone(one.first); });
  });
}

void ObjectTable::died(const Whose& gone, const std::function<ErrorPtr()>& owner_died) {
  drop_readers(gone);
  fail_borrowed(gone, owner_died);
}

void ObjectTable::forget_others() {
  const auto all = [](ProcessId) { return true; };
  drop_readers(all);  // first: what goes with its last borrower has nobody to tell
  drop_borrowers(all);
}

}  // namespace troupe::worker
