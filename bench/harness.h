// What every measure shares: the timer, samples of latency, and the rows that a program prints.
//
// A measure is one file with one `program`; the main in harness_main.cc runs it, as a driver of an embedded cluster
// when it asks for one. Rates are counted as the field does: warm up for a second, cut the work into steps of a tenth
// of that, then four trials of whole steps for two seconds each; the value is the mean of the four, the spread their
// standard deviation. With --quick all times are a tenth.
//
// What must be reached stands in rows.json, not here: a measure says what it saw.
// Thread rule: one thread, the driver's.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include <troupe/options.h>

namespace troupe::bench {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Row {
  std::string row;
  double value = 0;
  double spread = 0;              ///< standard deviation of the trials, in the row's unit
  std::optional<double> floor{};  ///< what the machine itself needs, measured in the same run
  std::string unit = {};          ///< only for rows that rows.json does not know
  std::string better = {};
  /// Of a cache line, of memory, of two processes over a ring, while this row was measured: bars scale with them.
  std::optional<double> round_trip_ns{}, copy_gb_s{}, ping_pong_us{};
  std::map<std::string, double> peers{};  ///< measured in turns with this row, by name
};

struct Rate {
  double mean = 0, deviation = 0;  ///< per second
};

class Harness {
 public:
  /// `peer_files`: libraries by name that a measure may run in turns with ours.
  Harness(std::string only, bool quick, std::map<std::string, std::string> peer_files = {});

  /// Is any of these rows asked for?
  bool wants(const std::string& row) const;
  bool wants_any(const std::vector<std::string>& rows) const;
  bool quick() const { return quick_; }
  const std::map<std::string, std::string>& peer_files() const { return peer_files_; }
  /// `full` normally, `few` with --quick.
  template <class T> T choose(T full, T few) const { return quick_ ? few : full; }

  /// How often a second `step` runs, times `multiplier`.
  Rate rate(const std::function<void()>& step, double multiplier = 1);
  /// Adds a row when it is wanted.
  void report(Row row);
  /// A row with the rate itself.
  void report_rate(const std::string& row, const Rate& rate) {
    report({.row = row, .value = rate.mean, .spread = rate.deviation});
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::string only_text_;
  std::regex only_;
  bool quick_;
  std::map<std::string, std::string> peer_files_;
  std::vector<Row> rows_;
};

/// Samples of one quantity.
class Samples {
 public:
  void add(double value) { values_.push_back(value); sorted_ = false; }
  std::size_t size() const { return values_.size(); }
  double quantile(double q);
  double median() { return quantile(0.5); }
  double mean() const;
  double deviation() const;

 private:
  std::vector<double> values_;
  bool sorted_ = false;
};

/// Bytes of this or another process that are its own: anonymous pages, not the store's.
double anonymous_bytes(int pid = 0);
/// The same of all processes that run the same executable as this one: driver, workers, daemon, head and launcher.
double anonymous_bytes_of_cluster();
/// CPU seconds used so far by all processes that run the same executable as this one: a whole embedded cluster.
double cpu_seconds_of_cluster();
/// Moves all threads of this process to one CPU, or back to those that it had at the start (-1).
void pin_process(int cpu);
/// The CPUs that this process may use.
std::vector<int> usable_cpus();

/// A round trip between two processes by futex, nothing else. The other process ends with this object.
class FutexFloor {
 public:
  FutexFloor();
  ~FutexFloor();
  FutexFloor(const FutexFloor&) = delete;
  FutexFloor& operator=(const FutexFloor&) = delete;
  void round_trip();
  int pid() const { return child_; }
  /// Keeps the partner on this CPU; -1: anywhere.
  void pin(int cpu);

 private:
  struct Page;
  Page* page_ = nullptr;
  int child_ = -1;
};

/// Processes of somebody else that calculate all the time, one of them a core if there are as many; they end with this
/// object.
class BusyNeighbours {
 public:
  explicit BusyNeighbours(int count);
  ~BusyNeighbours();
  BusyNeighbours(const BusyNeighbours&) = delete;
  BusyNeighbours& operator=(const BusyNeighbours&) = delete;

 private:
  std::vector<int> children_;
};

/// What a measure is. Each file defines `program`.
struct Program {
  std::vector<std::string> rows;            ///< what it reports at most; it is skipped when none of them is wanted
  void (*measure)(Harness&) = nullptr;
  bool runtime = true;                      ///< needs a cluster
  int nodes = 1;                            ///< more: a cluster for tests, on this machine
  double cpus = kUnset;                     ///< of each node
  std::uint64_t object_store_memory = 0;
};
extern const Program program;

}  // namespace troupe::bench
