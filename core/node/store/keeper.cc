#include "core/node/store/keeper.h"

#include <limits>

#include "core/base/log.h"
#include "core/node/store/buffer_names.h"

namespace troupe::node {
namespace {

constexpr Duration kHoldWait = std::chrono::seconds(30);
}  // namespace

Keeper::Keeper(std::uint32_t node, Messenger& messenger, Store store)
    : node_(node),
      self_{node, std::numeric_limits<std::uint32_t>::max()},
      messenger_(messenger),
      store_(std::move(store)) {}

void Keeper::pass_on(const wire::KeptName& name, const std::vector<wire::BufferDesc>& buffers) {
  if (buffers.empty()) return;
  auto& record = records_[name];
  if (!record) record = std::make_shared<Record>();
  for (const wire::BufferDesc& buffer : buffers) {
    if (buffer.node != node_) {
      messenger_.request(daemon_of(buffer.node), wire::Method::kStoreHold, wire::StoreHoldRequest{self_, {buffer}},
                         kHoldWait, [](Result<Messenger::Bytes> held) {
                           if (!held.ok())
                             write_log(LogLevel::kWarn, "what an actor needs to come back is gone: {}",
                                       held.error().message());
                         });
    } else if (!store_.hold(self_, id_of(buffer))) {
      continue;  // gone already: who reads it will say so
    }
    record->pinned.push_back(buffer);
  }
}

void Keeper::keep(const net::FrameHeader& request, const wire::KeepRequest& wanted) {
  no_more(wanted.name);
  const auto record = records_[wanted.name] = std::make_shared<Record>();
  record->request = request;
  record->reply.buffers = wanted.buffers;
  record->missing = wanted.buffers.size() + 1;  // and this function
  for (std::size_t i = 0; i < wanted.buffers.size(); ++i) {
    const wire::BufferDesc& buffer = wanted.buffers[i];
    auto done = [this, name = wanted.name, record, i](Result<store::BufferId> local) {
      came(name, record, i, std::move(local));
    };
    if (buffer.node == node_) done(id_of(buffer));
    else store_.bring(buffer, std::move(done));
  }
  --record->missing;
  settle(wanted.name, record);
}

void Keeper::came(const wire::KeptName& name, const std::shared_ptr<Record>& record, std::size_t index,
                  Result<store::BufferId> local) {
  wire::BufferDesc& buffer = record->reply.buffers[index];
  if (!local.ok()) {
    record->error = local.error().record();
  } else if (!store_.hold(self_, *local)) {
    record->error = make_record(ErrorCode::kObjectLost, "buffer " + store::to_string(*local) + " is no longer there");
  } else {
    buffer = {local->node, local->slot, local->generation, buffer.size};
    record->pinned.push_back(buffer);
  }
  --record->missing;
  settle(name, record);
}

void Keeper::settle(const wire::KeptName& name, const std::shared_ptr<Record>& record) {
  if (record->missing > 0 || !record->request) return;
  const net::FrameHeader request = *std::exchange(record->request, std::nullopt);
  if (record->over && !record->error) record->error = make_record(ErrorCode::kCancelled, "it is not wanted any more");
  if (!record->error) return messenger_.respond(request, record->reply);
  let_go(*record);
  if (!record->over) records_.erase(name);
  messenger_.fail(request, *record->error);
}

void Keeper::no_more(const wire::KeptName& name) {
  auto found = records_.extract(name);
  if (!found) return;
  Record& record = *found.mapped();
  record.over = true;
  if (record.missing == 0) let_go(record);
}

void Keeper::let_go(Record& record) {
  for (const wire::BufferDesc& buffer : std::exchange(record.pinned, {})) {
    if (buffer.node == node_) store_.release(self_, id_of(buffer));
    else messenger_.notice(daemon_of(buffer.node), wire::Method::kStoreUnhold, wire::StoreHoldRequest{self_, {buffer}});
  }
}

}  // namespace troupe::node
