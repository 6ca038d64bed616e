// The memory behind device arrays, and how other processes read it: owners and importers are devices of the fake, each
// with imports of its own. Over fakes: gpu_ranks.h.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <numeric>
#include <thread>

#include "collective/device/device_storage.h"
#include "tests/collective/gpu_ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;

class DeviceStorageTest : public OnFakes {
 protected:
  static std::shared_ptr<DeviceStorage> counted(const std::shared_ptr<GpuDevice>& device, std::int32_t first,
                                                std::size_t n = 1000) {
    auto storage = DeviceStorage::make(device, n * sizeof first).value();
    std::vector<std::int32_t> host(n);
    std::iota(host.begin(), host.end(), first);
    storage->copy_from(host.data());
    return storage;
  }
  static std::vector<std::int32_t> read(const DeviceStorage& storage) {
    std::vector<std::int32_t> host(storage.bytes() / sizeof(std::int32_t));
    storage.copy_to(host.data());
    return host;
  }
  static DeviceTicket ticket_of(DeviceStorage& storage, std::uint64_t number = 1) {
    storage.freeze();
    std::string why;
    return storage.ticket(77, number, why);
  }
};

TEST_F(DeviceStorageTest, CopiesThereAndBackInPieces) {
  auto device = fake_device(0);
  auto storage = counted(device, 5, 700'001);
  const auto back = read(*storage);
  EXPECT_EQ(back.front(), 5);
  EXPECT_EQ(back.back(), 700'005);
  EXPECT_FALSE(storage->frozen());
}

// GD-4: a copy to the host comes after the kernel that made what is copied.
TEST_F(DeviceStorageTest, ACopyComesAfterTheKernelsOfTheDefaultStream) {
  auto device = fake_device(0);
  device->use();
  auto storage = DeviceStorage::make(device, sizeof(std::int32_t)).value();
  std::promise<void> go;
  FakeCuda::launch_on_default([&, gate = go.get_future().share()] {
    gate.wait();
    const std::int32_t value = 42;
    std::memcpy(storage->data(), &value, sizeof value);
  });
  std::thread opener([&] { go.set_value(); });
  EXPECT_EQ(read(*storage)[0], 42);
  opener.join();
}

// D.10: pinned memory is made once, not at each copy: to make some may wait for a kernel that waits for another rank.
TEST_F(DeviceStorageTest, CopiesUseTheSamePinnedMemory) {
  auto device = fake_device(0);
  auto storage = counted(device, 5);
  const int pinned = FakeCuda::instance().made_pinned;
  EXPECT_GT(pinned, 0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(read(*storage)[1], 6);
  EXPECT_EQ(FakeCuda::instance().made_pinned, pinned);
}

// DS-1, DS-2, DS-3
TEST_F(DeviceStorageTest, ASlabIsImportedOnceAndClosedWithItsLastArray) {
  auto owner = fake_device(0), reader = fake_device(0);
  auto one = counted(owner, 10), two = counted(owner, 20);
  const DeviceTicket first = ticket_of(*one, 1), second = ticket_of(*two, 2);
  EXPECT_TRUE(one->frozen());
  EXPECT_EQ(first.by_ipc, 1u);
  EXPECT_EQ(first.slab, second.slab);
  EXPECT_NE(first.offset, second.offset);
  SlabImports imports;
  auto keep = std::make_shared<int>(0);
  auto got = DeviceStorage::import(reader, first, imports, keep).value();
  auto also = DeviceStorage::import(reader, second, imports, keep).value();
  EXPECT_TRUE(got->frozen());
  EXPECT_EQ(FakeCuda::instance().opened, 1);
  EXPECT_EQ(read(*got)[999], 1009);
  EXPECT_EQ(read(*also)[999], 1019);
  EXPECT_EQ(keep.use_count(), 3) << "as long as they live";
  got.reset();
  EXPECT_EQ(FakeCuda::instance().counts().imports, 1);
  also.reset();
  EXPECT_EQ(FakeCuda::instance().counts().imports, 0);
  EXPECT_EQ(keep.use_count(), 1);
}

// DVA-3: whoever reads comes after what was on the owner's stream.
TEST_F(DeviceStorageTest, AnImporterComesAfterWhatTheOwnerHadToDo) {
  auto owner = fake_device(0), reader = fake_device(0);
  auto storage = DeviceStorage::make(owner, sizeof(std::int32_t)).value();
  std::promise<void> go;
  FakeCuda::enqueue(owner->copy_stream(), [&, gate = go.get_future().share()] {
    gate.wait();
    const std::int32_t value = 42;
    std::memcpy(storage->data(), &value, sizeof value);
  });
  SlabImports imports;
  auto got = DeviceStorage::import(reader, ticket_of(*storage), imports, nullptr).value();
  go.set_value();
  EXPECT_EQ(read(*got)[0], 42);
}

// Where CUDA refuses: the owner says so in the ticket, the importer with an error that says what to do.
TEST_F(DeviceStorageTest, IpcRefused) {
  auto owner = fake_device(0), reader = fake_device(0);
  auto storage = counted(owner, 1);
  const DeviceTicket good = ticket_of(*storage);
  FakeCuda::instance().faults.ipc = kCudaNotSupported;
  std::string why;
  EXPECT_EQ(storage->ticket(77, 1, why).by_ipc, 0u);
  EXPECT_NE(why.find("not supported"), std::string::npos) << why;
  SlabImports imports;
  const auto none = DeviceStorage::import(reader, good, imports, nullptr);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(std::string(none.error().what()).find("TROUPE_DEVICE_IPC=0"), std::string::npos) << none.error().what();
}

TEST_F(DeviceStorageTest, AnotherGpuCannotReadIt) {
  auto owner = fake_device(0), reader = fake_device(1);
  auto storage = counted(owner, 1);
  SlabImports imports;
  EXPECT_FALSE(DeviceStorage::import(reader, ticket_of(*storage), imports, nullptr).ok());
}

// DM-2: the memory of arrays that are gone is used again.
TEST_F(DeviceStorageTest, ManyArraysTakeOneSlab) {
  auto device = fake_device(0);
  for (int k = 0; k < 200; ++k) EXPECT_EQ(read(*counted(device, k, 50'000))[7], k + 7);
  EXPECT_EQ(FakeCuda::instance().counts().allocations, 1);
}

/// What a launch owns: an event of the device, given back late. It waits until the device has destroyed its streams,
/// which it does last; a device that waits for the launch instead gets the event after 300 ms.
class LetGoOfLate {
 public:
  explicit LetGoOfLate(GpuDevice& device) : device_(device), event_(device.take_event()) {}
  ~LetGoOfLate() {
    const auto until = Clock::now() + std::chrono::milliseconds(300);
    while (FakeCuda::instance().counts().streams != 0 && Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    device_.give_event(event_);
  }

 private:
  GpuDevice& device_;
  void* const event_;
};

// LD-3, CLA-3: its event is destroyed with the device's others; OnFakes counts what is left.
TEST_F(DeviceStorageTest, TheLauncherMayLetGoOfAnOperationAfterAllOthers) {
  ASSERT_EQ(FakeCuda::instance().counts().streams, 0);
  auto device = GpuDevice::open(fake_tables(), 0, fake_limits()).value();
  std::promise<void> launched;
  auto number = device->launcher().take_number();
  device->launcher().submit(*number, [&, operation = std::make_shared<LetGoOfLate>(*device)] { launched.set_value(); });
  launched.get_future().wait();
  device.reset();
  EXPECT_EQ(FakeCuda::instance().counts().streams, 0);
}

// A DeviceArray knows its group: not over NCCL, it is refused by name, and the group stays whole (GR-2).
TEST_F(DeviceStorageTest, AGroupThatIsNotOverNcclRefusesDeviceArrays) {
  struct Fake {  // what the operations ask of a DeviceArray
    float* data() { return &value; }
    const float* data() const { return &value; }
    std::size_t size() const { return 1; }
    int device() const { return 0; }
    Stream stream() const { return {}; }
    float value = 1;
  };
  static_assert(detail::OnDevice<Fake> && !detail::OnDevice<std::vector<float>>);
  on_threads({.ranks = 2}, [](Group g) {
    Fake array;
    EXPECT_THROW(g.all_reduce(array), InvalidArgumentError);
    std::vector<float> host{1};
    g.all_reduce(host);
    EXPECT_EQ(host[0], 2);
  });
}

}  // namespace
}  // namespace troupe::collective
