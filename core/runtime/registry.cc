#include <troupe/detail/registry.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

namespace troupe::detail {

namespace {

struct Registry {
  std::atomic<FunctionNode*> head{nullptr};
  std::once_flag frozen;
  std::vector<const FunctionNode*> nodes;
  std::string digest;
};
// Filled before main by nodes of any translation unit: constructed at first use.
Registry& registry() {
  static Registry instance;
  return instance;
}

struct Module {
  std::uintptr_t base = 0, begin = 0, end = 0;
  std::string build_id;
};

std::string build_id_of(const dl_phdr_info& info) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(info.dlpi_addr + segment.p_vaddr);
    const char* end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof(*note);
      const char* data = name + ((note->n_namesz + 3) & ~3u);
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        return std::string(data, note->n_descsz);
      at = data + ((note->n_descsz + 3) & ~3u);
    }
  }
  return info.dlpi_name ? info.dlpi_name : "";
}

int add_module(dl_phdr_info* info, std::size_t, void* out) {
  Module module{info->dlpi_addr, ~std::uintptr_t(0), 0, build_id_of(*info)};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    module.begin = std::min<std::uintptr_t>(module.begin, info->dlpi_addr + segment.p_vaddr);
    module.end = std::max<std::uintptr_t>(module.end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  static_cast<std::vector<Module>*>(out)->push_back(std::move(module));
  return 0;
}

/// FNV-1a, for a digest that is compared, not defended.
void mix(std::uint64_t& hash, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001B3u;
}

void sort_and_number(Registry& all) {
  std::vector<Module> modules;
  dl_iterate_phdr(&add_module, &modules);
  struct Keyed { const std::string* module; std::uintptr_t offset; FunctionNode* node; };
  std::vector<Keyed> keyed;
  static const std::string unknown;
  for (FunctionNode* node = all.head.load(); node; node = node->next) {
    const auto address = reinterpret_cast<std::uintptr_t>(node);
    auto found = std::find_if(modules.begin(), modules.end(),
                              [&](const Module& m) { return address >= m.begin && address < m.end; });
    keyed.push_back({found == modules.end() ? &unknown : &found->build_id,
                     found == modules.end() ? address : address - found->base, node});
  }
  std::sort(keyed.begin(), keyed.end(), [](const Keyed& a, const Keyed& b) {
    return *a.module != *b.module ? *a.module < *b.module : a.offset < b.offset;
  });
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (Keyed& one : keyed) {
    one.node->index = std::uint32_t(all.nodes.size());
    all.nodes.push_back(one.node);
    mix(hash, one.module->data(), one.module->size());
    mix(hash, &one.offset, sizeof one.offset);
  }
  char text[32];
  std::snprintf(text, sizeof text, "%016llx-%zu", static_cast<unsigned long long>(hash), all.nodes.size());
  all.digest = text;
}

/// The text after `key` up to the next ';' or ']' of its own depth.
std::string field_of(std::string_view pretty, std::string_view key) {
  const std::size_t at = pretty.find(key);
  if (at == std::string_view::npos) return {};
  std::size_t from = at + key.size(), to = from;
  for (int depth = 0; to < pretty.size(); ++to) {
    const char c = pretty[to];
    if (c == '(' || c == '<' || c == '{' || c == '[') ++depth;
    else if (c == ')' || c == '>' || c == '}' || (c == ']' && depth > 0)) --depth;
    else if ((c == ';' || c == ']') && depth <= 0) break;
  }
  return std::string(pretty.substr(from, to - from));
}

}  // namespace

FunctionNode::FunctionNode(FunctionKind kind, Invoke invoke, const char* pretty,
                           const ClassOperations* operations) noexcept
    : kind(kind), invoke(invoke), pretty(pretty), operations(operations) {
  auto& head = registry().head;
  next = head.load();
  while (!head.compare_exchange_weak(next, this)) {
  }
}

void freeze_registry() {
  Registry& all = registry();
  std::call_once(all.frozen, [&] { sort_and_number(all); });
}

const std::string& registry_digest() {
  freeze_registry();
  return registry().digest;
}

const FunctionNode* function_at(std::uint32_t index) {
  const auto& nodes = registry().nodes;
  return index < nodes.size() ? nodes[index] : nullptr;
}

std::string class_name(const FunctionNode& node) { return field_of(node.pretty, "A = "); }

/// Names come out of __PRETTY_FUNCTION__ of the entry: "... [with auto F = add; ...]", "[with A = Counter; auto M =
/// &Counter::add ...]".
std::string function_name(const FunctionNode& node) {
  auto field = [&](std::string_view key) { return field_of(node.pretty, key); };
  std::string name;
  switch (node.kind) {
    case FunctionKind::kFunction: name = field("F = "); break;
    case FunctionKind::kMethod: name = field("M = "); break;
    case FunctionKind::kClosure: name = field("L = "); break;
    case FunctionKind::kConstructor: name = class_name(node) + " (constructor)"; break;
    case FunctionKind::kConverter: name = "conversion to " + field("To = "); break;
  }
  if (!name.empty() && name.front() == '&') name.erase(0, 1);
  return name.empty() ? std::string(node.pretty) : name;
}

}  // namespace troupe::detail
