// Conversions between the messages of link.proto and the plain structs of net/link/abi.h.
//
// Thread rule: pure functions.
#pragma once
#include "core/net/link/abi.h"
#include "link.pb.h"

namespace troupe::wire {

inline constexpr std::size_t kHelloTextMax = 256;
inline constexpr std::size_t kHelloPayloadMax = 64 * 1024;

inline void to_proto(const net::abi::Hello& from, proto::Hello& to) {
  to.set_protocol(from.protocol);
  to.set_cluster_id(from.cluster_id);
  to.set_build(from.build);
  to.set_payload(from.payload);
}

/// False when a field is longer than it may be.
inline bool from_proto(const proto::Hello& from, net::abi::Hello& to) {
  if (from.cluster_id().size() > kHelloTextMax || from.build().size() > kHelloTextMax ||
      from.payload().size() > kHelloPayloadMax)
    return false;
  to.protocol = from.protocol();
  to.cluster_id = from.cluster_id();
  to.build = from.build();
  to.payload = from.payload();
  return true;
}

}  // namespace troupe::wire
