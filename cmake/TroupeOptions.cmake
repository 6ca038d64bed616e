# What a builder may choose, and the compile rules that hold for every target.
option(TROUPE_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(TROUPE_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(TROUPE_BUILD_APPS "Build the applications and the troupe command" ${PROJECT_IS_TOP_LEVEL})
option(TROUPE_INSTALL "Install Troupe with the project" ${PROJECT_IS_TOP_LEVEL})
option(TROUPE_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
option(BUILD_SHARED_LIBS "Build libtroupe.so instead of libtroupe.a" OFF)
option(TROUPE_HARDENED "Protect store memory at sealing (mprotect)" OFF)
option(TROUPE_FUZZ "Build fuzzers with libFuzzer (clang only); otherwise they run a seeded loop of their own" OFF)
set(TROUPE_FUZZ_SECONDS 20 CACHE STRING "How long each libFuzzer program runs as a test")
set(TROUPE_SANITIZE "" CACHE STRING "address, thread, undefined, or empty")
set(TROUPE_CUDA AUTO CACHE STRING "Build the CUDA plug-in: AUTO, ON or OFF")
set_property(CACHE TROUPE_SANITIZE PROPERTY STRINGS "" address thread undefined)
set_property(CACHE TROUPE_CUDA PROPERTY STRINGS AUTO ON OFF)

# Below another project the build type, the flags and the compile commands are that project's business.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# Batches cut a whole build to a third, and make the rebuild after one change ten times as long: for releases, and
# for who only uses Troupe; not for work.
if(CMAKE_BUILD_TYPE STREQUAL "Release" OR NOT PROJECT_IS_TOP_LEVEL)
  set(unity 16)
else()
  set(unity 0)
endif()
set(TROUPE_UNITY ${unity} CACHE STRING "Files that are compiled together; 0: each alone")
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT DEFINED CMAKE_POSITION_INDEPENDENT_CODE OR BUILD_SHARED_LIBS)  # a shared library has no choice
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()
# -g1: line tables for stacks in errors, without the gigabytes of full debug information.
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_FLAGS_RELWITHDEBINFO STREQUAL "-O2 -g -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
endif()
# Releases are optimized as that, so that what is tested is what is shipped, and a batch compiles a tenth faster (decision
# 014). Kernels and collectives ask for -O3 themselves.
if(PROJECT_IS_TOP_LEVEL AND CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()
set(TROUPE_O3 $<$<CONFIG:Release>:-O3>)
# GCC collects its own garbage at each doubling of a heap that begins at 128 MB at most: a batch takes a sixth longer by it. Where
# there are 2 GB a core it begins at one.
set(TROUPE_COMPILER_MEMORY "")
if(TROUPE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)  # MiB
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR each "${memory} / ${cores}")
  if(each GREATER_EQUAL 2000)
    set(TROUPE_COMPILER_MEMORY --param=ggc-min-heapsize=1000000)
  endif()
endif()

# ccache and mold when they are there: neither is needed. They are looked for once, when a build folder is first configured:
# a tool that is installed later changes no command of a folder that has been built. A user's own choice stands, and that of
# a project around this one.
set(TROUPE_CCACHE "")
if(PROJECT_IS_TOP_LEVEL)
  if(NOT DEFINED CACHE{TROUPE_TOOLS})
    find_program(TROUPE_FOUND_CCACHE ccache)
    find_program(TROUPE_FOUND_MOLD mold)
    set(tools)
    foreach(tool IN ITEMS ${TROUPE_FOUND_CCACHE} ${TROUPE_FOUND_MOLD})
      if(tool)
        list(APPEND tools ${tool})
      endif()
    endforeach()
    set(TROUPE_TOOLS "${tools}" CACHE STRING "ccache and mold, as found when this folder was first configured; empty: neither")
  endif()
  foreach(tool IN LISTS TROUPE_TOOLS)
    if(tool MATCHES "ccache$" AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
      set(TROUPE_CCACHE ${tool})
      set(CMAKE_CXX_COMPILER_LAUNCHER ${tool})
      set(CMAKE_C_COMPILER_LAUNCHER ${tool})
    elseif(tool MATCHES "mold$" AND NOT "${CMAKE_EXE_LINKER_FLAGS}" MATCHES "-fuse-ld")
      add_link_options(-fuse-ld=mold)
    endif()
  endforeach()
endif()

if(TROUPE_SANITIZE)
  add_compile_options(-fsanitize=${TROUPE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TROUPE_SANITIZE})
  if(TROUPE_SANITIZE MATCHES "undefined")
    add_compile_definitions(TROUPE_SANITIZE_UNDEFINED)  # no macro of the compiler says so
    add_compile_options(-fno-sanitize-recover=undefined)
    add_link_options(-fno-sanitize-recover=undefined)
  endif()
  if(TROUPE_SANITIZE MATCHES "thread")
    add_compile_options(-Wno-error=tsan)  # g++ 12 warns of every std::atomic_thread_fence
  endif()
endif()
if(TROUPE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TROUPE_FUZZ needs clang: use the preset fuzz, or -DCMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Warnings are errors, but not for who builds Troupe as a part of something else, with a compiler that we do not know.
# GCC 12 sees uninitialized and overlapping memory in its own containers when it optimizes: those two are left to the
# sanitizers.
set(TROUPE_WARNINGS -Wall -Wextra)
if(TROUPE_WERROR)
  list(APPEND TROUPE_WARNINGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND TROUPE_WARNINGS -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
# For files with AVX-512: GCC 12's own header has deliberately undefined registers that -Wall takes for mistakes of ours.
# Clang knows one of these two flags only, and needs neither.
set(TROUPE_AVX512_WARNINGS $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
