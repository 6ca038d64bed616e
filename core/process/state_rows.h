// The rows that this process contributes to list_tasks and list_objects. Thread rule: lock held.
#pragma once
#include "core/wire/messages.h"

namespace troupe::worker {

class Core;

void describe_state(Core& core, const wire::StateQuery& query, wire::StateReply& reply);

}  // namespace troupe::worker
