// PinTables: the daemon's view of its clients' pin tables (layout.h). Answers one question: does anybody pin this slot?
//
// Thread rule: one thread at a time.
#pragma once
#include <cstdint>
#include <vector>

#include <troupe/result.h>
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "objectstore/arena/shared_memory.h"

namespace troupe::store {

class PinTables {
 public:
  explicit PinTables(std::uint32_t slots) : slots_(slots) {}

  /// Makes the table of a new client; the descriptor is for the client.
  Result<UniqueFd> add(ProcessId client);
  /// Forgets the table. What comes back: the slots that it may ever have pinned; a client that dies between dropping a
  /// pin and telling the daemon leaves a count of zero and no report.
  std::vector<std::uint32_t> drop(ProcessId client);
  /// Reads every table (SL-3: the caller has written doomed before). Cost: one or two loads a client.
  bool pinned(std::uint32_t slot) const;
  /// Pins of one client, counted (tests, state queries).
  std::uint64_t pinned_slots(ProcessId client) const;

 private:
  struct Table {
    ProcessId client;
    Mapping map;
  };
  std::vector<std::uint32_t> nonzero(const Table& table) const;

  std::uint32_t slots_;
  std::vector<Table> tables_;
};

}  // namespace troupe::store
