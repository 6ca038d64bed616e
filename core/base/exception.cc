#include "core/base/exception.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <typeinfo>
#include <utility>

namespace troupe {
namespace {

// The type and its public bases, read from the compiler's own description of the class: user's classes and standard ones.
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

}  // namespace

std::string demangle(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
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
  const std::type_info* type = abi::__cxa_current_exception_type();
  try {
    throw;
  } catch (const Error& e) {
    return e.record();
  } catch (const std::exception& e) {
    ErrorRecord record = task_record(type);
    record.message = e.what();
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

}  // namespace troupe
