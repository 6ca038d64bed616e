// The kinds of rows that `troupe list` shows, and how the head's texts become fields of a table.
//
// Thread rule: pure functions.
#pragma once
#include <string>
#include <vector>

#include "apps/cli/table.h"
#include "core/wire/messages.h"

namespace troupe::cli {

enum class FieldType { kText, kWhole, kTruth, kAmounts, kTexts, kNumber };
struct Column {
  std::string name;
  FieldType type = FieldType::kText;
};
struct Kind {
  std::string name;  ///< as in `troupe list NAME`
  wire::StateKind kind;
  std::vector<Column> columns;
};

/// In the order of help.
const std::vector<Kind>& kinds();
const Kind& kind_of(wire::StateKind kind);

Table to_table(const Kind& kind, const std::vector<wire::StateRow>& rows);
/// The text of a field; "" where the row has none.
std::string field_text(const wire::StateRow& row, const std::string& field);
/// Of a JSON object of numbers, as rows hold resources; empty when it is none.
std::map<std::string, double> amounts_of(const std::string& json);

}  // namespace troupe::cli
