// What generators made, sample by sample as bytes: to be compared however a range was cut.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "apps/datagen/generators/generator.h"

namespace datagen::test {

/// All values of rows [begin, end), column by column, with what is null.
inline std::string bytes_of_rows(const Table& table, std::size_t begin, std::size_t end) {
  std::string out;
  for (std::size_t index = 0; index < table.schema().fields.size(); ++index) {
    const Column& column = table.column(index);
    for (std::size_t row = begin; row < end; ++row) {
      out += column.is_null(row) ? 'n' : 'v';
      if (size_of(column.field().type) == 0) {
        out += std::to_string(column.text(row).size()) + ":";
        out += column.text(row);
        continue;
      }
      const std::size_t size = column.field().elements() * size_of(column.field().type);
      out.append(reinterpret_cast<const char*>(column.data().data()) + row * size, size);
    }
  }
  return out;
}

/// The samples of a range, in order. Throws what Table::check and the generator say.
inline std::vector<std::string> samples_of(Generator& generator, SampleRange range) {
  std::vector<std::string> out;
  generator.generate(range, [&](const Table& table) {
    table.check().value();
    std::size_t begin = 0;
    for (const std::uint64_t end : table.sample_ends()) {
      out.push_back(bytes_of_rows(table, begin, end));
      begin = end;
    }
  });
  return out;
}

/// GEN-2's other half: where tables end, and what they hold.
inline std::vector<std::size_t> table_rows_of(Generator& generator, SampleRange range) {
  std::vector<std::size_t> out;
  generator.generate(range, [&](const Table& table) { out.push_back(table.rows()); });
  return out;
}

/// Settings as a user types them: {"paths", "100"}.
using Typed = std::vector<std::pair<std::string, std::string>>;

inline std::unique_ptr<GeneratorOptions> options_of(const GeneratorKind& kind, const Typed& typed) {
  std::unique_ptr<GeneratorOptions> options = kind.options();
  const std::vector<apps::Setting> settings = options->settings();
  for (const auto& [name, text] : typed) {
    bool found = false;
    for (const apps::Setting& setting : settings)
      if (setting.name == name) apps::assign_text(setting, text).value(), found = true;
    if (!found) troupe::InvalidArgumentError("no setting " + name).raise();
  }
  return options;
}

inline std::unique_ptr<Generator> make(const GeneratorKind& kind, const Typed& typed,
                                       const GeneratorContext& context) {
  return std::move(options_of(kind, typed)->make(context)).value();
}

}  // namespace datagen::test
