// What a hosted actor keeps beside its instance: replies of keyed calls, and checkpoints.
#include "core/base/exception.h"
#include "core/base/log.h"
#include "core/worker/core.h"
#include "core/worker/host.h"
#include "core/worker/hosted_actor.h"

namespace troupe::worker {

namespace {
constexpr std::size_t kKeysMax = 10'000;
constexpr auto kKeyLife = std::chrono::hours(1);
}  // namespace

// ------------------------------------------------------------------------------------------------------- idempotency keys (HA-3)

bool HostedActor::answer_from_table(const IncomingPtr& call) {
  const auto now = host_.core().now();
  while (!extras().kept_order.empty()) {
    auto oldest = extras().kept.find(extras().kept_order.front());
    if (oldest != extras().kept.end() && (!oldest->second.done || (extras().kept_order.size() <= kKeysMax && oldest->second.until > now))) break;
    if (oldest != extras().kept.end()) extras().kept.erase(oldest);
    extras().kept_order.pop_front();
  }
  auto [at, fresh] = extras().kept.try_emplace(call->key);
  if (fresh) {
    at->second.until = now + kKeyLife;
    extras().kept_order.push_back(call->key);
    return false;
  }
  if (at->second.done) host_.reply_values(*call, *at->second.results, 0);
  else at->second.waiting.push_back(call);
  return true;
}

void HostedActor::remember(IncomingCall& call, std::vector<detail::Value>* results) {
  if (call.key.empty()) return;
  auto found = extras().kept.find(call.key);
  if (found == extras().kept.end()) return;
  Kept& kept = found->second;
  if (results) {
    // The reply is written from the kept values, so they are moved here and lent back.
    kept.results = std::make_shared<std::vector<detail::Value>>(std::move(*results));
    kept.done = true;
    for (auto& other : std::exchange(kept.waiting, {})) host_.reply_values(*other, *kept.results, 0);
    *results = copy_values(*kept.results);
  } else {
    std::vector<IncomingPtr> waiting = std::exchange(kept.waiting, {});
    extras().kept.erase(found);  // an error is no execution to keep: the next one with this key runs
    for (auto& other : waiting) arrived(other);
  }
}

std::vector<detail::Value> HostedActor::copy_values(const std::vector<detail::Value>& values) {
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

namespace {
struct KeptKey { std::string key; std::vector<std::vector<std::byte>> bodies; };
}

/// Keys whose replies are plain bytes are saved with the checkpoint; others do not outlast a restart.
std::vector<std::byte> HostedActor::encode_keys() {
  std::vector<KeptKey> keys;
  for (const std::string& key : extras().kept_order) {
    auto found = extras().kept.find(key);
    if (found == extras().kept.end() || !found->second.done) continue;
    KeptKey one{key, {}};
    bool plain = true;
    for (const auto& value : *found->second.results) {
      plain = plain && !value.large_body && !value.attachments;
      one.bodies.emplace_back(value.body.data(), value.body.data() + value.body.size());
    }
    if (plain) keys.push_back(std::move(one));
  }
  return wire::encode_message(keys);
}

void HostedActor::restore_keys() {
  Result<std::vector<KeptKey>> keys = wire::decode_message<std::vector<KeptKey>>(extras_->checkpoint->keys);
  if (!keys.ok()) return;
  for (KeptKey& one : *keys) {
    Kept kept;
    kept.until = host_.core().now() + kKeyLife;
    kept.done = true;
    kept.results = std::make_shared<std::vector<detail::Value>>();
    for (const auto& body : one.bodies) {
      kept.results->emplace_back();
      kept.results->back().body = detail::Bytes(body.data(), body.size());
    }
    extras().kept_order.push_back(one.key);
    extras().kept.insert_or_assign(one.key, std::move(kept));
  }
}

// --------------------------------------------------------------------------------------------------------------- checkpoints

void HostedActor::maybe_checkpoint() {
  if (spec_->checkpoint_every <= Duration::zero() || !operations_ || !operations_->checkpoint || !extras().dirty || checkpointing_ || open_ > 0) return;
  const auto due = extras().last_checkpoint + spec_->checkpoint_every;
  if (host_.core().now() >= due) {
    checkpointing_ = true;
    extras().dirty = false;
    return post([this] { take_checkpoint(); });
  }
  if (extras().checkpoint_timer) return;
  extras().checkpoint_timer = true;
  host_.core().add_timer(due, [this, alive = std::weak_ptr<int>(extras().alive)] {
    if (alive.expired()) return;
    extras().checkpoint_timer = false;
    if (state_ == State::kAlive) maybe_checkpoint();
  });
}

void HostedActor::take_checkpoint() {
  Core& core = host_.core();
  detail::Value state;
  bool taken = false;
  try {
    operations_->checkpoint(instance_, state);
    taken = true;
  } catch (...) {
    write_log(LogLevel::kError, "the checkpoint of actor {} failed: {}", spec_->class_name, describe_current_exception().message);
  }
  CoreLock lock(core);
  checkpointing_ = false;
  extras().last_checkpoint = host_.core().now();
  if (taken) {
    wire::Checkpoint message;
    message.actor = id_;
    message.restarts = restarts_;
    message.number = ++extras().checkpoint_number;
    auto hold = std::make_shared<Outgoing>(kHead);
    message.state = core.transit().describe(state, *hold);
    extras().checkpoint_hold = hold;  // the newest checkpoint's buffers and refs live as long as it is the newest
    message.keys = encode_keys();
    core.courier().notice(kHead, wire::Method::kCheckpoint, message);
  }
  if (state_ == State::kEnding) end_if_idle();
  else admit();
}

}  // namespace troupe::worker
