#include "core/base/exception.h"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>
#include <typeinfo>
#include <utility>

namespace troupe {
namespace {

// The type and its public bases, read from the compiler's own description of the class: user's classes and standard
// ones.
void add_with_bases(const std::type_info* type, std::vector<std::string>& names) {
  names.emplace_back(type->name());
  if (const auto* single = dynamic_cast<const abi::__si_class_type_info*>(type)) {
    add_with_bases(single->__base_type, names);
  } else if (const auto* several = dynamic_cast<const abi::__vmi_class_type_info*>(type)) {
    for (unsigned i = 0; i < several->__base_count; ++i) {
      const abi::__base_class_type_info& base = several->__base_info[i];
      if (base.__is_public_p()) add_with_bases(base.__base_type, names);
    }
  }
}

ErrorRecord task_record(const std::type_info* type) {
  ErrorRecord record;
  record.code = ErrorCode::kTask;
  if (type == nullptr) {
    record.type_name = "unknown";  // an exception of another language
  } else {
    record.type_name = demangle(type->name());
    add_with_bases(type, record.type_bases);
  }
  return record;
}

/// std::throw_with_nested throws a class of its own, with what was thrown as its first base: that is what the user
/// knows.
const std::type_info* thrown_type(const std::type_info* type) {
  if (type == nullptr || !std::string_view(type->name()).starts_with("St17_Nested_exceptionI")) return type;
  const auto* several = dynamic_cast<const abi::__vmi_class_type_info*>(type);
  return several && several->__base_count > 0 ? several->__base_info[0].__base_type : type;
}

/// What the exception was thrown in answer to, and that in turn, a line each: nested exceptions do not travel, their
/// texts do.
template <class E> void add_nested(const E& exception, ErrorRecord& record, int depth = 0) {
  constexpr int kDepthMax = 16;
  if (depth >= kDepthMax) return;
  const auto add = [&record](const std::string& type, const std::string& text) {
    record.message += "\n  because of " + type + (text.empty() ? "" : ": " + text);
  };
  try {
    std::rethrow_if_nested(exception);
  } catch (const Error& inner) {
    add(inner.record().type_name.empty() ? error_name(inner.code()) : inner.record().type_name, inner.message());
    add_nested(inner, record, depth + 1);
  } catch (const std::exception& inner) {
    const std::type_info* type = thrown_type(abi::__cxa_current_exception_type());
    add(type ? demangle(type->name()) : "an exception", inner.what());
    add_nested(inner, record, depth + 1);
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    add(type ? demangle(type->name()) : "an exception", "");
  }
}

/// describe_current_exception but for the length of its message.
ErrorRecord describe_whole() {
  const std::type_info* type = thrown_type(abi::__cxa_current_exception_type());
  try {
    throw;
  } catch (const Error& e) {
    ErrorRecord record = e.record();
    add_nested(e, record);
    return record;
  } catch (const std::exception& e) {
    ErrorRecord record = task_record(type);
    record.message = e.what();
    add_nested(e, record);
    return record;
  } catch (const std::string& text) {
    ErrorRecord record = task_record(type);
    record.message = text;
    return record;
  } catch (const char* text) {
    ErrorRecord record = task_record(type);
    if (text) record.message = text;
    return record;
  } catch (...) {
    return task_record(type);
  }
}

}  // namespace

void cut_message(std::string& message) {
  if (message.size() <= kMessageMax) return;
  const std::string note = " [... cut: the message had " + std::to_string(message.size()) + " bytes]";
  std::size_t end = kMessageMax - note.size();
  // Not inside of a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  message.resize(end);
  message += note;
}

std::string demangle(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         &std::free);
  if (status != 0 || !name) return mangled;
  // Users do not write the marks that the library puts on its own names.
  constexpr std::pair<std::string_view, std::string_view> kMarks[] = {{"std::__cxx11::", "std::"}, {"[abi:cxx11]", ""}};
  std::string text = name.get();
  for (const auto& [mark, plain] : kMarks) {
    for (std::size_t at; (at = text.find(mark)) != std::string::npos;) text.replace(at, mark.size(), plain);
  }
  return text;
}

ErrorRecord describe_current_exception() {
  ErrorRecord record = describe_whole();
  cut_message(record.message);
  return record;
}

}  // namespace troupe
