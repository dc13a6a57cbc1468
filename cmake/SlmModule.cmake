# With SLM_PCH, the standard headers are parsed once for all targets of a kind; a compiler demands that these
# have the same flags, so the first target of a kind makes the header and the others use it.
function(slm_precompile target kind)
  if(NOT SLM_PCH)
    return()
  endif()
  get_property(maker GLOBAL PROPERTY slm_precompiled_${kind})
  if(maker)
    target_precompile_headers(${target} REUSE_FROM ${maker})
  else()
    set(header precompiled.h)
    if(kind STREQUAL "test")
      set(header precompiled_test.h)
    endif()
    target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header})
    set_property(GLOBAL PROPERTY slm_precompiled_${kind} ${target})
  endif()
endfunction()

# slm_module(NAME SOURCES a.cc ... [DEPS base codec ...] [LIBS OpenSSL::Crypto ...]
#            [TESTS a_test.cc ...] [TEST_DEPS ...] [ALONE a.cc ...] [SCALAR] [HOT] [COLD])
# One static library slm_NAME; one test program slm_NAME_test, its cases labelled NAME.
# SCALAR switches the auto-vectorizer off. HOT: the modules for browsers are built for speed where the rest is
# built for size. Both: kernels, which stay out of the optimization at link time. COLD: the sanitized build does
# not optimize it. ALONE: not compiled together with other files where a preset does that (CMAKE_UNITY_BUILD),
# since names of its own collide with theirs.
function(slm_module name)
  cmake_parse_arguments(M "SCALAR;HOT;COLD" "" "SOURCES;DEPS;LIBS;TESTS;TEST_DEPS;ALONE" ${ARGN})
  set_source_files_properties(${M_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_library(slm_${name} STATIC ${M_SOURCES})
  target_link_libraries(slm_${name} PUBLIC slm_flags)
  target_compile_options(slm_${name} PRIVATE -fno-exceptions)
  if(M_SCALAR)
    target_compile_options(slm_${name} PRIVATE ${SLM_SCALAR_FLAGS})
  endif()
  if(M_HOT AND SLM_WASM)
    target_compile_options(slm_${name} PRIVATE -O2 $<$<BOOL:${M_SCALAR}>:-fno-lto>)
  endif()
  if(SLM_SANITIZE AND M_COLD)
    target_compile_options(slm_${name} PRIVATE -O0)
    slm_precompile(slm_${name} cold)
  else()
    slm_precompile(slm_${name} module)
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
  slm_precompile(${program} test)
  gtest_discover_tests(${program} DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${T_LABEL}" TIMEOUT 600)
endfunction()
