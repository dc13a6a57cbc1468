# Flags of every target. Floating point is never contracted or reassociated: a build that makes
# a claim must give the same bits on every compiler (OPS-05).
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT SLM_WASM)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()

set(SLM_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")

find_program(SLM_CCACHE ccache)
if(SLM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLM_CCACHE})
endif()

add_library(slm_flags INTERFACE)
target_include_directories(slm_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(slm_flags INTERFACE
  -ffp-contract=off
  -fno-rtti
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.
  -ffile-prefix-map=${CMAKE_BINARY_DIR}=build
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror -Werror=date-time)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these of std::string's own code (its bugs 105329, 105651); clang and the sanitizers look too.
  target_compile_options(slm_flags INTERFACE -Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict
    -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(CMAKE_UNITY_BUILD)
  # A name of one file may shadow another file's there; the builds of single files look for shadows.
  # And g++ takes a file's own types for those of a header.
  target_compile_options(slm_flags INTERFACE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(SLM_WASM)
  # Sizes and offsets of files are 64 bits everywhere; what is allocated from them is bounded first (base/checked.h).
  # One thread: no guards around what is made once.
  target_compile_options(slm_flags INTERFACE -Wno-shorten-64-to-32 -fno-threadsafe-statics)
endif()
if(SLM_SANITIZE)
  target_compile_options(slm_flags INTERFACE -fsanitize=${SLM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Half of the compile time, for what the address sanitizer finds too.
  target_compile_options(slm_flags INTERFACE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=object-size>)
  target_link_options(slm_flags INTERFACE -fsanitize=${SLM_SANITIZE})
endif()
target_link_options(slm_flags INTERFACE -Wl,--build-id=sha1)

# Scalar means scalar: no vectorizer touches the code that makes the reference claim.
set(SLM_SCALAR_FLAGS)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(SLM_SCALAR_FLAGS -fno-vectorize -fno-slp-vectorize)
else()
  set(SLM_SCALAR_FLAGS -fno-tree-vectorize -fno-tree-slp-vectorize)
endif()

# Archives without times or user ids (BKD-03).
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_AR> qD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")
