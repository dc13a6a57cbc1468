# The browser's module: clang 22 with wasi-libc and libc++ from Debian's packages, no Emscripten.
# No --sysroot and the plain triple: Debian's headers stand in the compiler's own search path for it.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang-22)
set(CMAKE_CXX_COMPILER clang++-22)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_AR llvm-ar-22)
set(CMAKE_RANLIB llvm-ranlib-22)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_EXECUTABLE_SUFFIX_CXX .wasm)
set(SLM_WASM ON)
set(CMAKE_CXX_FLAGS_INIT "-Wno-deprecated")  # of the triple: only wasm32-wasi finds Debian's headers
set(CMAKE_C_FLAGS_INIT "-Wno-deprecated")
