# slm_module(NAME SOURCES a.cc ... [DEPS base codec ...] [LIBS OpenSSL::Crypto ...]
#            [TESTS a_test.cc ...] [TEST_DEPS ...] [SCALAR] [HOT])
# One static library slm_NAME; one test program slm_NAME_test, its cases labelled NAME.
# SCALAR switches the auto-vectorizer off. HOT is built for speed where the rest is built for size.
function(slm_module name)
  cmake_parse_arguments(M "SCALAR;HOT" "" "SOURCES;DEPS;LIBS;TESTS;TEST_DEPS" ${ARGN})
  add_library(slm_${name} STATIC ${M_SOURCES})
  target_link_libraries(slm_${name} PUBLIC slm_flags)
  target_compile_options(slm_${name} PRIVATE -fno-exceptions)
  if(M_SCALAR)
    target_compile_options(slm_${name} PRIVATE ${SLM_SCALAR_FLAGS})
  endif()
  if(M_HOT AND SLM_WASM)
    target_compile_options(slm_${name} PRIVATE -O2)
  endif()
  foreach(dep IN LISTS M_DEPS)
    target_link_libraries(slm_${name} PUBLIC slm_${dep})
  endforeach()
  target_link_libraries(slm_${name} PRIVATE ${M_LIBS})
  if(SLM_TESTS AND M_TESTS)
    slm_test(slm_${name}_test LABEL ${name} SOURCES ${M_TESTS} DEPS ${name} ${M_TEST_DEPS})
  endif()
endfunction()

# slm_test(PROGRAM LABEL text SOURCES ... DEPS modules ...)
function(slm_test program)
  cmake_parse_arguments(T "" "LABEL" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${program} ${T_SOURCES})
  foreach(dep IN LISTS T_DEPS)
    target_link_libraries(${program} PRIVATE slm_${dep})
  endforeach()
  target_link_libraries(${program} PRIVATE slm_flags GTest::gtest GTest::gtest_main Threads::Threads ${T_LIBS})
  # -O0: the code under test is optimized, its tests need not be. The warnings are those that GoogleTest's
  # macros and small literals give.
  target_compile_options(${program} PRIVATE -O0 -Wno-dangling-else -Wno-shadow -Wno-conversion -Wno-sign-conversion)
  target_compile_definitions(${program} PRIVATE
    SLM_SOURCE_DIR="${CMAKE_SOURCE_DIR}" SLM_SHARED_DIR="${CMAKE_SOURCE_DIR}/../shared")
  gtest_discover_tests(${program} DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${T_LABEL}" TIMEOUT 600)
endfunction()
