#include "apps/cli/rows.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

namespace troupe::cli {
namespace {

template <class N>
N number_of(const std::string& text) {
  N value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

boost::json::object object_of(const std::string& json) {
  boost::system::error_code bad;
  const boost::json::value value = boost::json::parse(json, bad);
  return !bad && value.is_object() ? value.as_object() : boost::json::object();
}

std::map<std::string, std::string> texts_of(const std::string& json) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, text] : object_of(json))
    if (text.is_string()) texts[std::string(name)] = std::string(text.as_string());
  return texts;
}

Field to_field(FieldType type, const std::string& text) {
  switch (type) {
    case FieldType::kText: return text;
    case FieldType::kWhole: return number_of<std::int64_t>(text);
    case FieldType::kTruth: return text == "true";
    case FieldType::kAmounts: return amounts_of(text);
    case FieldType::kTexts: return texts_of(text);
    case FieldType::kNumber: return text.empty() ? Field(text) : Field(number_of<double>(text));
  }
  return text;
}

}  // namespace

const std::vector<Kind>& kinds() {
  using enum FieldType;
  using wire::StateKind;
  static const std::vector<Kind> all{
      {"nodes",
       StateKind::kNodes,
       {{"node_id"},
        {"address"},
        {"state"},
        {"is_head", kTruth},
        {"resources", kAmounts},
        {"available", kAmounts},
        {"labels", kTexts},
        {"pid", kWhole}}},
      {"workers", StateKind::kWorkers, {{"worker_id"}, {"node_id"}, {"state"}, {"pid", kWhole}}},
      {"actors",
       StateKind::kActors,
       {{"actor_id"},
        {"name"},
        {"name_space"},
        {"class_name"},
        {"state"},
        {"node_id"},
        {"pid", kWhole},
        {"restarts", kWhole}}},
      {"tasks",
       StateKind::kTasks,
       {{"task_id"}, {"name"}, {"state"}, {"node_id"}, {"actor_id"}, {"error"}, {"pid", kWhole}, {"attempt", kWhole}}},
      {"objects", StateKind::kObjects, {{"object_id"}, {"state"}, {"node_id"}, {"size", kWhole}, {"refs", kWhole}}},
      {"placement-groups", StateKind::kPlacementGroups, {{"id"}, {"name"}, {"state"}, {"strategy"}}},
      {"jobs", StateKind::kJobs, {{"job_id"}, {"name_space"}, {"state"}, {"driver_pid", kWhole}}},
      {"stores",
       StateKind::kStores,
       {{"node_id"}, {"capacity", kWhole}, {"used", kWhole}, {"spilled", kWhole}, {"objects", kWhole}}},
      {"metrics",
       StateKind::kMetrics,
       {{"name"}, {"kind"}, {"value", kNumber}, {"count", kNumber}, {"buckets"}, {"processes", kWhole}}}};
  return all;
}

const Kind& kind_of(wire::StateKind kind) {
  return *std::find_if(kinds().begin(), kinds().end(), [&](const Kind& one) { return one.kind == kind; });
}

Table to_table(const Kind& kind, const std::vector<wire::StateRow>& rows) {
  Table table;
  for (const Column& column : kind.columns) table.columns.push_back(column.name);
  for (const wire::StateRow& row : rows) {
    std::vector<Field>& fields = table.rows.emplace_back();
    for (const Column& column : kind.columns) fields.push_back(to_field(column.type, field_text(row, column.name)));
  }
  return table;
}

std::string field_text(const wire::StateRow& row, const std::string& field) {
  const auto at = row.find(field);
  return at == row.end() ? std::string() : at->second;
}

std::map<std::string, double> amounts_of(const std::string& json) {
  std::map<std::string, double> amounts;
  for (const auto& [name, amount] : object_of(json))
    if (amount.is_number()) amounts[std::string(name)] = amount.to_number<double>();
  return amounts;
}

}  // namespace troupe::cli
