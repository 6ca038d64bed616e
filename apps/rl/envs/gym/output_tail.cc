#include "apps/rl/envs/gym/output_tail.h"

#include <algorithm>

namespace rl {

void OutputTail::add(std::string_view bytes) {
  cut_ = cut_ || bytes_.size() + bytes.size() > most_;
  if (bytes.size() > most_) bytes.remove_prefix(bytes.size() - most_);
  if (bytes_.size() + bytes.size() > most_) bytes_.erase(0, bytes_.size() + bytes.size() - most_);
  bytes_ += bytes;
}

std::vector<std::string> OutputTail::lines(std::size_t count) const {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin < bytes_.size();) {
    const std::size_t end = std::min(bytes_.find('\n', begin), bytes_.size());
    all.push_back(bytes_.substr(begin, end - begin));
    begin = end + 1;
  }
  if (cut_ && all.size() > 1) all.erase(all.begin());
  if (all.size() > count) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(count));
  return all;
}

}  // namespace rl
