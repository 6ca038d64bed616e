// Epochs: what this process knows of the groups of its cluster: their newest epochs, its own ranks in them, and those
// that it has founded. It is where words of other processes arrive (core/process/group_port.h).
//
//   nothing --kFormed, or found in the key-value table--> formed --kFailed--> failed --kFormed, kEnded--> ended
//                                                            `---------------- kFormed, kEnded ------------^
//   nothing --kFailed, kEnded--> told --kFormed--> failed, ended
//   a rank of this process:   formed here --group()--> entering --> entered
//
// Forming tells every member's process, so that nobody asks again and again: group() waits for the word. A rank is
// expected by its daemon from that moment on, so that the others can connect to one that has not called group() yet.
//
// Invariants
//   CEP-1  Of each group the newest epoch is known here, and only that one is entered; when it is replaced or ended,
//          the memory and sockets of the older are failed (kStale) and let go of before the word is answered.
//   CEP-2  A rank is entered once an epoch, by the actor, and the life of it, that the record names. A later life of it
//          that asks in the same epoch, in another process or (a light actor) in the same one, fails it for all.
//   CEP-3  The first failure of an epoch stays its failure here; the founder tells it to all members' processes, once.
//   CEP-4  No lock of this table is held while anything outside of it is called, but for the notify of a listener,
//          which may not go meanwhile and takes no lock.
//   CEP-5  A process that has entered hears of the death of every member's process from its own daemon, with or without
//          a founder: a daemon tells all that live on its node, and the daemons that it has a link with, which entering
//          makes.
//   CEP-6  What a rank waits in for others, memory or sockets, is known here before it waits: also a rank that is
//          entering, where the members tell each other of their GPUs, is woken when its epoch fails or ends.
//   CEP-7  That an epoch has failed or ended may be told before its record: words of different processes, and of
//         different threads of one, overtake each other. It counts when the record comes; it is kept until then, or
//         until a later epoch comes, and of more than kToldMax the oldest is forgotten.
// Thread rule: any thread, without the core's lock.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collective/base/failure.h"
#include "collective/group/member.h"
#include "collective/group/registry.h"
#include "collective/shm/segment.h"
#include "collective/tcp/links.h"
#include "core/exec/waiter.h"
#include "core/process/group_port.h"

namespace troupe::collective {

/// One epoch of one group. Its fields are under the table's lock.
struct Epoch {
  struct Entered {
    int restarts = 0;  // of its actor: the life that has entered
    std::shared_ptr<detail::Member> member;
    std::function<void(std::uint64_t next)> supersede;
  };
  std::string key, name;
  GroupRecord record;
  bool ended = false;
  worker::Core* founder = nullptr;                     // where this process has founded it
  std::optional<Failure> failure;
  std::shared_ptr<ShmSegment> memory;                  // made or opened here; its maker keeps it for its node
  std::map<int, std::shared_ptr<TcpLinks>> links;      // of ranks of this process
  std::set<int> opened, entering;
  std::map<int, Entered> entered;
  std::vector<troupe::detail::ObjectPtr> broken;       // to be told of its end
};

/// Which epoch of a group: its random number, and its place in their order.
struct EpochNumber { std::uint64_t id = 0, epoch = 0; };

/// What all ranks get when an actor comes back in the middle of an epoch (CEP-2).
Failure restarted(const GroupRecord& record, int rank);

class Epochs final : public worker::GroupPort {
 public:
  static Epochs& instance();

  /// What a rank may do: use what it has, wait for a word, or enter and say how that ended.
  struct Admission {
    enum class Kind { kUse, kWait, kEnter, kForeign, kRestarted } kind = Kind::kWait;
    int rank = -1;
    int restarts = 0;  // of the seeker
    std::shared_ptr<Epoch> epoch;
    std::shared_ptr<detail::Member> member;
    std::shared_ptr<TcpLinks> links;
  };
  struct Seeker { std::string actor; int restarts = 0; std::uint64_t after_epoch = 0; };
  Admission admit(worker::Core& core, const std::string& key, const Seeker& seeker);
  /// Before a rank that enters waits in its memory (CEP-6). Fails it at once where the epoch has failed or ended
  /// meanwhile.
  void opened(const std::shared_ptr<Epoch>& epoch, const std::shared_ptr<ShmSegment>& memory);
  /// What became of an entrance (kEnter). Fails it at once where the epoch has failed or ended meanwhile.
  void enter(const std::shared_ptr<Epoch>& epoch, int rank, Epoch::Entered entered);
  void give_up(const std::shared_ptr<Epoch>& epoch, int rank);

