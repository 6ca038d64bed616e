// status, list: what a running cluster holds. The command joins it as a driver for a moment.
#include <cstdio>
#include <functional>

#include "apps/cli/cluster.h"
#include "apps/cli/parse.h"
#include "apps/cli/table.h"
#include "apps/cli/verbs.h"
#include <troupe/run.h>
#include <troupe/state.h>

namespace troupe::cli {
namespace {

/// Runs `body` as a driver of the cluster at `address`; kNoCluster when there is none.
int in_cluster(const Context& context, const std::string& address, const std::function<int()>& body) {
  Result<std::string> found = find_cluster(address, Embedded::kToo);
  if (!found) return complain(found.error(), kNoCluster);
  std::string program = context.program;
  char* argv[] = {program.data(), nullptr};
  RunOptions options;
  options.address = *found;
  options.log_level = "error";
  return run(1, argv, options, [&]() -> int {
    try {
      return body();
    } catch (const GetTimeoutError& error) {
      return complain(error, kNoCluster);
    } catch (const Error& error) {
      return complain(error, error.code() == ErrorCode::kInvalidArgument ? kUsage : kFailed);
    }
  });
}

Field whole(std::int64_t value) { return value; }

Table nodes_table(const ListOptions& options) {
  Table t{{"node_id", "address", "state", "is_head", "resources", "available", "labels", "pid"}, {}};
  for (auto& r : nodes(options)) t.rows.push_back({r.node_id, r.address, r.state, r.is_head, r.resources, r.available, r.labels, whole(r.pid)});
  return t;
}
Table actors_table(const ListOptions& options) {
  Table t{{"actor_id", "name", "name_space", "class_name", "state", "node_id", "pid", "restarts"}, {}};
  for (auto& r : list_actors(options)) t.rows.push_back({r.actor_id, r.name, r.name_space, r.class_name, r.state, r.node_id, whole(r.pid), whole(r.restarts)});
  return t;
}
Table tasks_table(const ListOptions& options) {
  Table t{{"task_id", "name", "state", "node_id", "actor_id", "error", "pid", "attempt"}, {}};
  for (auto& r : list_tasks(options)) t.rows.push_back({r.task_id, r.name, r.state, r.node_id, r.actor_id, r.error, whole(r.pid), whole(r.attempt)});
  return t;
}
Table objects_table(const ListOptions& options) {
  Table t{{"object_id", "state", "node_id", "size", "refs"}, {}};
  for (auto& r : list_objects(options)) t.rows.push_back({r.object_id, r.state, r.node_id, whole(std::int64_t(r.size)), whole(r.refs)});
  return t;
}
Table workers_table(const ListOptions& options) {
  Table t{{"worker_id", "node_id", "state", "pid"}, {}};
  for (auto& r : list_workers(options)) t.rows.push_back({r.worker_id, r.node_id, r.state, whole(r.pid)});
  return t;
}
Table jobs_table(const ListOptions& options) {
  Table t{{"job_id", "name_space", "state", "driver_pid"}, {}};
  for (auto& r : list_jobs(options)) t.rows.push_back({r.job_id, r.name_space, r.state, whole(r.driver_pid)});
  return t;
}
Table groups_table(const ListOptions& options) {
  Table t{{"id", "name", "state", "strategy"}, {}};
  for (auto& r : list_placement_groups(options)) t.rows.push_back({r.id, r.name, r.state, r.strategy});
  return t;
}

const std::map<std::string, Table (*)(const ListOptions&)> kKinds = {
    {"nodes", &nodes_table}, {"workers", &workers_table}, {"actors", &actors_table}, {"tasks", &tasks_table},
    {"objects", &objects_table}, {"placement-groups", &groups_table}, {"jobs", &jobs_table}};

std::int64_t count(const Table& table, const std::string& column, const std::string& state) {
  const auto at = std::size_t(std::find(table.columns.begin(), table.columns.end(), column) - table.columns.begin());
  return std::count_if(table.rows.begin(), table.rows.end(), [&](const auto& row) { return std::get<std::string>(row[at]) == state; });
}

int show_status(bool json) {
  const Table all_nodes = nodes_table({}), actors = actors_table({}), tasks = tasks_table({}), jobs = jobs_table({});
  const auto total = cluster_resources(), free = available_resources();
  const StoreUsage store = object_store_usage();
  if (json) {
    std::printf("%s\n", to_json({{"nodes_alive", count(all_nodes, "state", "ALIVE")}, {"nodes", whole(std::int64_t(all_nodes.rows.size()))},
                                 {"resources", total}, {"available", free}, {"actors_alive", count(actors, "state", "ALIVE")},
                                 {"tasks_running", count(tasks, "state", "RUNNING")}, {"jobs_running", count(jobs, "state", "RUNNING")},
                                 {"store_capacity", whole(std::int64_t(store.capacity))}, {"store_used", whole(std::int64_t(store.used))},
                                 {"store_objects", whole(std::int64_t(store.objects))}}).c_str());
    return kDone;
  }
  std::printf("%s\n", to_text(all_nodes).c_str());
  std::printf("resources  %s\n", [&] {
    std::string text;
    for (const auto& [name, amount] : total) {
      const double used = amount - (free.contains(name) ? free.at(name) : 0);
      char item[128];
      if (name == "memory") std::snprintf(item, sizeof(item), "%s%s of %s memory used", text.empty() ? "" : ", ", size_text(std::uint64_t(used)).c_str(), size_text(std::uint64_t(amount)).c_str());
      else std::snprintf(item, sizeof(item), "%s%g of %g %s used", text.empty() ? "" : ", ", used, amount, name.c_str());
      text += item;
    }
    return text;
  }().c_str());
  std::printf("store      %s of %s used on this node, %llu objects\n", size_text(store.used).c_str(), size_text(store.capacity).c_str(), static_cast<unsigned long long>(store.objects));
  std::printf("actors     %lld alive\ntasks      %lld running\njobs       %lld running (this command is one of them)\n", static_cast<long long>(count(actors, "state", "ALIVE")),
              static_cast<long long>(count(tasks, "state", "RUNNING")), static_cast<long long>(count(jobs, "state", "RUNNING")));
  return kDone;
}

}  // namespace

void add_status(CLI::App& app, Context& context) {
  struct Flags { std::string address; bool json = false; };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("status", "Nodes, resources and what runs");
  verb->add_option("--address", flags->address, "The cluster (default: TROUPE_ADDRESS, else the newest of yours here)")->type_name("HOST:PORT|FILE");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags, &context] { context.code = in_cluster(context, flags->address, [&] { return show_status(flags->json); }); });
}

