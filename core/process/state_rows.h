// The rows that this process contributes to list_tasks and list_objects: at most wire::kRowsMax, and how many there
// are. With the lock held a row that is not wanted costs a comparison, so that a list of 100 out of a million stalls
// nobody.
//
// Thread rule: lock held.
#pragma once
#include "core/wire/messages.h"

namespace troupe::worker {

class Core;

void describe_state(Core& core, const wire::StateQuery& query, wire::StateReply& reply);

}  // namespace troupe::worker
