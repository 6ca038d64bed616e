// An identifier of HDF5 that closes itself, and its errors as typed ones. Inside of libdatagen_hdf5.so.
#pragma once

#include <string>
#include <utility>

#include <hdf5.h>

#include <troupe/result.h>

namespace datagen {

class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  /// SerializationError, thrown, when `id` is none; `what` could not be done.
  Hdf5Handle(hid_t id, herr_t (*close)(hid_t), const std::string& what) : id_(id), close_(close) {
    if (id < 0) troupe::SerializationError("HDF5 cannot " + what).raise();
  }
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  [[nodiscard]] hid_t get() const { return id_; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

inline void hdf5_done(herr_t status, const std::string& what) {
  if (status < 0) troupe::SerializationError("HDF5 cannot " + what).raise();
}

}  // namespace datagen
