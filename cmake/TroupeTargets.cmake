# The few functions with which the folders describe themselves.

# Layers may be named by their short names in DEPENDS: base is troupe_base. Logging goes through the header-only form of
# its libraries, see TroupeDependencies.cmake.
set(TROUPE_LAYERS base wire exec net link task runtime owner caller executor process head node scheduler objectstore kernels collective)
function(troupe_depends out)
  set(depends)
  foreach(item IN LISTS ARGN)
    if(item IN_LIST TROUPE_LAYERS)
      set(item troupe_${item})
    elseif(item MATCHES "^(fmt|spdlog)::")
      set(item troupe_spdlog)
    elseif(item STREQUAL "PkgConfig::XXHASH")
      set(item troupe_xxhash)
    endif()
    list(APPEND depends ${item})
  endforeach()
  list(REMOVE_DUPLICATES depends)
  set(${out} "${depends}" PARENT_SCOPE)
endfunction()

# troupe_batches(target): the compiler gets the target's files in batches (a "unity build"), which parses the headers that
# they share once. With TROUPE_UNITY only; files with compile options of their own stay alone.
function(troupe_batches target)
  if(TROUPE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${TROUPE_UNITY})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # It takes every batched file for a header.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage ${TROUPE_COMPILER_MEMORY})
    endif()
  endif()
endfunction()

# troupe_library(name SOURCES ... DEPENDS ...): one layer; its dependencies stand beside its files. The target is troupe_name,
# whether name says so or not. Layers are static libraries, so that a test links what its layer needs and no more; their
# objects are joined into one libtroupe.a (TroupeLibrary.cmake), which is what users link.
set_property(GLOBAL PROPERTY TROUPE_PIECES "")
function(troupe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  if(NOT name MATCHES "^troupe_")
    set(name troupe_${name})
  endif()
  troupe_depends(depends ${ARG_DEPENDS})
  add_library(${name} STATIC ${ARG_SOURCES})
  troupe_batches(${name})
  target_compile_options(${name} PRIVATE ${TROUPE_WARNINGS})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/include>)
  target_link_libraries(${name} PUBLIC ${depends})
  set_property(GLOBAL APPEND PROPERTY TROUPE_PIECES ${name})
endfunction()

# Everything that the tests need and nothing else: what the sanitizer presets build. Of it the fuzzers: what the preset
# fuzz builds and runs.
if(TROUPE_BUILD_TESTS)
  add_custom_target(troupe_tests)
  add_custom_target(troupe_fuzzers)
endif()

# The label of a test is its folder below tests/: presets choose by it.
function(troupe_test_label out)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  if(folder MATCHES "^\\.\\.")
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  string(REGEX REPLACE "/.*" "" folder "${folder}")
  set(${out} ${folder} PARENT_SCOPE)
endfunction()

# troupe_test(name SOURCES ... DEPENDS ... [LABEL l] [TIMEOUT s] [MAIN own] [WHOLE] [SERIAL]): one GoogleTest program.
# Each of its tests is known to ctest by itself, and a GTEST_SKIP is a skip there. WHOLE: one ctest entry for the program
# (its tests share something dear); tests/run counts its cases all the same. SERIAL: nothing runs beside it.
# MAIN own: the program brings its own main; it must answer --gtest_list_tests before it does anything else.
function(troupe_test name)
  cmake_parse_arguments(ARG "WHOLE;SERIAL" "LABEL;TIMEOUT;MAIN" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${TROUPE_WARNINGS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/core/include)
  troupe_depends(depends ${ARG_DEPENDS})
  target_link_libraries(${name} PRIVATE ${depends} GTest::gtest)
  if(NOT ARG_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(TROUPE_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")  # the slowest, under ThreadSanitizer, takes about so much longer
  endif()
  troupe_test_label(labels)
  list(APPEND labels ${ARG_LABEL})
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${labels}")
    if(ARG_SERIAL)
      set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
    endif()
  else()
    # Lists in PROPERTIES do not survive gtest_discover_tests: one label, the folder.
    list(GET labels 0 label)
    if(ARG_SERIAL)
      set(serial RUN_SERIAL TRUE)
    endif()
    gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 30
      PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${label} ${serial})
  endif()
  add_dependencies(troupe_tests ${name})
endfunction()

# troupe_fuzzer(name SOURCES ... DEPENDS ...): a file with LLVMFuzzerTestOneInput. With TROUPE_FUZZ a libFuzzer program, else
# a program that feeds it seeded inputs for a moment. In both cases ctest knows a short run of it.
function(troupe_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  set(driver)
  if(NOT TROUPE_FUZZ)
    set(driver ${PROJECT_SOURCE_DIR}/cmake/fuzz_driver.cc)
  endif()
  add_executable(${name} ${ARG_SOURCES} ${driver})
  target_compile_options(${name} PRIVATE ${TROUPE_WARNINGS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/core/include)
  troupe_depends(depends ${ARG_DEPENDS})
  target_link_libraries(${name} PRIVATE ${depends})
  if(TROUPE_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -max_total_time=${TROUPE_FUZZ_SECONDS} -seed=1 -print_final_stats=1)
    math(EXPR timeout "300 + ${TROUPE_FUZZ_SECONDS}")
  else()
    set(runs 20000)
    set(timeout 300)
    if(TROUPE_SANITIZE MATCHES "thread")  # an input takes ten times as long, and hardly any is read by two threads
      set(runs 4000)
    endif()
    add_test(NAME ${name} COMMAND ${name} --runs ${runs} --seed 1)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS fuzz)
  add_dependencies(troupe_tests ${name})
  add_dependencies(troupe_fuzzers ${name})
endfunction()

if(TROUPE_BUILD_TESTS)
  include(GoogleTest)
endif()
