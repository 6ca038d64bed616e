// NodeOptions: what a node is made of, as the driver's options or the command's flags say it.
//
// Thread rule: plain data.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include <troupe/options.h>

namespace troupe::node {

/// What a node is made of; unset numbers are measured on this machine.
struct NodeOptions {
  double cpus = kUnset;
  double gpus = kUnset;
  std::uint64_t memory = 0;                         ///< bytes schedulable as "memory"; 0: the machine's
  std::map<std::string, double> resources = {};
  std::map<std::string, std::string> labels = {};
  std::uint64_t object_store_memory = 0;            ///< bytes; 0: 30 % of memory
  std::string log_level = {};
  /// bytes that open calls of one process may take; 0: 25 % of memory
  std::uint64_t call_memory = 0;
  std::uint64_t ring_memory = 0;                    ///< bytes of all rings between processes of the node; 0: 64 MiB
  int max_suspended_workers = 512;
  std::uint64_t stack_size = 1 << 20;
  std::string bind = "127.0.0.1";
  /// Links are not encrypted: off loopback a node starts only with this, and says so (docs/security.md).
  bool plaintext_network = false;
};

}  // namespace troupe::node
