// status, list: what a cluster holds. The command asks the head as a tool: it is no job and starts nothing.
#include <algorithm>
#include <cstdio>
#include <functional>

#include "apps/cli/cluster.h"
#include "apps/cli/parse.h"
#include "apps/cli/rows.h"
#include "apps/cli/table.h"
#include "apps/cli/verbs.h"
#include "core/node/session/last_rows.h"
#include "core/wire/rows.h"

namespace troupe::cli {
namespace {

using wire::StateKind;
using wire::StateQuery;
using wire::StateReply;

void say_what_is_missing(const StateQuery& query, const StateReply& reply) {
  for (const std::string& line : wire::what_is_missing(query, reply))
    std::fprintf(stderr, "troupe: %s\n", line.c_str());
}

/// What the head says; what is missing in it is said on standard error. Throws the head's error.
StateReply ask(node::HeadClient& head, const StateQuery& query) {
  StateReply reply = head.ask<StateReply>(wire::Method::kListState, query).value();
  say_what_is_missing(query, reply);
  return reply;
}

/// How many rows there are in that state.
std::int64_t count(node::HeadClient& head, StateKind kind, const char* state) {
  return std::int64_t(ask(head, {.kind = kind, .filter = {{"state", state}}, .limit = 0}).total);
}

int in_cluster(const ClusterFlags& flags, const std::function<void(node::HeadClient&)>& body) {
  Result<std::unique_ptr<node::HeadClient>> head = ask_cluster(flags);
  if (!head) return complain(head.error(), kNoCluster);
  try {
    body(**head);
    return kDone;
  } catch (const GetTimeoutError& error) { return complain(error, kNoCluster); } catch (const Error& error) {
    return complain(error, error.code() == ErrorCode::kInvalidArgument ? kUsage : kFailed);
  }
}

/// What a session that has ended knew in the end.
int in_session(const std::string& name, const std::string& root, const StateQuery& query,
               const std::function<void(const StateReply&)>& print) {
  for (const auto& [field, value] : query.filter)
    if (std::ranges::find(kind_of(query.kind).columns, field, &Column::name) == kind_of(query.kind).columns.end())
      return complain(InvalidArgumentError("rows of this kind have no field " + field), kUsage);
  const Result<SessionRow> session = choose_session(sessions(root), name, {});
  if (!session) return complain(session.error(), kUsage);
  Result<StateReply> reply = node::read_last_rows(session->dir, query.kind);
  if (!reply) return complain(reply.error(), kFailed);
  wire::select_rows(query, *reply);
  say_what_is_missing(query, *reply);
  print(*reply);
  return kDone;
}

// -------------------------------------------------------------------------------------------------------------- status

struct Status {
  Table nodes;
  std::map<std::string, double> total, free;
  std::int64_t alive = 0, actors = 0, tasks = 0, jobs = 0;
  std::int64_t capacity = 0, used = 0, objects = 0;  ///< of all stores
};

Status gather_status(node::HeadClient& head) {
  Status s;
  const StateReply nodes = ask(head, {.kind = StateKind::kNodes});
  s.nodes = to_table(kind_of(StateKind::kNodes), nodes.rows);
  for (const wire::StateRow& node : nodes.rows) {
    if (field_text(node, "state") != "ALIVE") continue;
    ++s.alive;
    for (const auto& [name, amount] : amounts_of(field_text(node, "resources"))) s.total[name] += amount;
    for (const auto& [name, amount] : amounts_of(field_text(node, "available"))) s.free[name] += amount;
  }
  for (const auto& store : to_table(kind_of(StateKind::kStores), ask(head, {.kind = StateKind::kStores}).rows).rows) {
    s.capacity += std::get<std::int64_t>(store[1]);
    s.used += std::get<std::int64_t>(store[2]);
    s.objects += std::get<std::int64_t>(store[4]);
  }
  s.actors = count(head, StateKind::kActors, "ALIVE");
  s.tasks = count(head, StateKind::kTasks, "RUNNING");
  s.jobs = count(head, StateKind::kJobs, "RUNNING");
  return s;
}

std::string resources_text(const Status& s) {
  std::string text;
  for (const auto& [name, amount] : s.total) {
    const double used = amount - (s.free.contains(name) ? s.free.at(name) : 0);
    char item[128];
    if (name == "memory")
      std::snprintf(item, sizeof(item), "%s of %s memory used", size_text(std::uint64_t(used)).c_str(),
                    size_text(std::uint64_t(amount)).c_str());
    else std::snprintf(item, sizeof(item), "%g of %g %s used", used, amount, name.c_str());
    text += (text.empty() ? "" : ", ") + std::string(item);
  }
  return text;
}

void print_json(const Status& s) {
  std::printf("%s\n", to_json({{"nodes_alive", s.alive},
                               {"nodes", std::int64_t(s.nodes.rows.size())},
                               {"resources", s.total},
                               {"available", s.free},
                               {"actors_alive", s.actors},
                               {"tasks_running", s.tasks},
                               {"jobs_running", s.jobs},
                               {"store_capacity", s.capacity},
                               {"store_used", s.used},
                               {"store_objects", s.objects}})
                          .c_str());
}

void print_text(const Status& s) {
  std::printf("%s\n", to_text(s.nodes).c_str());
  std::printf("resources  %s\n", resources_text(s).c_str());
  std::printf("stores     %s of %s used, %lld objects\n", size_text(std::uint64_t(s.used)).c_str(),
              size_text(std::uint64_t(s.capacity)).c_str(), static_cast<long long>(s.objects));
  std::printf("actors     %lld alive\ntasks      %lld running\njobs       %lld running\n",
              static_cast<long long>(s.actors), static_cast<long long>(s.tasks), static_cast<long long>(s.jobs));
}

void print_rows(const Kind& kind, const StateReply& reply, bool json, bool wide) {
  const Table table = to_table(kind, reply.rows);
  std::fputs((json ? to_json(table) : to_text(table, wide ? 0 : kIdWidth)).c_str(), stdout);
}

}  // namespace

void add_status(CLI::App& app, Context& context) {
  struct Flags {
    ClusterFlags cluster;
    bool json = false, metrics = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("status", "Nodes, resources and what runs");
  add_cluster_flags(*verb, flags->cluster);
  verb->add_flag("--metrics", flags->metrics, "What programs count and measure (troupe::metrics) instead");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->callback([flags, &context] {
    context.code = in_cluster(flags->cluster, [&](node::HeadClient& head) {
      const Kind& metrics = kind_of(StateKind::kMetrics);
      if (flags->metrics) print_rows(metrics, ask(head, {.kind = StateKind::kMetrics}), flags->json, true);
      else if (flags->json) print_json(gather_status(head));
      else print_text(gather_status(head));
    });
  });
}

void add_list(CLI::App& app, Context& context) {
  struct Flags {
    std::string kind;
    ClusterFlags cluster;
    std::vector<std::string> filters;
    int limit = kNoLimit;
    std::string session;
    bool json = false, wide = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand("list", "Rows of one kind");
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.push_back(kind.name);
  verb->add_option("kind", flags->kind, "What to list")->required()->check(CLI::IsMember(names));
  add_cluster_flags(*verb, flags->cluster);
  verb->add_option("--filter", flags->filters, "Only rows whose field has this value")->type_name("FIELD=VALUE");
  verb->add_option("--limit", flags->limit,
                   "At most so many rows (default: all, but 10,000 tasks and objects of one process)")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->add_option("--session", flags->session,
                   "What the head of a session that has ended knew: nodes, jobs, actors or metrics ('troupe logs "
                   "--list' has the names; their start is enough)")
      ->type_name("NAME");
  verb->add_flag("--wide", flags->wide, "Ids in full, not only the digits at their ends that tell them apart");
  verb->callback([flags, &context] {
    StateQuery query{.limit = flags->limit};
    for (const std::string& filter : flags->filters) {
      Result<std::map<std::string, std::string>> pair = parse_pairs(filter);
      if (!pair) {
        context.code = complain(pair.error(), kUsage);
        return;
      }
      query.filter.insert(pair->begin(), pair->end());
    }
    const Kind& kind =
        *std::find_if(kinds().begin(), kinds().end(), [&](const Kind& one) { return one.name == flags->kind; });
    query.kind = kind.kind;
    const auto print = [&](const StateReply& reply) {
      print_rows(kind, reply, flags->json, flags->wide);
      if (flags->limit >= 0 && reply.total > reply.rows.size())
        std::fprintf(stderr, "troupe: %zu of %llu rows: --limit\n", reply.rows.size(),
                     static_cast<unsigned long long>(reply.total));
    };
    if (flags->session.empty())
      context.code = in_cluster(flags->cluster, [&](node::HeadClient& head) { print(ask(head, query)); });
    else context.code = in_session(flags->session, flags->cluster.session_root, query, print);
  });
}

}  // namespace troupe::cli