  /// A record that was found, or that `founder` of this process has made. Opens the places of this process's ranks.
  void learn(worker::Core& core, const std::string& key, const GroupRecord& record, worker::Core* founder = nullptr);
  /// This process is the founder; null when a newer epoch is known by now.
  std::shared_ptr<Epoch> found(worker::Core& core, const std::string& key, const GroupRecord& record);
  std::shared_ptr<Epoch> founded(worker::Core& core, const std::string& key);
  void end(worker::Core& core, const std::string& key, EpochNumber which);
  void fail(worker::Core& core, const std::string& key, EpochNumber which, const Failure& failure);
  /// What a rank of this process has seen: the founder tells all.
  void report(worker::Core& core, const Epoch& epoch, const Failure& failure);
  /// Before a rank of this process enters: are the others there? From then on each death among them is heard here
  /// (CEP-5).
  void ask_after(worker::Core& core, const Epoch& epoch);
  /// Completed when the epoch ends, however it does.
  void tell_end(const std::shared_ptr<Epoch>& epoch, troupe::detail::ObjectPtr ref);

  /// Notified at every change, while it lives.
  class Listener {
   public:
    Listener(Epochs& epochs, exec::Waiter& waiter);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    Epochs& epochs_;
    exec::Waiter& waiter_;
  };

  Result<wire::GroupAnswer> word(worker::Core& core, ProcessId from, const wire::GroupWord& word) override;
  void socket(worker::Core& core, const wire::RankSocket& what, UniqueFd fd) override;
  void actor_moved(worker::Core& core, const wire::ActorLocation& location) override;
  void process_died(worker::Core& core, ProcessId process, const std::string& why) override;
  void node_died(worker::Core& core, std::uint32_t node, const std::string& why) override;

 private:
  /// What is to be done to a replaced, ended or failed epoch, taken out under the lock and done without it (CEP-4).
  struct Parts {
    std::vector<Epoch::Entered> entered;
    std::vector<std::shared_ptr<TcpLinks>> links;
    std::shared_ptr<ShmSegment> memory;
    std::vector<troupe::detail::ObjectPtr> broken;
    worker::Core* founder = nullptr;
  };
  /// More than that many epochs are not under way in one process at once.
  static constexpr std::size_t kToldMax = 256;
  /// What was told of an epoch that is not known yet (CEP-7). Without a failure: it has ended.
  struct Told {
    std::string slot;
    EpochNumber which;
    std::optional<Failure> failure;
  };
  static std::string slot(worker::Core& core, const std::string& key);
  std::shared_ptr<Epoch> newest(worker::Core& core, const std::string& key);
  std::shared_ptr<Epoch> known_or_told(const Told& told);
  std::optional<Told> take_told(const std::string& slot, EpochNumber which);
  static Parts take_parts(Epoch& epoch);
  static void finish(const Epoch& epoch, Parts parts, std::uint64_t next);
  void open_ranks(worker::Core& core, const std::shared_ptr<Epoch>& epoch);
  void lose(worker::Core& core, const std::function<bool(ProcessId)>& gone, const std::string& why);
  void wake();
  Result<wire::GroupAnswer> make_memory(worker::Core& core, const wire::GroupWord& word);

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Epoch>> epochs_;                                 // by cluster and record key
  struct Made { std::uint64_t epoch = 0; std::shared_ptr<ShmSegment> memory; };
  // by slot and group: its record is not known yet
  std::map<std::pair<std::string, std::uint64_t>, Made> made_;
  std::deque<Told> told_;
  std::set<exec::Waiter*> listeners_;
};

}  // namespace troupe::collective
