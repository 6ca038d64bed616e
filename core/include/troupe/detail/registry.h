// The registry of remote functions: one writable node a function, linked into a list before main.
//
// The id of a function on the wire is its dense 32-bit index after `run` has sorted and frozen the list. The sort key
// is (build id of the module, offset of the node in it): a node is writable data, so it is neither folded nor
// duplicated by the linker, as identical functions may be. Names are for messages only.
//
// Invariants
//   RY-1  After freeze(), nodes and indices do not change. A module opened later cannot register: its calls say so.
//   RY-2  Two processes of the same executable agree on every index; the digest proves it in the handshake.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace troupe::detail {

struct Invocation;
struct Value;
using Invoke = void (*)(Invocation&);

enum class FunctionKind : std::uint8_t { kFunction, kClosure, kMethod, kConstructor, kConverter };

/// What the runtime does with instances of an actor's class. Members are null where the class has no such hook.
struct ClassOperations {
  void (*destroy)(void* instance) = nullptr;
  void (*checkpoint)(const void* instance, Value& out) = nullptr;
  void (*restore)(void* instance, const Value& state) = nullptr;
};

struct FunctionNode {
  FunctionNode(FunctionKind kind, Invoke invoke, const char* pretty,
               const ClassOperations* operations = nullptr) noexcept;
  FunctionNode(const FunctionNode&) = delete;
  FunctionNode& operator=(const FunctionNode&) = delete;

  static constexpr std::uint32_t kUnregistered = 0xFFFFFFFF;

  FunctionKind kind;
  Invoke invoke;
  const char* pretty;  ///< __PRETTY_FUNCTION__ of the entry that made it; function_name() gives the readable part
  const ClassOperations* operations;
  std::uint32_t index = kUnregistered;
  FunctionNode* next = nullptr;
};

/// Sorts and numbers all nodes. Idempotent.
void freeze_registry();
/// Hash over the keys of all nodes and the build ids of their modules, as hex.
const std::string& registry_digest();
/// The node of an index; null when there is none.
const FunctionNode* function_at(std::uint32_t index);
/// "fib" or "Counter::add" out of the pretty string.
std::string function_name(const FunctionNode& node);
/// The class that a constructor's node makes.
std::string class_name(const FunctionNode& node);

}  // namespace troupe::detail
