#include "apps/datagen/formats/tar/webdataset.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <boost/algorithm/string/case_conv.hpp>
#include <fmt/format.h>

#include "apps/datagen/formats/arrays/npy.h"
#include "apps/datagen/formats/images/png.h"
#include "apps/datagen/formats/shard_path.h"
#include "apps/datagen/formats/tar/tar.h"
#include "apps/datagen/formats/text/json_text.h"

namespace datagen {
namespace {

constexpr std::size_t kNumbers = static_cast<std::size_t>(-1);
constexpr std::size_t kKeyMax = 40;  // digits and hyphen of a key, with room

/// A file of a sample.
struct Member {
  std::string suffix;     // ".npy", ".depth.npy"
  std::string extension;  // "npy"
  std::size_t column = 0;  // kNumbers: the object of plain numbers
};

std::string extension_of(const Field& field) {
  if (field.content == Content::kImage) return "png";
  if (field.type == Type::kBytes) return "bin";
  if (field.type == Type::kString) return field.content == Content::kJson ? "json" : "txt";
  if (!field.shape.empty()) return "npy";
  const bool whole = field.type != Type::kFloat32 && field.type != Type::kFloat64;
  const bool is_class = field.content == Content::kClass && whole;
  return is_class ? "cls" : "";
}

std::vector<Member> members_of(const Schema& schema) {
  std::vector<Member> members;
  bool numbers = false;
  for (std::size_t i = 0; i < schema.fields.size(); ++i) {
    const std::string extension = extension_of(schema.fields[i]);
    if (extension.empty()) numbers = true;
    else members.push_back({.suffix = schema.fields[i].name, .extension = extension, .column = i});
  }
  if (numbers) members.push_back({.suffix = "numbers", .extension = "json", .column = kNumbers});
  std::map<std::string, int> of_kind;
  for (const Member& member : members) ++of_kind[member.extension];
  for (Member& member : members)
    member.suffix = of_kind[member.extension] == 1 ? fmt::format(".{}", member.extension)
                                                   : fmt::format(".{}.{}", member.suffix, member.extension);
  std::ranges::sort(members, {}, &Member::suffix);  // WDS-1
  return members;
}

/// The columns that are plain numbers, with what stands before each in JSON.
std::vector<std::pair<std::size_t, std::string>> plain_numbers(const Schema& schema) {
  std::vector<std::pair<std::size_t, std::string>> out;
  for (std::size_t i = 0; i < schema.fields.size(); ++i) {
    if (!extension_of(schema.fields[i]).empty()) continue;
    std::string key = out.empty() ? "{" : ",";
    append_json_text(key, schema.fields[i].name);
    out.emplace_back(i, key + ':');
  }
  return out;
}

class WebDatasetWriter final : public ShardWriter {
 public:
  WebDatasetWriter(const Schema& schema, std::uint64_t first, ByteSink& sink)
      : members_(members_of(schema)), numbers_(plain_numbers(schema)), tar_(sink), sample_(first) {
    for (const Member& member : members_)
      headers_.push_back(member.extension == "npy" ? npy_header(schema.fields[member.column].type,
                                                                schema.fields[member.column].shape)
                                                   : std::string());
  }

  void append(const Table& table) override {
    std::size_t row = 0;
    for (const std::uint64_t end : table.sample_ends()) {
      const std::size_t begin = row;
      for (; row < end; ++row)
        add_row(table, row, end - begin == 1 ? fmt::format("{:09}", sample_)
                                             : fmt::format("{:09}-{:06}", sample_, row - begin));
      ++sample_;
    }
  }

  void finish() override { tar_.finish(); }

 private:
  void add_row(const Table& table, std::size_t row, const std::string& key) {
    for (std::size_t i = 0; i < members_.size(); ++i) add_member(table, row, key + members_[i].suffix, i);
  }

  void add_member(const Table& table, std::size_t row, const std::string& name, std::size_t i) {
    const Member& member = members_[i];
    if (member.column == kNumbers) {
      text_.clear();
      for (const auto& [column, before] : numbers_) {
        text_ += before;
        append_json(text_, table.column(column), row);
      }
      return tar_.add(name, text_ += '}');
    }
    const Column& column = table.column(member.column);
    if (column.is_null(row)) return;
    if (member.extension == "bin") return tar_.add(name, column.text(row));
    if (member.extension == "txt") {
      if (!is_utf8(column.text(row)))
        troupe::InvalidArgumentError(fmt::format("'{}' is no UTF-8; a column of bytes takes such text", name)).raise();
      return tar_.add(name, column.text(row));
    }
    if (member.extension == "json" || member.extension == "cls") {
      text_.clear();
      append_json(text_, column, row);
      return tar_.add(name, text_);
    }
    const std::size_t bytes = column.field().elements() * size_of(column.field().type);
    const auto value = column.data().subspan(row * bytes, bytes);
    if (member.extension == "npy") return tar_.add(name, headers_[i], value);
    const auto& shape = column.field().shape;
    tar_.add(name, encode_png({.width = shape[1],
                               .height = shape[0],
                               .channels = shape.size() == 3 ? shape[2] : 1,
                               .pixels = {reinterpret_cast<const std::uint8_t*>(value.data()), value.size()}})
                       .value());
  }

  std::vector<Member> members_;
  std::vector<std::pair<std::size_t, std::string>> numbers_;
  std::vector<std::string> headers_;  // of each member that is an array
  TarWriter tar_;
  std::uint64_t sample_;
  std::string text_;
};

class WebDatasetOptions final : public FormatOptions {
 public:
  std::vector<apps::Setting> settings() override { return {}; }

  troupe::Result<std::map<std::string, std::string>> libraries() override {
    std::map<std::string, std::string> out;
    if (const auto version = png_library_version(); version.ok()) out["libpng"] = *version;
    return out;  // without it there are data sets without pictures
  }

  std::string shard_name(const ShardInfo& shard) const override { return shard_path(shard, "shard", "tar"); }

  troupe::Status check(const Schema& schema) const override {
    if (troupe::Status status = check_schema(schema); !status.ok()) return status;
    const auto is_picture = [](const Field& field) { return field.content == Content::kImage; };
    const bool pictures = std::ranges::any_of(schema.fields, is_picture);
    if (const auto version = png_library_version(); pictures && !version.ok()) return version.error_ptr();
    std::set<std::string> suffixes;
    for (const Member& member : members_of(schema)) {
      if (member.suffix.find('/') != std::string::npos || member.suffix.size() + kKeyMax > 100)
        return troupe::InvalidArgumentError(
            fmt::format("a file of a WebDataset cannot be called '{}': it holds '/', or is too long", member.suffix));
      if (!suffixes.insert(boost::algorithm::to_lower_copy(member.suffix)).second)
        return troupe::InvalidArgumentError(
            fmt::format("two files of a WebDataset's sample would be called '{}'; rename a column", member.suffix));
    }
    return {};
  }

  troupe::Result<std::unique_ptr<ShardWriter>> open(std::shared_ptr<const Schema> schema, const ShardInfo& shard,
                                                    ByteSink& sink) override {
    return std::unique_ptr<ShardWriter>(std::make_unique<WebDatasetWriter>(*schema, shard.range.begin, sink));
  }
};

}  // namespace

FormatKind webdataset_format() {
  return {.name = "webdataset",
          .help = "tar archives of files, some of each sample",
          .options = [] { return std::make_unique<WebDatasetOptions>(); }};
}

}  // namespace datagen
