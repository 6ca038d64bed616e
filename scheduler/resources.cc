#include "scheduler/resources.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace troupe::sched {
namespace {

constexpr double kAmountMax = 9e14;  // times kUnit still fits into 63 bits: 900 TB of memory

Fixed& slot(std::vector<std::pair<std::string, Fixed>>& custom, const std::string& name) {
  auto at = std::lower_bound(custom.begin(), custom.end(), name,
                             [](const auto& entry, const std::string& key) { return entry.first < key; });
  if (at == custom.end() || at->first != name) at = custom.insert(at, {name, 0});
  return at->second;
}

void drop_zeros(std::vector<std::pair<std::string, Fixed>>& custom) {
  std::erase_if(custom, [](const auto& entry) { return entry.second == 0; });
}

std::string text_of(Fixed amount) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g", from_fixed(amount));
  return text;
}

}  // namespace

Fixed to_fixed(double amount) {
  return static_cast<Fixed>(std::llround(std::clamp(amount, -kAmountMax, kAmountMax) * kUnit));
}
double from_fixed(Fixed amount) { return static_cast<double>(amount) / kUnit; }

ResourceSet ResourceSet::from(const Resources& asked, double default_cpus) {
  ResourceSet set;
  set.cpu = to_fixed(asked.cpus == kUnset ? default_cpus : asked.cpus);
  set.gpu = to_fixed(asked.gpus);
  set.memory = to_fixed(static_cast<double>(asked.memory));
  for (const auto& [name, amount] : asked.custom) {
    if (Fixed fixed = to_fixed(amount); fixed != 0) set.custom.emplace_back(name, fixed);
  }
  return set;
}

ResourceSet ResourceSet::from_map(const std::map<std::string, double>& amounts) {
  ResourceSet set;
  for (const auto& [name, amount] : amounts) {
    Fixed fixed = to_fixed(amount);
    if (name == "CPU") set.cpu = fixed;
    else if (name == "GPU") set.gpu = fixed;
    else if (name == "memory") set.memory = fixed;
    else if (fixed != 0) set.custom.emplace_back(name, fixed);
  }
  return set;
}

std::map<std::string, double> ResourceSet::to_map() const {
  std::map<std::string, double> amounts;
  if (cpu != 0) amounts["CPU"] = from_fixed(cpu);
  if (gpu != 0) amounts["GPU"] = from_fixed(gpu);
  if (memory != 0) amounts["memory"] = from_fixed(memory);
  for (const auto& [name, amount] : custom) amounts[name] = from_fixed(amount);
  return amounts;
}

bool ResourceSet::fits(const ResourceSet& available) const {
  auto enough = [](Fixed asked, Fixed there) { return asked <= 0 || asked <= there; };
  if (!enough(cpu, available.cpu) || !enough(gpu, available.gpu) || !enough(memory, available.memory)) return false;
  return std::all_of(custom.begin(), custom.end(),
                     [&](const auto& entry) { return enough(entry.second, available.custom_amount(entry.first)); });
}

void ResourceSet::add(const ResourceSet& other) {
  cpu += other.cpu;
  gpu += other.gpu;
  memory += other.memory;
  for (const auto& [name, amount] : other.custom) slot(custom, name) += amount;
  drop_zeros(custom);
}

void ResourceSet::subtract(const ResourceSet& other) {
  cpu -= other.cpu;
  gpu -= other.gpu;
  memory -= other.memory;
  for (const auto& [name, amount] : other.custom) slot(custom, name) -= amount;
  drop_zeros(custom);
}

Fixed ResourceSet::custom_amount(const std::string& name) const {
  auto at = std::lower_bound(custom.begin(), custom.end(), name,
                             [](const auto& entry, const std::string& key) { return entry.first < key; });
  return at != custom.end() && at->first == name ? at->second : 0;
}

std::string ResourceSet::to_string() const {
  std::string text;
  auto append = [&](const std::string& name, Fixed amount) {
    if (amount == 0) return;
    text += (text.empty() ? "{" : ", ") + name + ": " + text_of(amount);
  };
  append("CPU", cpu);
  append("GPU", gpu);
  append("memory", memory);
  for (const auto& [name, amount] : custom) append(name, amount);
  return text.empty() ? "{}" : text + "}";
}

