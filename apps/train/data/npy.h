// Arrays of NumPy files (format 1.0, C order, little-endian): recorded batches and starts.
//
// Any thread. Nothing is believed: the length of the file must be what its header says.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include <troupe/result.h>

namespace troupe::train {

template <class T>
struct NpyArray {
  std::vector<std::size_t> shape;
  std::vector<T> values;
};

/// T: float (<f4), double (<f8) or std::int32_t (<i4); a double array may also be read from <f4 and <i4.
/// Missing: NotFoundError; anything else, another element type too: InvalidArgumentError with the file's name.
template <class T>
Result<NpyArray<T>> read_npy(const std::filesystem::path& path);

}  // namespace troupe::train
