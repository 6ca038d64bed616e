#include "core/executor/keyed_replies.h"

#include <algorithm>

#include "core/executor/replies.h"
#include "core/wire/codec.h"
#include "core/wire/codec_define.h"

namespace troupe::worker {

namespace {
struct KeptKey { std::string key; std::vector<std::vector<std::byte>> bodies; };

std::vector<detail::Value> copy_values(const std::vector<detail::Value>& values) {
  std::vector<detail::Value> copies;
  for (const auto& value : values) {
    detail::Value copy;
    copy.body = detail::Bytes(value.body.data(), value.body.size());
    copy.large_body = value.large_body;
    if (value.attachments) copy.attachments = std::make_unique<detail::Attachments>(*value.attachments);
    copies.push_back(std::move(copy));
  }
  return copies;
}
}  // namespace

bool KeyedReplies::answer(const IncomingPtr& call, exec::Deadline now) {
  expire(now);
  Kept* kept = kept_.find(call->key);
  if (!kept) {
    kept_.insert(call->key, {});
    return false;
  }
  if (kept->results) replies_.values(*call, *kept->results);
  else kept->waiting.push_back(call);
  return true;
}

void KeyedReplies::executed(const IncomingCall& call, std::vector<detail::Value>& results, exec::Deadline now) {
  Kept* kept = kept_.find(call.key);
  if (!kept) return;
  kept->results = std::make_shared<std::vector<detail::Value>>(copy_values(results));
  kept_.keep(call.key, now);
  for (auto& other : std::exchange(kept->waiting, {})) replies_.values(*other, *kept->results);
}

std::vector<IncomingPtr> KeyedReplies::failed(const IncomingCall& call) {
  Kept* kept = kept_.find(call.key);
  if (!kept) return {};
  std::vector<IncomingPtr> waiting = std::move(kept->waiting);
  kept_.erase(call.key);
  return waiting;
}

IncomingPtr KeyedReplies::take_waiting(ProcessId source, std::uint64_t call_id) {
  IncomingPtr found;
  kept_.for_each([&](const std::string&, Kept& kept) {
    auto is_it = [&](const IncomingPtr& one) { return one->source == source && one->head.call_id == call_id; };
    auto at = std::find_if(kept.waiting.begin(), kept.waiting.end(), is_it);
    if (found || at == kept.waiting.end()) return;
    found = *at;
    kept.waiting.erase(at);
  });
  return found;
}

std::vector<IncomingPtr> KeyedReplies::take_all_waiting() {
  std::vector<IncomingPtr> all;
  kept_.for_each([&](const std::string&, Kept& kept) {
    for (auto& call : std::exchange(kept.waiting, {})) all.push_back(std::move(call));
  });
  return all;
}

std::vector<std::byte> KeyedReplies::encode() {
  std::vector<KeptKey> keys;
  kept_.for_each_kept([&](const std::string& key, Kept& kept) {
    KeptKey one{key, {}};
    bool plain = true;
    for (const auto& value : *kept.results) {
      plain = plain && !value.large_body && !value.attachments;
      one.bodies.emplace_back(value.body.data(), value.body.data() + value.body.size());
    }
    if (plain) keys.push_back(std::move(one));
  });
  return wire::encode_message(keys);
}

void KeyedReplies::restore(const std::vector<std::byte>& bytes, exec::Deadline now) {
  Result<std::vector<KeptKey>> keys = wire::decode_message<std::vector<KeptKey>>(bytes);
  if (!keys.ok()) return;
  for (const KeptKey& one : *keys) {
    Kept kept;
    kept.results = std::make_shared<std::vector<detail::Value>>();
    for (const auto& body : one.bodies) {
      kept.results->emplace_back();
      kept.results->back().body = detail::Bytes(body.data(), body.size());
    }
    kept_.insert(one.key, std::move(kept));
    kept_.keep(one.key, now);
  }
}

}  // namespace troupe::worker
