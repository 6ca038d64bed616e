// start, stop: nodes that outlive the command.
#include <cstdio>

#include "apps/cli/cluster.h"
#include "apps/cli/parse.h"
#include "apps/cli/table.h"
#include "apps/cli/verbs.h"
#include "core/node/roles/roles.h"

namespace troupe::cli {
namespace {

struct StartFlags {
  node::StartOptions options;
  std::string resources, labels, store;
  bool json = false;
};

template <class T, class Parsed>
bool take(const char* flag, const std::string& text, Parsed (*parse)(std::string_view), T& into) {
  if (text.empty()) return true;
  Parsed parsed = parse(text);
  if (!parsed) {
    std::fprintf(stderr, "troupe start: %s: %s\n", flag, parsed.error().message().c_str());
    return false;
  }
  into = *std::move(parsed);
  return true;
}

int start(StartFlags& flags) {
  node::StartOptions& o = flags.options;
  if (o.head == !o.address.empty()) {
    std::fprintf(stderr, "troupe start: give either --head, or --address of the cluster to join\n");
    return kUsage;
  }
  if (o.head && !o.token_file.empty()) {
    std::fprintf(stderr, "troupe start: --token-file belongs to --address: a head makes a token of its own\n");
    return kUsage;
  }
  if (!o.head && (o.port != 0 || !o.address_file.empty())) {
    std::fprintf(stderr, "troupe start: --port and --address-file belong to --head\n");
    return kUsage;
  }
  if (!take("--resources", flags.resources, &parse_amounts, o.node.resources) ||
      !take("--labels", flags.labels, &parse_pairs, o.node.labels) ||
      !take("--object-store-memory", flags.store, &parse_size, o.node.object_store_memory))
    return kUsage;
  if (o.block) {
    std::printf("starting; Ctrl-C ends this node\n");
    std::fflush(stdout);
  }
  Result<node::StartedNode> started = node::start_node(o);
  if (!started) {
    const ErrorCode code = started.error().code();
    return complain(started.error(), code == ErrorCode::kInvalidArgument ? kUsage
                                     : code == ErrorCode::kNotFound      ? kNoCluster
                                                                         : kFailed);
  }
  if (o.block) return kDone;
  if (flags.json) {
    std::printf("%s\n", to_json({{"address", started->address},
                                 {"node_id", started->node_id},
                                 {"session", started->session_dir},
                                 {"pid", std::int64_t(started->daemon_pid)}})
                            .c_str());
    return kDone;
  }
  std::printf("node %s runs, pid %d\n  cluster   %s\n  session   %s\n", started->node_id.c_str(), started->daemon_pid,
              started->address.c_str(), started->session_dir.c_str());
  if (o.head)
    std::printf(
        "programs join by      TROUPE_ADDRESS=%s ./program\nother nodes join by   troupe start --address %s\nend it by "
        "            troupe stop\n",
        started->address.c_str(), started->address.c_str());
  return kDone;
}

struct StopFlags {
  std::string root, address;
  double grace = 5;
  bool all = false, json = false;
};

/// The one cluster that is meant; empty: whatever there is. InvalidArgumentError when several run here and none is
/// named.
Result<std::string> cluster_to_stop(const StopFlags& flags) {
  if (flags.all) return std::string();
  const ClusterFlags named{.address = flags.address, .token_file = {}, .session_root = flags.root};
  if (names_cluster(named)) return find_address(named, Embedded::kNot);
  Result<std::vector<node::LocalCluster>> clusters = node::local_clusters(flags.root);
  if (!clusters) return clusters.error_ptr();
  std::erase_if(*clusters, [](const node::LocalCluster& one) { return one.embedded; });
  if (clusters->size() < 2) return clusters->empty() ? std::string() : clusters->front().address;
  std::string text = "several clusters of yours run here; name one by --address, or end them by --all:";
  for (const node::LocalCluster& one : *clusters)
    text += "\n  " + one.address + "  " + std::to_string(one.nodes) + (one.nodes == 1 ? " node" : " nodes") + " here";
  return make_error<InvalidArgumentError>(text);
}

int stop(const StopFlags& flags) {
  const Result<std::string> address = cluster_to_stop(flags);
  if (!address) return complain(address.error(), kUsage);
  const bool json = flags.json;
  Result<node::StopReport> report =
      node::stop_nodes({.session_root = flags.root,
                        .address = *address,
                        .grace = std::chrono::milliseconds(std::int64_t(flags.grace * 1000))});
  if (!report) return complain(report.error(), kFailed);
  if (json)
    std::printf("%s\n", to_json({{"daemons", std::int64_t(report->daemons)},
                                 {"sessions", std::int64_t(report->sessions.size())}})
                            .c_str());
  else if (report->daemons == 0) std::printf("nothing was running\n");
  else std::printf("%d node%s stopped\n", report->daemons, report->daemons == 1 ? "" : "s");
  return kDone;
}

}  // namespace

void add_start(CLI::App& app, Context& context) {
  auto flags = std::make_shared<StartFlags>();
  node::StartOptions& o = flags->options;
  CLI::App* verb = app.add_subcommand("start", "Start a node: the first one of a cluster, or one more");
  verb->add_flag("--head", o.head, "Start a cluster: a head and a node");
  verb->add_option("--address", o.address, "Join the cluster at HOST:PORT, or at the address in a file")
      ->type_name("HOST:PORT|FILE");
  verb->add_option("--token-file", o.token_file,
                   "Join: the cluster's token (default: TROUPE_TOKEN_FILE, else that of a node here)")
      ->type_name("FILE");
  verb->add_option("--port", o.port, "The head's control port; 0: any free one")->check(CLI::Range(0, 65535));
  verb->add_option("--address-file", o.address_file, "Write the cluster's address there when it is ready")
      ->type_name("FILE");
  verb->add_option("--cpus", o.node.cpus, "CPUs of this node (default: its cores)")->check(CLI::NonNegativeNumber);
  verb->add_option("--gpus", o.node.gpus, "GPUs of this node (default: those found)")->check(CLI::NonNegativeNumber);
  verb->add_option("--resources", flags->resources, "Custom resources")->type_name("NAME=AMOUNT,...");
  verb->add_option("--labels", flags->labels, "Labels of this node")->type_name("NAME=VALUE,...");
  verb->add_option("--object-store-memory", flags->store, "Size of the object store (default: 30 % of memory)")
      ->type_name("SIZE");
  verb->add_option("--bind", o.node.bind, "Address to listen on (default: loopback only)")->type_name("IP");
  verb->add_flag("--plaintext-network", o.node.plaintext_network,
                 "Listen off loopback although nothing is encrypted: a network that you trust");
  verb->add_option("--session-root", o.session_root, "Folder of the session folders")->type_name("DIR");
  verb->add_option("--log-level", o.node.log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  verb->add_flag("--block", o.block, "Stay in the foreground until a signal");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags, &context] { context.code = start(*flags); });
}

void add_stop(CLI::App& app, Context& context) {
  auto flags = std::make_shared<StopFlags>();
  CLI::App* verb = app.add_subcommand("stop", "End the nodes of a cluster on this machine, with all that runs there");
  CLI::Option* address = verb->add_option("--address", flags->address,
                                          "The cluster (default: TROUPE_ADDRESS, else the only one of yours here)");
  address->type_name("HOST:PORT|FILE");
  verb->add_flag("--all", flags->all, "Every node of yours on this machine, of whichever cluster")->excludes(address);
  verb->add_option("--session-root", flags->root, "Folder of the session folders")->type_name("DIR");
  verb->add_option("--grace", flags->grace, "Seconds until what still runs is killed")->check(CLI::NonNegativeNumber);
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags, &context] { context.code = stop(*flags); });
}

}  // namespace troupe::cli
