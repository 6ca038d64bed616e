// Attached types ride beside the bytes: their values pass through the archives' attachments, not through the ordinary
// path.
#include <gtest/gtest.h>

#include <troupe/serialize.h>

namespace troupe {
namespace {

/// Stands for an array: what is sent is a place in a table.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::string content) : content_(std::move(content)) {}
  const std::string& content() const { return content_; }

 private:
  std::string content_;
};
using Table = std::vector<Buffer>;

detail::Attachments* as_attachments(Table& table) { return reinterpret_cast<detail::Attachments*>(&table); }
Table* table_of(detail::Attachments* attachments) { return reinterpret_cast<Table*>(attachments); }

struct Batch {
  Buffer obs;
  std::string tag;
  std::vector<Buffer> more;
  std::optional<Buffer> maybe;
};

}  // namespace

namespace detail {
template <> struct Attached<Buffer> {
  static constexpr std::size_t kMinSize = 4;
  static void size(Sizer& sizer, const Buffer&) { sizer.add(4); }
  static void write(Writer& writer, const Buffer& buffer) {
    Table& table = *table_of(writer.attachments());
    writer(static_cast<std::uint32_t>(table.size()));
    table.push_back(buffer);
  }
  static void read(Reader& reader, Buffer& buffer) {
    std::uint32_t place = 0;
    reader(place);
    Table* table = table_of(reader.attachments());
    if (!table || place >= table->size()) return reader.fail("names an array that did not come with it");
    buffer = (*table)[place];
  }
};
}  // namespace detail

namespace {

static_assert(detail::kIsAttached<Buffer> && !detail::kIsAttached<Batch> && !detail::kIsAttached<int>);
static_assert(Serializable<Buffer> && Serializable<Batch> && Serializable<std::vector<Buffer>>);

TEST(Attached, RidesBesideTheBytesHoweverDeep) {
  const Batch batch{Buffer("observations"), "made", {Buffer("a"), Buffer("b")}, Buffer("c")};
  Table sent;
  const auto bytes = detail::encode(batch, as_attachments(sent));
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(bytes.size(), 4u + (4 + 4) + (4 + 2 * 4) + (1 + 4));
  const Result<Batch> back = detail::decode<Batch>(bytes, as_attachments(sent));
  ASSERT_TRUE(back.ok()) << back.error().what();
  EXPECT_EQ(back->obs.content(), "observations");
  EXPECT_EQ(back->tag, "made");
  EXPECT_EQ(back->more[1].content(), "b");
  EXPECT_EQ(back->maybe->content(), "c");
}

TEST(Attached, MayRefuseWhatDidNotCome) {
  Table sent, fewer;
  const auto bytes = detail::encode(Batch{}, as_attachments(sent));
  const Result<Batch> back = detail::decode<Batch>(bytes, as_attachments(fewer));
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().message().find("did not come"), std::string::npos);
  EXPECT_FALSE(detail::decode<Batch>(bytes).ok()) << "no attachments at all";
}

}  // namespace
}  // namespace troupe
