// StoreHandles: what a process needs to open its node's store: four descriptors and the layout. Made by
// StoreServer::add_client, sent to the process (descriptors by SCM_RIGHTS, in this order), taken by
// StoreClient::create.
//
// Thread rule: a value.
#pragma once
#include "core/base/fd.h"
#include "objectstore/arena/layout.h"

namespace troupe::store {

struct StoreHandles {
  UniqueFd arena_write;  ///< read-write
  UniqueFd arena_read;   ///< reopened O_RDONLY: cannot be mapped writable
  UniqueFd index;
  UniqueFd pins;  ///< this client's own pin table
  StoreLayout layout;
};

}  // namespace troupe::store