void add_list(CLI::App& app, Context& context) {
  struct Flags { std::string kind, address; std::vector<std::string> filters; int limit = kNoLimit; bool json = false, wide = false; };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("list", "Rows of one kind");
  std::vector<std::string> kinds;
  for (const auto& [name, _] : kKinds) kinds.push_back(name);
  verb->add_option("kind", flags->kind, "What to list")->required()->check(CLI::IsMember(kinds));
  verb->add_option("--address", flags->address, "The cluster (default: TROUPE_ADDRESS, else the newest of yours here)")->type_name("HOST:PORT|FILE");
  verb->add_option("--filter", flags->filters, "Only rows whose field has this value")->type_name("FIELD=VALUE");
  verb->add_option("--limit", flags->limit, "At most so many rows")->check(CLI::NonNegativeNumber);
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->add_flag("--wide", flags->wide, "Ids in full");
  verb->callback([flags, &context] {
    ListOptions options{.limit = flags->limit};
    for (const std::string& filter : flags->filters) {
      Result<std::map<std::string, std::string>> pair = parse_pairs(filter);
      if (!pair) { context.code = complain(pair.error(), kUsage); return; }
      options.filter.insert(pair->begin(), pair->end());
    }
    context.code = in_cluster(context, flags->address, [&] {
      const Table table = kKinds.at(flags->kind)(options);
      std::fputs((flags->json ? to_json(table) : to_text(table, flags->wide ? 0 : 12)).c_str(), stdout);
      return kDone;
    });
  });
}

}  // namespace troupe::cli
