// What a daemon or a head is started with: written to a memfd by its parent, read at kRoleFd; never in argv.
//
// Thread rule: plain data.
#pragma once
#include <map>
#include <string>

#include "core/base/fd.h"
#include "core/node/base/node_options.h"
#include "core/wire/codec.h"
#include <troupe/result.h>

namespace troupe::node {

/// At this descriptor a daemon or head finds the socket on which it says that it is ready (ReadyReport, one packet).
/// The other end's closing ends an embedded daemon or head; a packet "stop" ends any.
inline constexpr int kLifelineFd = 4;

struct DaemonConfig {
  std::string session_dir;
  std::string node_name = "node";        ///< names the socket and the log files
  std::string head_address;              ///< empty: starts a head of its own
  int head_port = 0;
  std::string token_file;
  bool embedded = false;                 ///< ends with its parent
  int parent_pid = 0;
  bool is_head_node = false;
  // Of NodeOptions, resolved.
  std::map<std::string, double> resources;
  std::map<std::string, std::string> labels;
  std::uint64_t object_store_memory = 0;
  std::string log_level, bind;
  int max_suspended_workers = 512;
  std::uint64_t stack_size = 1 << 20;
  std::uint64_t call_memory = 0, ring_memory = 0;
};

struct HeadConfig {
  std::string session_dir;
  std::string token_file;
  std::string bind = "127.0.0.1";
  int port = 0;
  bool embedded = false;
  int parent_pid = 0;
  std::string log_level;
  std::string journal = {};              ///< head::ServerOptions has the same two
  bool recover = false;
};

/// What a daemon (socket_path, node_id, node) or head (address) says when it takes work, or why it does not.
struct ReadyReport {
  std::string address, socket_path, node_id;
  std::uint32_t node = 0;
  std::int32_t pid = 0;
  std::string error;
};

Result<UniqueFd> write_config(const std::vector<std::byte>& bytes);
Result<std::vector<std::byte>> read_config(int fd);

/// Fills what is unset from this machine: CPU, GPU, memory, the store's size. InvalidArgumentError for nonsense.
Result<DaemonConfig> resolve_node(const NodeOptions& options);

/// Starts this executable in a role and waits for its ReadyReport. The pid is our child's.
struct RoleProcess {
  int pid = 0;
  UniqueFd lifeline;
  ReadyReport report;
};
struct RoleStart {
  std::string role;                      ///< "daemon", "head"
  std::vector<std::byte> config;
  std::string mark;
  std::string log_file;                  ///< its standard output and error
  bool die_with_parent = false;
  Duration ready_timeout = std::chrono::seconds(20);
};
/// The process only, without waiting: report is empty.
Result<RoleProcess> begin_role(const RoleStart& start);
Result<ReadyReport> await_ready(const RoleProcess& process, const RoleStart& start);
Result<RoleProcess> start_role(const RoleStart& start);
/// The other end, of a head: it serves at this address, or why it does not.
void report_head(int lifeline, const Result<std::string>& address);

}  // namespace troupe::node
