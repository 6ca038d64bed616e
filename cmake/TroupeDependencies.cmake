# The libraries of docs/dependencies.md. Packages are named in cmake/install-deps, nowhere else.
#
# libtroupe.a is joined with the static archives of what it uses, so that programs that link it need none of these
# packages. Debian has fmt and spdlog as shared libraries only: spdlog is used header-only, through troupe_spdlog,
# and fmt is compiled once, in core/base/fmt.cc.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
# The boost_*-config files of Debian offer both. A shared libtroupe cannot hold the static Boost.Fiber: it is not compiled for
# shared libraries (its thread-local variables).
if(BUILD_SHARED_LIBS)
  set(Boost_USE_STATIC_LIBS OFF)
else()
  set(Boost_USE_STATIC_LIBS ON)
endif()
set(Boost_NO_WARN_NEW_VERSIONS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS context fiber json)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)

# Logging and formatting without a shared library: only files that include spdlog depend on this.
add_library(troupe_spdlog INTERFACE)
target_compile_definitions(troupe_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(troupe_spdlog INTERFACE Threads::Threads)

# xxHash is compiled in from its header (XXH_INLINE_ALL): nothing to link.
find_path(TROUPE_XXHASH_INCLUDE xxhash.h)
if(NOT TROUPE_XXHASH_INCLUDE)
  message(FATAL_ERROR "xxhash.h not found: run cmake/install-deps")
endif()
add_library(troupe_xxhash INTERFACE)
target_compile_definitions(troupe_xxhash INTERFACE XXH_INLINE_ALL)

if(TROUPE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(TROUPE_BUILD_APPS)
  find_path(TROUPE_CLI11_INCLUDE CLI/CLI.hpp)
  if(NOT TROUPE_CLI11_INCLUDE)
    message(FATAL_ERROR "CLI/CLI.hpp not found: run cmake/install-deps")
  endif()
endif()
if(TROUPE_BUILD_APPS OR TROUPE_BUILD_TESTS)
  find_package(yaml-cpp QUIET)
  if(NOT yaml-cpp_FOUND)
    message(FATAL_ERROR "yaml-cpp not found: run cmake/install-deps")
  endif()
  set(TROUPE_YAML_CPP yaml-cpp)
endif()
