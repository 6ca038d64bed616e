#include "core/node/base/exports.h"

#include <vector>

namespace troupe::node {

bool Exports::expose(store::BufferId id, store::BufferId local, std::span<const std::byte> bytes, std::uint32_t node) {
  std::lock_guard lock(state_->mutex);
  auto [it, fresh] = state_->entries.try_emplace(id, Entry{local, bytes, {}, 0});
  it->second.nodes[node]++;
  return fresh;
}

void Exports::State::drop_if_idle(store::BufferId id) {
  auto it = entries.find(id);
  if (it == entries.end() || !it->second.nodes.empty() || it->second.in_use > 0) return;
  loop.post([f = released, local = it->second.local] { f(local); });  // EX-2
  entries.erase(it);
}

void Exports::withdraw(store::BufferId id, std::uint32_t node) {
  std::lock_guard lock(state_->mutex);
  auto it = state_->entries.find(id);
  if (it == state_->entries.end()) return;
  auto count = it->second.nodes.find(node);
  if (count == it->second.nodes.end()) return;
  if (--count->second == 0) it->second.nodes.erase(count);
  state_->drop_if_idle(id);
}

void Exports::withdraw_all(std::uint32_t node) {
  std::lock_guard lock(state_->mutex);
  std::vector<store::BufferId> touched;
  for (auto& [id, entry] : state_->entries) if (entry.nodes.erase(node) > 0) touched.push_back(id);
  for (store::BufferId id : touched) state_->drop_if_idle(id);
}

Result<net::PinnedBytes> Exports::open(const net::BufferKey& key) {
  const store::BufferId id{key.node, key.slot, key.generation};
  std::lock_guard lock(state_->mutex);
  auto it = state_->entries.find(id);
  if (it == state_->entries.end())
    return make_error<ObjectLostError>("buffer " + store::to_string(id) + " is not offered here");
  it->second.in_use++;
  auto keep =
      std::shared_ptr<const void>(static_cast<const void*>(it->second.bytes.data()), [state = state_, id](const void*) {
        std::lock_guard inner(state->mutex);
        auto entry = state->entries.find(id);
        if (entry == state->entries.end()) return;
        entry->second.in_use--;
        state->drop_if_idle(id);
      });
  return net::PinnedBytes{it->second.bytes, std::move(keep)};
}

}  // namespace troupe::node
