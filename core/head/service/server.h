// The head's process: links, a clock and a log around head::Shell.
//
//   transport threads --post--> queue --loop's thread--> Shell --> links
//
// Thread rule: head_main runs everything on the calling thread; the transport's own threads only put into the queue.
//
// Invariants
//   HSV-2  The head ends when the process that it serves is gone (parent_pid, or stop_fd hung up where end_on_hangup),
//          on the packet "stop", and on SIGTERM or SIGINT; nothing else ends it.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "core/base/log.h"
#include "core/head/state/membership.h"
#include "core/net/link/link.h"
#include "core/wire/messages.h"
#include <troupe/result.h>

namespace troupe::head {

struct ServerOptions {
  std::string bind = "127.0.0.1";
  int port = 0;                          ///< 0: any
  std::string token_file;
  std::string cluster_id;                ///< empty: a new one
  std::uint64_t epoch = 1;
  std::string rpc_library;               ///< path of libtroupe_rpc.so; empty: searched
  int parent_pid = 0;                    ///< ends when this process is gone; 0: not watched
  int stop_fd = -1;                      ///< a socket or pipe: what is written to it ("stop") ends the head
  bool end_on_hangup = true;             ///< so does its other end's closing
  std::string journal;                   ///< a file (journal.h); empty: a head that ends is gone for good
  bool recover = false;                  ///< as the head that wrote the journal; cluster_id is taken from there
  bool own_process = true;               ///< false: a thread of a program that keeps its signals, limits and log
  std::function<Result<std::unique_ptr<net::Links>>(net::LinkEvents&, const net::LinksOptions&)> open_links =
      &net::open_links;
  LogOptions log = {.label = "head"};
  /// HOST:PORT when the head takes connections, or why it does not; called once, on the calling thread.
  std::function<void(const Result<std::string>& address)> on_ready;
  /// What the head knew when it ended in order, a kind of rows at a time (nodes, jobs, actors, metrics).
  std::function<void(wire::StateKind kind, const wire::StateReply& rows)> on_end;
  MembershipOptions membership = {};     ///< cluster_id, epoch and, where it is set, parent_pid come from above
};

/// Runs a head until its end. 0: ended in order; 1: could not start.
int head_main(const ServerOptions& options);

}  // namespace troupe::head