bool would_help(const ResourceSet& held, const ResourceSet& need, const ResourceSet& room) {
  const auto wanting = [](Fixed held, Fixed need, Fixed room) { return held > 0 && need > room; };
  if (wanting(held.cpu, need.cpu, room.cpu) || wanting(held.memory, need.memory, room.memory)) return true;
  if (held.gpu > 0 && need.gpu > 0) return true;
  return std::any_of(held.custom.begin(), held.custom.end(), [&](const auto& one) {
    return wanting(one.second, need.custom_amount(one.first), room.custom_amount(one.first));
  });
}

std::optional<std::string> resource_problem(const Resources& asked) {
  auto bad = [](double amount) { return !(amount >= 0) || amount > kAmountMax; };  // also not-a-number
  if (asked.cpus != kUnset && bad(asked.cpus)) return "cpus must be a number >= 0, not " + std::to_string(asked.cpus);
  if (bad(asked.gpus)) return "gpus must be a number >= 0, not " + std::to_string(asked.gpus);
  if (asked.gpus > 1 && to_fixed(asked.gpus) % kUnit != 0)
    return "gpus above 1 must be a whole number, not " + std::to_string(asked.gpus);
  if (static_cast<double>(asked.memory) > kAmountMax)
    return "memory is larger than any machine: " + std::to_string(asked.memory) + " bytes";
  for (const auto& [name, amount] : asked.custom) {
    if (name.empty()) return std::string("a custom resource needs a name");
    if (name == "CPU" || name == "GPU" || name == "memory")
      return "give " + name + " by its own field, not as a custom resource";
    if (bad(amount)) return "resource " + name + " must be a number >= 0, not " + std::to_string(amount);
  }
  return std::nullopt;
}

bool ResourceAccount::try_grant(const ResourceSet& asked) {
  if (!can_grant(asked)) return false;
  available_.subtract(asked);
  return true;
}

void ResourceAccount::give_back(const ResourceSet& granted) {
  available_.add(granted);
  cap();
}

void ResourceAccount::lend_cpu(Fixed cpus) {
  available_.cpu += cpus;
  cap();
}

void ResourceAccount::cap() {
  available_.cpu = std::min(available_.cpu, total_.cpu);
  available_.gpu = std::min(available_.gpu, total_.gpu);
  available_.memory = std::min(available_.memory, total_.memory);
  for (auto& [name, amount] : available_.custom) amount = std::min(amount, total_.custom_amount(name));
  drop_zeros(available_.custom);
}

std::optional<std::vector<int>> GpuSlots::take(Fixed amount) {
  std::vector<int> ids;
  if (amount <= 0) return ids;
  if (amount < kUnit) {
    int best = -1;
    for (int id = 0; id < static_cast<int>(free_.size()); ++id) {
      if (free_[id] >= amount && (best < 0 || free_[id] < free_[best])) best = id;
    }
    if (best < 0) return std::nullopt;
    free_[best] -= amount;
    return std::vector<int>{best};
  }
  auto wanted = static_cast<std::size_t>((amount + kUnit - 1) / kUnit);
  for (int id = 0; id < static_cast<int>(free_.size()) && ids.size() < wanted; ++id) {
    if (free_[id] == kUnit) ids.push_back(id);
  }
  if (ids.size() < wanted) return std::nullopt;
  for (int id : ids) free_[id] = 0;
  return ids;
}

Fixed GpuSlots::at_once() const {
  const auto whole = std::count(free_.begin(), free_.end(), kUnit);
  if (whole > 0) return whole * kUnit;
  return free_.empty() ? 0 : *std::max_element(free_.begin(), free_.end());
}

void GpuSlots::taken(const std::vector<int>& ids, Fixed amount) {
  for (int id : ids) free_.at(static_cast<std::size_t>(id)) -= amount < kUnit ? amount : kUnit;
}

void GpuSlots::give_back(const std::vector<int>& ids, Fixed amount) {
  for (int id : ids) {
    if (id < 0 || id >= static_cast<int>(free_.size())) continue;
    free_[id] = std::min(kUnit, free_[id] + (amount < kUnit ? amount : kUnit));
  }
}

}  // namespace troupe::sched
